#include "server/api/token_fields.h"

#include <inttypes.h>

#include "base/allocator.h"
#include "server/core/request_json.h"
#include "server/state/server_config.h"

bool ommai_text_tokenize(const struct ommai_server_config *config, const json_t *text, size_t max_tokens, int32_t **tokens,
                         size_t *n_tokens, struct ommai_api_error *error) {
  const char *bytes = json_string_value(text);
  size_t size = json_string_length(text), count = 0, again = 0;
  struct omma_error cause = {0};
  if (omma_count_tokens(config->model, bytes, size, max_tokens + 1, &count, &cause) != OMMA_OK) {
    return ommai_api_fail_from(error, &cause);
  }
  if (count > max_tokens) {
    return ommai_api_fail(error, 400, "input_tokens",
                          "This model's maximum context length is %" PRId64
                          " tokens. However, your prompt contains at least %zu input tokens. Please reduce the length of "
                          "the input prompt",
                          config->info.max_model_len, count);
  }
  int32_t *made = ommai_allocate(config->allocator, count, sizeof *made);
  if (!made) return ommai_api_fail_memory(error);
  if (omma_tokenize(config->model, bytes, size, made, count, &again, &cause) != OMMA_OK) {
    ommai_release(config->allocator, made, count, sizeof *made);
    return ommai_api_fail_from(error, &cause);
  }
  *tokens = made;
  *n_tokens = count;
  return true;
}

bool ommai_token_ids_read(const struct ommai_server_config *config, const json_t *array, const char *field, int32_t *ids,
                          struct ommai_api_error *error) {
  for (size_t i = 0; i < json_array_size(array); i++) {
    int64_t id;
    if (!ommai_json_whole(json_array_get(array, i), &id) || id < 0 || id >= config->info.vocab_size) {
      return ommai_api_fail(error, 400, field, "%s[%zu] must be a token id from 0 to %" PRId64 ".", field, i,
                            config->info.vocab_size - 1);
    }
    ids[i] = (int32_t)id;
  }
  return true;
}

bool ommai_token_array_read(const struct ommai_server_config *config, const json_t *array, const char *field, int32_t **tokens,
                            size_t *n_tokens, struct ommai_api_error *error) {
  size_t count = json_array_size(array);
  int32_t *made = ommai_allocate(config->allocator, count, sizeof *made);
  if (!made) return ommai_api_fail_memory(error);
  if (!ommai_token_ids_read(config, array, field, made, error)) {
    ommai_release(config->allocator, made, count, sizeof *made);
    return false;
  }
  *tokens = made;
  *n_tokens = count;
  return true;
}

bool ommai_token_text_add(const struct ommai_server_config *config, const int32_t *tokens, size_t n_tokens,
                          struct ommai_text *out, struct ommai_api_error *error) {
  size_t size = 0;
  struct omma_error cause = {0};
  if (omma_detokenize(config->model, tokens, n_tokens, false, NULL, 0, &size, &cause) != OMMA_OK) {
    return ommai_api_fail_from(error, &cause);
  }
  if (!ommai_text_reserve(out, size)) return ommai_api_fail_memory(error);
  if (omma_detokenize(config->model, tokens, n_tokens, false, out->data + out->size, size, &size, &cause) != OMMA_OK) {
    return ommai_api_fail_from(error, &cause);
  }
  out->size += size;
  return true;
}
