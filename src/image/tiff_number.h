/* Numbers of a TIFF structure, whose order of bytes its head states. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { OMMAI_TIFF_HEADER_BYTES = 8, OMMAI_TIFF_ENTRY_BYTES = 12 };

/* Whether the bytes begin as those of a TIFF structure, all of whose head is there. */
static inline bool ommai_tiff_begins(const uint8_t *bytes, size_t size) {
  return size >= OMMAI_TIFF_HEADER_BYTES && (memcmp(bytes, "II*\0", 4) == 0 || memcmp(bytes, "MM\0*", 4) == 0);
}

/* A number of 1 to 4 bytes. */
static inline uint32_t ommai_tiff_number(const uint8_t *bytes, int n_bytes, bool little) {
  uint32_t value = 0;
  for (int i = 0; i < n_bytes; i++) value = value << 8 | bytes[little ? n_bytes - 1 - i : i];
  return value;
}
