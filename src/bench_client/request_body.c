#include "bench_client/request_body.h"

#include <string.h>

#include "base/error.h"

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
