/* A tokenizer's files: tokenizer.json, or (where the bytes do not begin like an object)
 * tiktoken.model; after a NUL, tokenizer_config.json. Whatever is accepted encodes and decodes any
 * text within its stated sizes. */
#include <string.h>

#include "base/allocator.h"
#include "fuzz_folder.h"
#include "fuzz_input.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

static void use(const struct ommai_tokenizer *tokenizer) {
  static const char text[] = "Hello, w\xc3\xb6rld 123\n\n  <|im_end|> \xe2\x80\xa6 e\xcc\x81 \xf0\x9f\x98\x80'll";
  int32_t ids[3 * sizeof text];
  size_t count = 0, size = 0, counted = 0;
  for (int added = 0; added < 2; added++) {
    if (ommai_tokenizer_encode(tokenizer, text, sizeof text - 1, added, ids, 3 * sizeof text, &count, NULL) != OMMA_OK)
      continue;
    FUZZ_CHECK(count <= 3 * (sizeof text - 1));
    FUZZ_CHECK(ommai_tokenizer_decode(tokenizer, ids, count, false, NULL, 0, &size, NULL) != OMMA_OK || size < 1 << 24);
    for (size_t i = 0; i < count; i++) FUZZ_CHECK(ids[i] >= 0 && ids[i] < ommai_tokenizer_vocab_size(tokenizer));
  }
  for (size_t limit = 1; limit < 20; limit += 6) {
    if (ommai_tokenizer_count(tokenizer, text, sizeof text - 1, limit, &counted, NULL) != OMMA_OK) continue;
    FUZZ_CHECK(count < limit ? counted == count : counted >= limit && counted <= count);
  }
  struct ommai_detokenizer detokenizer = {.n_pending = 0};
  char out[OMMAI_DETOKENIZER_MAX_OUTPUT];
  for (int32_t id = -1; id < 300; id++) {
    FUZZ_CHECK(ommai_detokenizer_push(&detokenizer, tokenizer, id, id % 2, out) <= sizeof out);
  }
  FUZZ_CHECK(ommai_detokenizer_flush(&detokenizer, out) <= 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static const char *const files[2][2] = {{"tokenizer.json", "tokenizer_config.json"},
                                          {"tiktoken.model", "tokenizer_config.json"}};
  bool is_ranks = size > 0 && !strchr("{ \t\r\n", bytes[0]);
  fuzz_folder_fill(files[!is_ranks], 1, NULL, 0);
  fuzz_folder_fill(files[is_ranks], 2, bytes, size);
  struct ommai_tokenizer *tokenizer = NULL;
  struct omma_error error = {.status = OMMA_OK};
  enum omma_status status = ommai_tokenizer_load(fuzz_folder(), &ommai_default_allocator, &tokenizer, &error);
  if (status == OMMA_OK) {
    use(tokenizer);
  } else {
    FUZZ_CHECK(!tokenizer && error.status == status && error.message[0] && memchr(error.message, 0, sizeof error.message));
  }
  ommai_tokenizer_destroy(tokenizer);
  return 0;
}
