#include "text/detokenizer.h"

#include <string.h>

/* The bytes at the end of text that may be the beginning of a valid character; 0 to 3. */
static size_t unfinished_tail(const char *text, size_t size) {
  size_t max_bytes = size < OMMAI_UTF8_MAX_BYTES - 1 ? size : OMMAI_UTF8_MAX_BYTES - 1;
  for (size_t n = max_bytes; n > 0; n--) {
    size_t length;
    uint32_t code_point;
    if (ommai_utf8_next(text + size - n, n, &length, &code_point) == OMMAI_UTF8_INCOMPLETE) return n;
  }
  return 0;
}

size_t ommai_detokenizer_push(struct ommai_detokenizer *detokenizer, const struct ommai_tokenizer *tokenizer, int32_t id,
                              bool skip_special, char *out) {
  const char *bytes;
  size_t size;
  bool special;
  ommai_tokenizer_token_bytes(tokenizer, id, &bytes, &size, &special);
  if (special && skip_special) return 0;
  char text[OMMAI_UTF8_MAX_BYTES + OMMAI_VOCABULARY_MAX_TOKEN_BYTES];
  memcpy(text, detokenizer->pending, detokenizer->n_pending);
  memcpy(text + detokenizer->n_pending, bytes, size);
  size += detokenizer->n_pending;
  size_t tail = unfinished_tail(text, size);
  memcpy(detokenizer->pending, text + size - tail, tail);
  detokenizer->n_pending = tail;
  return ommai_utf8_replace(text, size - tail, out, OMMAI_DETOKENIZER_MAX_OUTPUT);
}

size_t ommai_detokenizer_flush(struct ommai_detokenizer *detokenizer, char *out) {
  size_t size = detokenizer->n_pending;
  detokenizer->n_pending = 0;
  return ommai_utf8_replace(detokenizer->pending, size, out, OMMAI_DETOKENIZER_MAX_OUTPUT);
}
