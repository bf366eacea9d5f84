#include "bench_client/data_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/growing.h"
#include "bench_client/mersenne.h"

/* ---- bodies ---- */

/* Every item is an object with a string under `key`. An empty list has no items that could show
 * it. */
static bool all_have(const json_t *list, const char *key) {
  size_t i;
  const json_t *item;
  json_array_foreach(list, i, item) {
    if (!json_is_string(json_object_get(item, key))) return false;
  }
  return json_array_size(list) > 0;
}

/* The one user message; NULL when memory is out. */
static json_t *user_message(const json_t *prompt, const json_t *media) {
  json_t *parts;
  if (all_have(prompt, "type")) {
    parts = json_copy((json_t *)prompt);
  } else {
    parts = json_pack("[{s:s, s:O}]", "type", "text", "text", prompt);
  }
  if (!parts) return NULL;
  int failed = json_is_array(media) ? json_array_extend(parts, (json_t *)media) : 0;
  if (json_is_object(media)) failed = json_array_append(parts, (json_t *)media);
  if (failed) {
    json_decref(parts);
    return NULL;
  }
  return json_pack("[{s:s, s:o}]", "role", "user", "content", parts);
}

static json_t *chat_body(const struct ommai_body_fields *fields, const json_t *prompt, const json_t *media,
                         int64_t output_len) {
  json_t *messages = all_have(prompt, "role") ? json_incref((json_t *)prompt) : user_message(prompt, media);
  return json_pack("{s:s, s:o, s:I, s:b, s:{s:b}}", "model", fields->model, "messages", messages, "max_completion_tokens",
                   (json_int_t)output_len, "stream", 1, "stream_options", "include_usage", 1);
}

static json_t *completion_body(const struct ommai_body_fields *fields, const json_t *prompt, int64_t output_len) {
  json_t *logprobs = fields->logprobs < 0 ? json_null() : json_integer(fields->logprobs);
  return json_pack("{s:s, s:O, s:f, s:I, s:o, s:b, s:{s:b}}", "model", fields->model, "prompt", prompt, "repetition_penalty",
                   1.0, "max_tokens", (json_int_t)output_len, "logprobs", logprobs, "stream", 1, "stream_options",
                   "include_usage", 1);
}

enum omma_status ommai_body_make(const struct ommai_body_fields *fields, const json_t *prompt, const json_t *media,
                                 int64_t output_len, char **body, size_t *size, struct omma_error *error) {
  if (!fields->chat && (!json_is_string(prompt) || media)) {
    return ommai_fail(error, OMMA_ERROR_ARGUMENT, "images and messages need the backend openai-chat");
  }
  json_t *object = fields->chat ? chat_body(fields, prompt, media, output_len) : completion_body(fields, prompt, output_len);
  int failed = !object;
  if (!failed && fields->ignore_eos) failed = json_object_set_new(object, "ignore_eos", json_true());
  if (!failed && fields->extra) failed = json_object_update(object, (json_t *)fields->extra);
  *body = failed ? NULL : json_dumps(object, JSON_COMPACT);
  json_decref(object);
  if (!*body) return ommai_fail_memory(error, "the body of a request", 0);
  *size = strlen(*body);
  return OMMA_OK;
}

enum omma_status ommai_data_set_add(struct ommai_data_set *set, const json_t *prompt, const json_t *media,
                                    const json_t *answers, int64_t prompt_len, int64_t output_len, struct omma_error *error) {
  struct ommai_sample sample = {.prompt_len = prompt_len, .output_len = output_len};
  if (!ommai_grow((void **)&set->samples, &set->samples_capacity, set->n_samples, 1, sizeof sample, set->allocator)) {
    return ommai_fail_memory(error, "requests", set->n_samples * sizeof sample);
  }
  OMMAI_TRY(ommai_body_make(&set->fields, prompt, media, output_len, &sample.body, &sample.body_size, error));
  sample.answers = json_incref((json_t *)answers);
  set->samples[set->n_samples++] = sample;
  const struct ommai_data_settings *settings = set->settings;
  if (settings->progress) settings->progress(settings->progress_context, (int64_t)set->n_samples, settings->n_requests);
  return OMMA_OK;
}

