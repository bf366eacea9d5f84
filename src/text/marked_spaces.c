#include "text/marked_spaces.h"

#include <stdbool.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"

static const char mark[] = "\xE2\x96\x81";
enum { MARK_SIZE = sizeof mark - 1 };

size_t ommai_marked_spaces_decode(const char *text, size_t size, char *out) {
  size_t written = 0;
  for (size_t at = 0; at < size;) {
    bool marked = size - at >= MARK_SIZE && memcmp(text + at, mark, MARK_SIZE) == 0;
    out[written++] = marked ? ' ' : text[at];
    at += marked ? MARK_SIZE : 1;
  }
  return written;
}

int ommai_marked_spaces_byte(const char *text, size_t size) {
  static const char digits[] = "0123456789ABCDEF";
  if (size != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>' || !text[3] || !text[4]) return -1;
  const char *high = strchr(digits, text[3]), *low = strchr(digits, text[4]);
  return high && low ? (int)(high - digits) * 16 + (int)(low - digits) : -1;
}

enum omma_status ommai_marked_spaces_normalize(const char *text, size_t size, const struct omma_allocator *allocator,
                                               struct ommai_nfc_text *out, struct omma_error *error) {
  *out = (struct ommai_nfc_text){.text = text, .size = size};
  if (!memmem(text, size, mark, MARK_SIZE)) return OMMA_OK;
  out->memory = ommai_allocate(allocator, size, 1);
  if (!out->memory) return ommai_fail_memory(error, "text", size);
  out->capacity = size;
  out->text = out->memory;
  out->size = ommai_marked_spaces_decode(text, size, out->memory);
  return OMMA_OK;
}
