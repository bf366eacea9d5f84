/* omma_tokenize, omma_count_tokens and omma_detokenize: size-then-fill over the model's
 * tokenizer. */
#include "base/allocator.h"
#include "base/error.h"
#include "model/model_open.h"
#include "text/utf8.h"

enum omma_status omma_tokenize(const struct omma_model *model, const char *text, size_t text_size, int32_t *tokens,
                               size_t capacity, size_t *n_tokens, struct omma_error *error) {
  OMMAI_TRY(ommai_model_require_tokenizer(model, error));
  return ommai_tokenizer_encode(model->tokenizer, text, text_size, true, capacity ? tokens : NULL, capacity, n_tokens, error);
}

enum omma_status omma_count_tokens(const struct omma_model *model, const char *text, size_t text_size, size_t limit,
                                   size_t *n_tokens, struct omma_error *error) {
  OMMAI_TRY(ommai_model_require_tokenizer(model, error));
  return ommai_tokenizer_count(model->tokenizer, text, text_size, limit, n_tokens, error);
}

static enum omma_status check_tokens(const struct omma_model *model, const int32_t *tokens, size_t n_tokens,
                                     struct omma_error *error) {
  for (size_t i = 0; i < n_tokens; i++) {
    if (tokens[i] < 0 || tokens[i] >= model->config.text.vocab_size) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "tokens", "tokens[%zu]: expected 0 to %lld, found %d", i,
                              (long long)model->config.text.vocab_size - 1, tokens[i]);
    }
  }
  return OMMA_OK;
}

enum omma_status omma_detokenize(const struct omma_model *model, const int32_t *tokens, size_t n_tokens, bool skip_special,
                                 char *text, size_t capacity, size_t *text_size, struct omma_error *error) {
  size_t n_bytes;
  OMMAI_TRY(ommai_model_require_tokenizer(model, error));
  OMMAI_TRY(check_tokens(model, tokens, n_tokens, error));
  OMMAI_TRY(ommai_tokenizer_decode(model->tokenizer, tokens, n_tokens, skip_special, NULL, 0, &n_bytes, error));
  char *bytes = ommai_allocate(&model->allocator, n_bytes, 1);
  if (!bytes) return ommai_fail_memory(error, "text", n_bytes);
  enum omma_status status =
      ommai_tokenizer_decode(model->tokenizer, tokens, n_tokens, skip_special, bytes, n_bytes, &n_bytes, error);
  if (status == OMMA_OK) *text_size = ommai_utf8_replace(bytes, n_bytes, capacity ? text : NULL, capacity);
  ommai_release(&model->allocator, bytes, n_bytes, 1);
  return status;
}