/* Every sample once, then samples at random until there are n_requests, as the Python client draws
 * them. */
static enum omma_status pick(const struct ommai_data_settings *settings, struct ommai_data_set *set, struct omma_error *error) {
  size_t n = set->n_samples, wanted = (size_t)settings->n_requests;
  struct ommai_mersenne mersenne;
  if (n == 0) return ommai_fail(error, OMMA_ERROR_ARGUMENT, "%s: no usable entry in the data set", settings->path);
  if (settings->no_oversample || wanted < n) wanted = n;
  if (!ommai_grow((void **)&set->picks, &set->picks_capacity, 0, wanted, sizeof *set->picks, set->allocator)) {
    return ommai_fail_memory(error, "the order of requests", wanted * sizeof *set->picks);
  }
  ommai_mersenne_init_python(&mersenne, settings->seed);
  for (size_t i = 0; i < wanted; i++) set->picks[i] = i < n ? i : ommai_mersenne_below(&mersenne, (uint32_t)n);
  set->n_picks = wanted;
  return OMMA_OK;
}

enum omma_status ommai_data_set_make(const struct ommai_data_settings *settings, const struct ommai_body_fields *fields,
                                     const struct omma_allocator *allocator, struct ommai_data_set *set,
                                     struct omma_error *error) {
  *set = (struct ommai_data_set){.allocator = allocator, .settings = settings, .fields = *fields};
  switch (settings->kind) {
    case OMMAI_DATA_RANDOM:
    case OMMAI_DATA_RANDOM_MM: OMMAI_TRY(ommai_data_random(settings, set, error)); break;
    case OMMAI_DATA_CUSTOM_IMAGE: OMMAI_TRY(ommai_data_custom_image(settings, set, error)); break;
    case OMMAI_DATA_SHAREGPT: OMMAI_TRY(ommai_data_sharegpt(settings, set, error)); break;
    case OMMAI_DATA_HF: OMMAI_TRY(ommai_data_hf(settings, set, error)); break;
  }
  return pick(settings, set, error);
}

void ommai_data_set_release(struct ommai_data_set *set) {
  for (size_t i = 0; i < set->n_samples; i++) {
    free(set->samples[i].body);
    json_decref(set->samples[i].answers);
  }
  ommai_release(set->allocator, set->samples, set->samples_capacity, sizeof *set->samples);
  ommai_release(set->allocator, set->picks, set->picks_capacity, sizeof *set->picks);
  *set = (struct ommai_data_set){.allocator = set->allocator};
}

enum omma_status ommai_data_order(const struct ommai_data_settings *settings, const struct ommai_data_set *set, size_t n,
                                  size_t **order, struct omma_error *error) {
  struct ommai_mersenne mersenne;
  *order = ommai_allocate(set->allocator, n, sizeof **order);
  if (!*order) return ommai_fail_memory(error, "the order of a data set", n * sizeof **order);
  for (size_t i = 0; i < n; i++) (*order)[i] = i;
  ommai_mersenne_init_python(&mersenne, settings->seed);
  if (!settings->keep_order) ommai_mersenne_shuffle(&mersenne, *order, n);
  return OMMA_OK;
}

enum omma_status ommai_data_count_tokens(const struct ommai_tokenizer *tokenizer, const char *text, size_t size, int64_t *count,
                                         struct omma_error *error) {
  size_t tokens = 1;
  if (tokenizer) OMMAI_TRY(ommai_tokenizer_encode(tokenizer, text, size, true, NULL, 0, &tokens, error));
  *count = (int64_t)tokens;
  return OMMA_OK;
}
