/* Unicode normalisation form C (UAX #15). Canonical order is made here in n log n: a text of marks
 * alone must not cost more. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <stddef.h>

/* A normalised text: `text` is the input itself where that is in form C already, else memory to
 * give back with ommai_nfc_release. The Unicode version is that of the official tokenizers
 * (unicode.h). */
struct ommai_nfc_text {
  const char *text;
  size_t size;
  char *memory;
  size_t capacity;
};

/* Form C of a text has at least its bytes divided by this: the most is 7 to 2, for U+1FBE U+0308
 * U+0301. */
#define OMMAI_NFC_MAX_SHRINKING 4

/* Normalises `size` bytes of valid UTF-8. The result has at most 3 * size bytes. Thread-safe.
 * Errors: MEMORY, LIMIT. */
enum omma_status ommai_nfc(const char *text, size_t size, const struct omma_allocator *allocator, struct ommai_nfc_text *out,
                           struct omma_error *error);

/* Gives back the memory; a zeroed struct is allowed. */
void ommai_nfc_release(struct ommai_nfc_text *text, const struct omma_allocator *allocator);
