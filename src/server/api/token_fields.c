#include "server/api/token_fields.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/json.h"
#include "server/core/request_json.h"
#include "server/state/server_config.h"

/* ---- logit_bias ---- */

/* Keys are ids as texts, since keys of JSON are. */
static bool read_key(const char *key, int64_t *id) {
  char *end;
  errno = 0;
  *id = strtoll(key, &end, 10);
  return end != key && !*end && !errno;
}

static bool read_biases(const struct ommai_server_config *config, const json_t *root, struct ommai_token_fields *fields,
                        struct ommai_api_error *error) {
  static const char FIELD[] = "logit_bias";
  const json_t *object;
  json_t *value;
  const char *key;
  if (!ommai_field_object(root, FIELD, NULL, &object, error)) return false;
  if (!object) return true;
  size_t count = json_object_size(object);
  if (count > OMMA_MAX_LOGIT_BIAS) {
    return ommai_api_fail(error, 400, FIELD, "%s must hold at most %d tokens, got %zu.", FIELD, OMMA_MAX_LOGIT_BIAS, count);
  }
  fields->biases = ommai_allocate(config->allocator, count, sizeof *fields->biases);
  if (!fields->biases) return ommai_api_fail_memory(error);
  fields->n_biases = count;
  size_t i = 0;
  json_object_foreach((json_t *)object, key, value) {
    int64_t id;
    if (!read_key(key, &id) || id < 0 || id >= config->info.vocab_size) {
      return ommai_api_fail(error, 400, FIELD, "%s: \"%.80s\" must be a token id from 0 to %" PRId64 ".", FIELD, key,
                            config->info.vocab_size - 1);
    }
    if (!json_is_number(value)) {
      return ommai_api_fail(error, 400, FIELD, "%s: the bias of token %.80s must be a number, got %s.", FIELD, key,
                            ommai_json_kind(value));
    }
    fields->biases[i++] = (struct omma_logit_bias){(int32_t)id, (float)json_number_value(value)};
  }
  return true;
}

/* ---- allowed_token_ids ---- */

static bool read_allowed(const struct ommai_server_config *config, const json_t *root, struct ommai_token_fields *fields,
                         struct ommai_api_error *error) {
  static const char FIELD[] = "allowed_token_ids";
  const json_t *array;
  if (!ommai_field_array(root, FIELD, &array, error)) return false;
  if (!array) return true;
  if (!json_array_size(array)) return ommai_api_fail(error, 400, FIELD, "%s must hold at least one token id, got [].", FIELD);
  return ommai_token_array_read(config, array, FIELD, &fields->allowed, &fields->n_allowed, error);
}

/* ---- bad_words ---- */

/* The words themselves are checked with the tokenizer, by the library. */
static bool read_bad_words(const json_t *root, struct ommai_token_fields *fields, struct omma_sampling *sampling,
                           struct ommai_api_error *error) {
  static const char FIELD[] = "bad_words";
  const json_t *array;
  if (!ommai_field_array(root, FIELD, &array, error)) return false;
  if (!array) return true;
  size_t count = json_array_size(array);
  if (count > OMMA_MAX_BAD_WORDS) {
    return ommai_api_fail(error, 400, FIELD, "%s must hold at most %d words, got %zu.", FIELD, OMMA_MAX_BAD_WORDS, count);
  }
  for (size_t i = 0; i < count; i++) {
    const json_t *word = json_array_get(array, i);
    const char *text = json_string_value(word);
    if (!ommai_json_is_text(word)) {
      return ommai_api_fail(error, 400, FIELD, "%s[%zu] must be a string, got %s.", FIELD, i, ommai_json_kind(word));
    }
    if (!text[0] || strlen(text) != json_string_length(word)) {
      return ommai_api_fail(error, 400, FIELD, "%s[%zu] must not be empty, nor hold the character NUL.", FIELD, i);
    }
    fields->bad_words[i] = text;
  }
  sampling->bad_words = fields->bad_words;
  sampling->n_bad_words = count;
  return true;
}

/* ---- repetition ---- */

/* Numbers below 0 are 0, as in the logits processor of vLLM's plugins that has this name. */
static bool read_ngram_size(const json_t *object, struct omma_sampling *sampling, struct ommai_api_error *error) {
  if (!ommai_field_integer(object, "no_repeat_ngram_size", INT32_MIN, INT32_MAX, &sampling->no_repeat_ngram_size, error))
    return false;
  if (sampling->no_repeat_ngram_size < 0) sampling->no_repeat_ngram_size = 0;
  return true;
}

