#include "text/byte_alphabet.h"

#include "text/utf8.h"

/* The byte of a code point, or -1. */
static int byte_of(uint32_t c) {
  enum { FIRST = 0x100, N_CONTROL = 0x21, N_MIDDLE = 0xA1 - 0x7F };
  if ((c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF)) return (int)c;
  if (c < FIRST) return -1;
  uint32_t index = c - FIRST;
  if (index < N_CONTROL) return (int)index;
  if (index < N_CONTROL + N_MIDDLE) return (int)(0x7F + index - N_CONTROL);
  return index == N_CONTROL + N_MIDDLE ? 0xAD : -1;
}

bool ommai_byte_alphabet_decode(const char *text, size_t size, char *out, size_t *out_size) {
  size_t written = 0, length;
  for (size_t at = 0; at < size; at += length) {
    int byte = byte_of(ommai_utf8_decode(text + at, &length));
    if (byte < 0) return false;
    out[written++] = (char)byte;
  }
  *out_size = written;
  return true;
}
