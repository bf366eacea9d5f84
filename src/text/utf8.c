#include "text/utf8.h"

#include <string.h>

static const char replacement[3] = "\xEF\xBF\xBD";

/* Bytes of the sequence that `lead` begins, and the range of its second byte; 0 where no sequence
 * begins so. The narrowed ranges exclude overlong forms, surrogates and values past U+10FFFF. */
static size_t sequence(unsigned char lead, unsigned char *low, unsigned char *high) {
  *low = 0x80;
  *high = 0xBF;
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) {
    if (lead == 0xE0) *low = 0xA0;
    if (lead == 0xED) *high = 0x9F;
    return 3;
  }
  if (lead > 0xF4) return 0;
  if (lead == 0xF0) *low = 0x90;
  if (lead == 0xF4) *high = 0x8F;
  return 4;
}

enum ommai_utf8_kind ommai_utf8_next(const char *text, size_t size, size_t *length, uint32_t *code_point) {
  static const unsigned char lead_bits[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  const unsigned char *bytes = (const unsigned char *)text;
  unsigned char low, high;
  size_t n = sequence(bytes[0], &low, &high);
  *length = 1;
  if (n == 0) return OMMAI_UTF8_INVALID;
  uint32_t value = bytes[0] & lead_bits[n];
  for (size_t i = 1; i < n; i++) {
    *length = i;
    if (i == size) return OMMAI_UTF8_INCOMPLETE;
    if (bytes[i] < low || bytes[i] > high) return OMMAI_UTF8_INVALID;
    value = value << 6 | (bytes[i] & 0x3Fu);
    low = 0x80;
    high = 0xBF;
  }
  *length = n;
  *code_point = value;
  return OMMAI_UTF8_VALID;
}

uint32_t ommai_utf8_decode(const char *text, size_t *length) {
  const unsigned char *b = (const unsigned char *)text;
  if (b[0] < 0x80) {
    *length = 1;
    return b[0];
  }
  if (b[0] < 0xE0) {
    *length = 2;
    return (b[0] & 0x1Fu) << 6 | (b[1] & 0x3Fu);
  }
  if (b[0] < 0xF0) {
    *length = 3;
    return (b[0] & 0x0Fu) << 12 | (b[1] & 0x3Fu) << 6 | (b[2] & 0x3Fu);
  }
  *length = 4;
  return (b[0] & 0x07u) << 18 | (b[1] & 0x3Fu) << 12 | (b[2] & 0x3Fu) << 6 | (b[3] & 0x3Fu);
}

size_t ommai_utf8_encode(uint32_t code_point, char out[OMMAI_UTF8_MAX_BYTES]) {
  if (code_point < 0x80) {
    out[0] = (char)code_point;
    return 1;
  }
  size_t n = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
  static const unsigned char lead[5] = {0, 0, 0xC0, 0xE0, 0xF0};
  for (size_t i = n - 1; i > 0; i--) {
    out[i] = (char)(0x80 | (code_point & 0x3F));
    code_point >>= 6;
  }
  out[0] = (char)(lead[n] | code_point);
  return n;
}

size_t ommai_utf8_ascii_run(const char *text, size_t size) {
  size_t at = 0;
  for (; size - at >= 8; at += 8) {
    uint64_t word;
    memcpy(&word, text + at, sizeof word);
    if (word & 0x8080808080808080u) break;
  }
  while (at < size && (unsigned char)text[at] < 0x80) at++;
  return at;
}

bool ommai_utf8_valid(const char *text, size_t size, size_t *offset) {
  for (size_t at = 0;;) {
    at += ommai_utf8_ascii_run(text + at, size - at);
    if (at == size) return true;
    size_t length;
    uint32_t code_point;
    if (ommai_utf8_next(text + at, size - at, &length, &code_point) != OMMAI_UTF8_VALID) {
      *offset = at;
      return false;
    }
    at += length;
  }
}

size_t ommai_utf8_replace(const char *text, size_t size, char *out, size_t capacity) {
  size_t written = 0;
  for (size_t at = 0; at < size;) {
    size_t length;
    uint32_t code_point;
    bool valid = ommai_utf8_next(text + at, size - at, &length, &code_point) == OMMAI_UTF8_VALID;
    size_t n = valid ? length : sizeof replacement;
    if (out && n <= capacity && written <= capacity - n) memcpy(out + written, valid ? text + at : replacement, n);
    written += n;
    at += length;
  }
  return written;
}

bool ommai_utf8_white_space(uint32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || c == 0x20;
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}