/* What vLLM hands on to logits processors. */
static bool read_extra(const json_t *root, struct omma_sampling *sampling, struct ommai_api_error *error) {
  static const char FIELD[] = "vllm_xargs";
  static const char *const known[] = {"no_repeat_ngram_size", "debug", NULL};
  const json_t *object;
  if (!ommai_field_object(root, FIELD, known, &object, error)) return false;
  return !object || read_ngram_size(object, sampling, error) || ommai_api_error_prefix(error, "%s", FIELD);
}

static bool read_repetition(const json_t *root, struct omma_sampling *sampling, struct ommai_api_error *error) {
  static const char FIELD[] = "repetition_detection";
  static const char *const known[] = {"max_pattern_size", "min_pattern_size", "min_count", NULL};
  struct omma_repetition_detection *detection = &sampling->repetition_detection;
  int64_t *const values[] = {&detection->max_pattern_size, &detection->min_pattern_size, &detection->min_count};
  const json_t *object = ommai_field_get(root, FIELD);
  if (ommai_field_is_neutral(object)) return true;
  if (!ommai_field_members(object, FIELD, FIELD, known, error)) return false;
  for (size_t i = 0; known[i]; i++) {
    if (!ommai_field_integer(object, known[i], 0, INT32_MAX, values[i], error))
      return ommai_api_error_prefix(error, "%s", FIELD);
  }
  if (detection->min_pattern_size > detection->max_pattern_size) {
    return ommai_api_fail(error, 400, FIELD, "%s: min_pattern_size must be at most max_pattern_size.", FIELD);
  }
  return detection->max_pattern_size == 0 || detection->min_count >= 2 ||
         ommai_api_fail(error, 400, FIELD, "%s: min_count must be at least 2, got %" PRId64 ".", FIELD, detection->min_count);
}

bool ommai_token_fields_read(const struct ommai_server_config *config, const json_t *root, struct ommai_token_fields *fields,
                             struct omma_sampling *sampling, struct ommai_api_error *error) {
  if (!read_biases(config, root, fields, error) || !read_allowed(config, root, fields, error) ||
      !read_bad_words(root, fields, sampling, error) || !read_extra(root, sampling, error) ||
      !read_ngram_size(root, sampling, error) || !read_repetition(root, sampling, error)) {
    return false;
  }
  sampling->logit_bias = fields->biases;
  sampling->n_logit_bias = fields->n_biases;
  sampling->allowed_token_ids = fields->allowed;
  sampling->n_allowed_token_ids = fields->n_allowed;
  return true;
}

void ommai_token_fields_free(struct ommai_token_fields *fields, const struct omma_allocator *allocator) {
  ommai_release(allocator, fields->biases, fields->n_biases, sizeof *fields->biases);
  ommai_release(allocator, fields->allowed, fields->n_allowed, sizeof *fields->allowed);
  *fields = (struct ommai_token_fields){0};
}

/* ---- truncate_prompt_tokens ---- */

static bool read_side(const json_t *root, bool *keep_first, struct ommai_api_error *error) {
  const char *side = NULL;
  if (!ommai_field_string(root, "truncation_side", &side, error)) return false;
  *keep_first = side && !strcmp(side, "right");
  return !side || *keep_first || !strcmp(side, "left") ||
         ommai_api_fail(error, 400, "truncation_side", "truncation_side must be \"left\" or \"right\", got \"%.80s\".", side);
}

bool ommai_truncation_read(const json_t *root, int64_t room, struct omma_truncation *truncation,
                           struct ommai_api_error *error) {
  static const char FIELD[] = "truncate_prompt_tokens";
  int64_t keep = 0;
  *truncation = (struct omma_truncation){0};
  if (!ommai_field_integer(root, FIELD, -1, INT64_MAX, &keep, error) || !read_side(root, &truncation->keep_first, error)) {
    return false;
  }
  if (!ommai_field_get(root, FIELD)) return true;
  if (keep == 0) return ommai_api_fail(error, 400, FIELD, "%s must be -1 or at least 1, got 0.", FIELD);
  if (keep > room || room < 1) {
    return ommai_api_fail(error, 400, FIELD,
                          "%s=%" PRId64 " cannot be greater than what the context leaves besides the answer, %" PRId64 ".",
                          FIELD, keep, room);
  }
  truncation->n_tokens = keep < 0 ? room : keep;
  return true;
}
