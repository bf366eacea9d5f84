/* A growing byte buffer. A failed allocation is remembered instead of reported at each call. Not
 * thread-safe. */
#pragma once

#include <omma/host.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ommai_text {
  const struct omma_allocator *allocator; /* NULL: the memory is lent */
  char *data;
  size_t size, capacity;
  bool failed; /* memory ran out; the content is incomplete */
};

/* An empty one. */
static inline struct ommai_text ommai_text_of(const struct omma_allocator *allocator) {
  return (struct ommai_text){.allocator = allocator};
}
void ommai_text_free(struct ommai_text *text);
/* In memory of the caller's, of `capacity` bytes, which it never outgrows. */
void ommai_text_lend(struct ommai_text *text, void *memory, size_t capacity);

/* Makes room for `more` bytes after the content. False when memory is out (then `failed` is
 * set). */
bool ommai_text_reserve(struct ommai_text *text, size_t more);

void ommai_text_append(struct ommai_text *text, const char *data, size_t size);
void ommai_text_add(struct ommai_text *text, const char *string);
/* For short pieces: at most 1,023 bytes of output, longer output is cut. */
void ommai_text_format(struct ommai_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The length of the valid UTF-8 character at `data`, 0 where there is none. size is at least 1. */
size_t ommai_utf8_length(const unsigned char *data, size_t size);

/* The value of `n` hexadecimal digits, at most 8. False at the first that is none, such as the end
 * of a string. */
bool ommai_hex_read(const char *text, size_t n, uint32_t *value);
/* A string out of text [size], each %HH taken back. False: a bad escape, a NUL, or no room. */
bool ommai_percent_decode(const char *text, size_t size, char *out, size_t capacity);
