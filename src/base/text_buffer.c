#include "base/text_buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"

void ommai_text_free(struct ommai_text *text) {
  if (text->allocator) ommai_release(text->allocator, text->data, text->capacity, 1);
  *text = ommai_text_of(text->allocator);
}

void ommai_text_lend(struct ommai_text *text, void *memory, size_t capacity) {
  *text = (struct ommai_text){.data = memory, .capacity = capacity};
}

bool ommai_text_reserve(struct ommai_text *text, size_t more) {
  size_t needed, capacity;
  if (text->failed) return false;
  if (!ommai_add_size(text->size, more, &needed)) goto failed;
  if (needed <= text->capacity) return true;
  if (!text->allocator) goto failed;
  if (!ommai_mul_size(text->capacity, 2, &capacity) || capacity < needed) capacity = needed;
  if (capacity < 256) capacity = 256;
  char *data = ommai_allocate(text->allocator, capacity, 1);
  if (!data) goto failed;
  if (text->size) memcpy(data, text->data, text->size);
  ommai_release(text->allocator, text->data, text->capacity, 1);
  text->data = data;
  text->capacity = capacity;
  return true;
failed:
  text->failed = true;
  return false;
}

void ommai_text_append(struct ommai_text *text, const char *data, size_t size) {
  if (!size || !ommai_text_reserve(text, size)) return;
  memcpy(text->data + text->size, data, size);
  text->size += size;
}

void ommai_text_add(struct ommai_text *text, const char *string) { ommai_text_append(text, string, strlen(string)); }

void ommai_text_format(struct ommai_text *text, const char *format, ...) {
  char piece[1024];
  va_list arguments;
  va_start(arguments, format);
  int size = vsnprintf(piece, sizeof piece, format, arguments);
  va_end(arguments);
  if (size < 0) return;
  ommai_text_append(text, piece, (size_t)size < sizeof piece ? (size_t)size : sizeof piece - 1);
}

static bool is_tail(unsigned char byte) { return (byte & 0xc0u) == 0x80u; }

size_t ommai_utf8_length(const unsigned char *data, size_t size) {
  unsigned char first = data[0];
  if (first < 0x80u) return 1;
  if (first < 0xc2u) return 0;
  if (first < 0xe0u) return size >= 2 && is_tail(data[1]) ? 2 : 0;
  if (first < 0xf0u) {
    if (size < 3 || !is_tail(data[1]) || !is_tail(data[2])) return 0;
    if (first == 0xe0u && data[1] < 0xa0u) return 0; /* overlong */
    if (first == 0xedu && data[1] > 0x9fu) return 0; /* surrogate */
    return 3;
  }
  if (first > 0xf4u || size < 4 || !is_tail(data[1]) || !is_tail(data[2]) || !is_tail(data[3])) return 0;
  if (first == 0xf0u && data[1] < 0x90u) return 0;
  if (first == 0xf4u && data[1] > 0x8fu) return 0;
  return 4;
}

bool ommai_hex_read(const char *text, size_t n, uint32_t *value) {
  static const char DIGITS[] = "0123456789abcdef0123456789ABCDEF";
  *value = 0;
  for (size_t i = 0; i < n; i++) {
    const char *found = text[i] ? strchr(DIGITS, text[i]) : NULL;
    if (!found) return false;
    *value = *value << 4 | (uint32_t)(found - DIGITS) % 16;
  }
  return true;
}

bool ommai_percent_decode(const char *text, size_t size, char *out, size_t capacity) {
  size_t length = 0;
  for (size_t i = 0; i < size; i++) {
    uint32_t byte = (unsigned char)text[i];
    if (text[i] == '%') {
      if (size - i < 3 || !ommai_hex_read(text + i + 1, 2, &byte)) return false;
      i += 2;
    }
    if (byte == 0 || length + 1 >= capacity) return false;
    out[length++] = (char)byte;
  }
  out[length] = '\0';
  return true;
}
