#include "families/generation_config.h"

#include <stddef.h>
#include <string.h>

#include "base/error.h"

/* One more is the tokenizer's. */
enum { MAX_LISTED = OMMAI_MAX_STOP_TOKENS - 1 };

static const struct ommai_generation_config without_fields = {.temperature = -1};

/* Values and the ranges that a request may ask for. */
static const struct {
  const char *key;
  size_t offset;
  double low, high;
} numbers[] = {
    {"temperature", offsetof(struct ommai_generation_config, temperature), 0, 2},
    {"top_p", offsetof(struct ommai_generation_config, top_p), 0, 1},
    {"min_p", offsetof(struct ommai_generation_config, min_p), 0, 1},
    {"repetition_penalty", offsetof(struct ommai_generation_config, repetition_penalty), 0, 100},
    {"presence_penalty", offsetof(struct ommai_generation_config, presence_penalty), -2, 2},
    {"frequency_penalty", offsetof(struct ommai_generation_config, frequency_penalty), -2, 2},
};

static enum omma_status read_stop_tokens(const json_t *object, const char *where, int64_t vocab_size,
                                         struct ommai_generation_config *generation, struct omma_error *error) {
  json_t *value = json_object_get(object, "eos_token_id");
  int64_t ids[MAX_LISTED];
  size_t count = 0;
  if (!value || json_is_null(value)) return OMMA_OK;
  if (json_is_array(value)) {
    OMMAI_TRY(ommai_json_integers(object, where, "eos_token_id", true, 0, vocab_size - 1, ids, MAX_LISTED, &count, error));
  } else {
    OMMAI_TRY(ommai_json_integer(object, where, "eos_token_id", true, 0, vocab_size - 1, &ids[0], error));
    count = 1;
  }
  for (size_t i = 0; i < count; i++) generation->stop_tokens[i] = (int32_t)ids[i];
  generation->n_stop_tokens = count;
  return OMMA_OK;
}

/* A key that is there with null counts as missing. */
static enum omma_status read_sampling(const json_t *object, const char *where, struct ommai_generation_config *generation,
                                      struct omma_error *error) {
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    const char *key = numbers[i].key;
    double *out = (double *)((char *)generation + numbers[i].offset);
    if (!json_object_get(object, key)) continue;
    *out = *(const double *)((const char *)&without_fields + numbers[i].offset);
    if (json_is_null(json_object_get(object, key))) continue;
    OMMAI_TRY(ommai_json_number(object, where, key, true, out, error));
    if (*out >= numbers[i].low && *out <= numbers[i].high) continue;
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, key, "%s: key \"%s\": expected %g to %g, found %g", where, key,
                            numbers[i].low, numbers[i].high, *out);
  }
  if (json_is_null(json_object_get(object, "top_k"))) generation->top_k = 0;
  if (json_is_null(json_object_get(object, "max_new_tokens"))) generation->max_tokens = 0;
  OMMAI_TRY(ommai_json_integer(object, where, "top_k", false, -1, INT32_MAX, &generation->top_k, error));
  return ommai_json_integer(object, where, "max_new_tokens", false, 1, INT32_MAX, &generation->max_tokens, error);
}

/* Reads generation_config.json; *found: whether it is there. */
static enum omma_status read_document(const struct ommai_documents *documents, const struct omma_allocator *allocator,
                                      int64_t vocab_size, struct ommai_generation_config *generation, bool *found,
                                      struct omma_error *error) {
  char path[OMMAI_DOCUMENT_PATH_SIZE];
  json_t *root;
  OMMAI_TRY(ommai_document_find(documents, "generation_config.json", allocator, path, &root, error));
  *found = root != NULL;
  if (!root) return OMMA_OK;
  enum omma_status status = read_stop_tokens(root, path, vocab_size, generation, error);
  if (status == OMMA_OK) status = read_sampling(root, path, generation, error);
  json_decref(root);
  return status;
}

enum omma_status ommai_generation_config_read(const struct ommai_documents *documents, const struct omma_allocator *allocator,
                                              const json_t *config, int64_t vocab_size,
                                              struct ommai_generation_config *generation, struct omma_error *error) {
  bool found;
  *generation = without_fields;
  OMMAI_TRY(read_document(documents, allocator, vocab_size, generation, &found, error));
  if (found) return OMMA_OK;
  OMMAI_TRY(read_stop_tokens(config, "config.json", vocab_size, generation, error));
  if (generation->n_stop_tokens) return OMMA_OK;
  return read_stop_tokens(json_object_get(config, "text_config"), "config.json: text_config", vocab_size, generation, error);
}

static void forget_sampling(struct ommai_generation_config *generation) {
  struct ommai_generation_config kept = without_fields;
  memcpy(kept.stop_tokens, generation->stop_tokens, sizeof kept.stop_tokens);
  kept.n_stop_tokens = generation->n_stop_tokens;
  *generation = kept;
}

static enum omma_status read_overrides(const char *text, struct ommai_generation_config *generation, struct omma_error *error) {
  static const char where[] = "override_generation_config";
  json_t *root;
  OMMAI_TRY(ommai_json_load(where, text, strlen(text), &root, error));
  enum omma_status status = read_sampling(root, where, generation, error);
  if (status == OMMA_OK && json_is_integer(json_object_get(root, "max_new_tokens"))) {
    generation->max_tokens_limit = generation->max_tokens;
  }
  json_decref(root);
  return status;
}

enum omma_status ommai_generation_config_choose(const char *source, const char *overrides,
                                                const struct omma_allocator *allocator, int64_t vocab_size,
                                                struct ommai_generation_config *generation, struct omma_error *error) {
  const struct ommai_documents other = {.directory = source};
  bool own = !source || strcmp(source, "auto") == 0, none = source && strcmp(source, "vllm") == 0, found;
  if (!own) forget_sampling(generation);
  if (!own && !none) {
    OMMAI_TRY(read_document(&other, allocator, vocab_size, generation, &found, error));
    if (!found) {
      return ommai_fail_field(
          error, OMMA_ERROR_ARGUMENT, "generation_config",
          "generation_config: expected auto, vllm, or a directory with generation_config.json, found %.200s", source);
    }
  }
  if (overrides) OMMAI_TRY(read_overrides(overrides, generation, error));
  if (!own && !none) generation->max_tokens_limit = generation->max_tokens;
  return OMMA_OK;
}

/* The text of eos_token, alone or with the settings of an added token; NULL where there is none. */
static const char *eos_text(const json_t *root) {
  const json_t *eos = json_object_get(root, "eos_token");
  return json_string_value(json_is_object(eos) ? json_object_get(eos, "content") : eos);
}

static void add_stop_token(struct ommai_generation_config *generation, int32_t token) {
  for (size_t i = 0; i < generation->n_stop_tokens; i++) {
    if (generation->stop_tokens[i] == token) return;
  }
  generation->stop_tokens[generation->n_stop_tokens++] = token;
}

enum omma_status ommai_generation_config_add_eos(const struct ommai_documents *documents,
                                                 const struct omma_allocator *allocator,
                                                 const struct ommai_tokenizer *tokenizer,
                                                 struct ommai_generation_config *generation, struct omma_error *error) {
  char path[OMMAI_DOCUMENT_PATH_SIZE];
  json_t *root;
  int32_t token;
  OMMAI_TRY(ommai_document_find(documents, "tokenizer_config.json", allocator, path, &root, error));
  if (!root) return OMMA_OK;
  const char *text = eos_text(root);
  if (text && ommai_tokenizer_find(tokenizer, text, &token)) add_stop_token(generation, token);
  json_decref(root);
  return OMMA_OK;
}
