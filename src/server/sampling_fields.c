/* The fields of a request that say how the answer is drawn, with their ranges. */
#include <inttypes.h>
#include <sodium.h>
#include <string.h>

#include "server/chat_request.h"
#include "server/request_json.h"
#include "server/server_state.h"

/* Fields that clients send, that this server knows and cannot honour: the one value (or the absence) that changes nothing is
 * accepted, any other is refused instead of being ignored. */
static bool refuse_unsupported(const json_t *root, struct ommai_api_error *error) {
  static const struct {
    const char *key;
    bool standard;
  } flags[] = {{"echo", false}, {"skip_special_tokens", true}, {"use_beam_search", false}, {"return_token_ids", false}};
  for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
    bool value = flags[i].standard;
    if (!ommai_field_boolean(root, flags[i].key, &value, error)) return false;
    if (value != flags[i].standard) {
      return ommai_api_fail(error, 400, flags[i].key, "%s %s is not supported.", flags[i].key, value ? "true" : "false");
    }
  }
  if (json_object_size(ommai_field_get(root, "logit_bias"))) {
    return ommai_api_fail(error, 400, "logit_bias", "logit_bias is not supported.");
  }
  const json_t *choice = ommai_field_get(root, "tool_choice");
  bool tools_off = json_is_string(choice) && !strcmp(json_string_value(choice), "none");
  if (json_array_size(ommai_field_get(root, "tools")) && !tools_off) {
    return ommai_api_fail(error, 400, "tools", "tools are not supported.");
  }
  return true;
}

static bool read_response_format(const json_t *root, struct ommai_api_error *error) {
  const json_t *format = ommai_field_get(root, "response_format");
  const char *type = NULL;
  if (!format) return true;
  if (!json_is_object(format)) {
    return ommai_api_fail(error, 400, "response_format", "response_format must be an object, got %s.", ommai_json_kind(format));
  }
  if (!ommai_field_string(format, "type", &type, error)) return false;
  if (type && !strcmp(type, "text")) return true;
  return ommai_api_fail(error, 400, "response_format", "response_format type \"%.40s\" is not supported; \"text\" is.",
                        type ? type : "");
}

static bool add_stop(struct ommai_chat_request *request, const json_t *value, struct ommai_api_error *error) {
  struct omma_sampling *sampling = &request->options.sampling;
  if (!json_is_string(value)) {
    return ommai_api_fail(error, 400, "stop", "stop must be a string or a list of strings, got %s.", ommai_json_kind(value));
  }
  const char *text = json_string_value(value);
  if (!text[0]) return ommai_api_fail(error, 400, "stop", "stop must not hold an empty string.");
  if (strlen(text) != json_string_length(value)) {
    return ommai_api_fail(error, 400, "stop", "stop must not hold the character NUL.");
  }
  if (sampling->n_stop == OMMA_MAX_STOP_STRINGS) {
    return ommai_api_fail(error, 400, "stop", "stop must hold at most %d strings.", OMMA_MAX_STOP_STRINGS);
  }
  request->stop[sampling->n_stop++] = text;
  return true;
}

static bool read_stop(const json_t *root, struct ommai_chat_request *request, struct ommai_api_error *error) {
  const json_t *stop = ommai_field_get(root, "stop");
  request->options.sampling.stop = request->stop;
  if (!stop) return true;
  if (!json_is_array(stop)) return add_stop(request, stop, error);
  for (size_t i = 0; i < json_array_size(stop); i++) {
    if (!add_stop(request, json_array_get(stop, i), error)) return false;
  }
  return true;
}

static bool read_stop_tokens(const struct ommai_server *server, const json_t *root, struct ommai_chat_request *request,
                             struct ommai_api_error *error) {
  static const char KEY[] = "stop_token_ids";
  const json_t *ids = ommai_field_get(root, KEY);
  struct omma_sampling *sampling = &request->options.sampling;
  sampling->stop_token_ids = request->stop_token_ids;
  if (!ids) return true;
  if (!json_is_array(ids)) return ommai_api_fail(error, 400, KEY, "%s must be an array, got %s.", KEY, ommai_json_kind(ids));
  if (json_array_size(ids) > OMMAI_MAX_STOP_TOKENS) {
    return ommai_api_fail(error, 400, KEY, "%s must hold at most %d ids, got %zu.", KEY, OMMAI_MAX_STOP_TOKENS,
                          json_array_size(ids));
  }
  for (size_t i = 0; i < json_array_size(ids); i++) {
    int64_t id;
    if (!ommai_json_whole(json_array_get(ids, i), &id) || id < 0 || id >= server->info.vocab_size) {
      return ommai_api_fail(error, 400, KEY, "%s[%zu] must be a token id from 0 to %" PRId64 ".", KEY, i,
                            server->info.vocab_size - 1);
    }
    request->stop_token_ids[sampling->n_stop_token_ids++] = (int32_t)id;
  }
  return true;
}

/* max_completion_tokens wins; the other is checked all the same. */
static bool read_max_tokens(const json_t *root, struct ommai_chat_request *request, struct ommai_api_error *error) {
  int64_t old_name = 0, new_name = 0;
  if (!ommai_field_integer(root, "max_tokens", 1, INT32_MAX, &old_name, error) ||
      !ommai_field_integer(root, "max_completion_tokens", 1, INT32_MAX, &new_name, error)) {
    return false;
  }
  request->max_tokens_field = new_name ? "max_completion_tokens" : "max_tokens";
  request->options.sampling.max_tokens = new_name ? new_name : old_name;
  struct omma_sampling *sampling = &request->options.sampling;
  if (!ommai_field_integer(root, "min_tokens", 0, INT32_MAX, &sampling->min_tokens, error)) return false;
  if (sampling->max_tokens && sampling->min_tokens > sampling->max_tokens) {
    return ommai_api_fail(error, 400, "min_tokens", "min_tokens must be at most %s=%" PRId64 ", got %" PRId64 ".",
                          request->max_tokens_field, sampling->max_tokens, sampling->min_tokens);
  }
  return true;
}

static bool read_seed(const json_t *root, struct ommai_chat_request *request, struct ommai_api_error *error) {
  int64_t seed = 0;
  request->seed_given = ommai_field_get(root, "seed") != NULL;
  if (!ommai_field_integer(root, "seed", INT64_MIN, INT64_MAX, &seed, error)) return false;
  if (!request->seed_given) randombytes_buf(&seed, sizeof seed);
  request->options.sampling.seed = (uint64_t)seed;
  return true;
}

static bool read_logprobs(const json_t *root, struct omma_sampling *sampling, struct ommai_api_error *error) {
  int64_t n_top = 0;
  if (!ommai_field_boolean(root, "logprobs", &sampling->logprobs, error) ||
      !ommai_field_integer(root, "top_logprobs", 0, OMMA_MAX_TOP_LOGPROBS, &n_top, error)) {
    return false;
  }
  if (n_top && !sampling->logprobs) {
    return ommai_api_fail(error, 400, "top_logprobs", "when using `top_logprobs`, `logprobs` must be set to true.");
  }
  sampling->n_top_logprobs = (int)n_top;
  return true;
}

static double recommended_or(double recommended, double standard) { return recommended > 0 ? recommended : standard; }

/* What the checkpoint recommends, as vLLM does, else what OpenAI's interface defines. */
static void set_defaults(const struct ommai_server *server, struct omma_sampling *sampling) {
  sampling->temperature = recommended_or(server->info.recommended_temperature, 1);
  sampling->top_p = recommended_or(server->info.recommended_top_p, 1);
  sampling->top_k = server->info.recommended_top_k;
  sampling->repetition_penalty = recommended_or(server->info.recommended_repetition_penalty, 1);
}

bool ommai_sampling_read(const struct ommai_server *server, const json_t *root, struct ommai_chat_request *request,
                         struct ommai_api_error *error) {
  struct omma_sampling *sampling = &request->options.sampling;
  set_defaults(server, sampling);
  return refuse_unsupported(root, error) && read_response_format(root, error) &&
         ommai_field_number(root, "temperature", 0, 2, false, &sampling->temperature, error) &&
         ommai_field_number(root, "top_p", 0, 1, true, &sampling->top_p, error) &&
         ommai_field_number(root, "min_p", 0, 1, false, &sampling->min_p, error) &&
         ommai_field_integer(root, "top_k", -1, INT32_MAX, &sampling->top_k, error) &&
         ommai_field_number(root, "repetition_penalty", 0, 100, true, &sampling->repetition_penalty, error) &&
         ommai_field_number(root, "presence_penalty", -2, 2, false, &sampling->presence_penalty, error) &&
         ommai_field_number(root, "frequency_penalty", -2, 2, false, &sampling->frequency_penalty, error) &&
         ommai_field_boolean(root, "ignore_eos", &sampling->ignore_eos, error) &&
         ommai_field_integer(root, "n", 1, OMMAI_MAX_CHOICES, &request->n, error) && read_max_tokens(root, request, error) &&
         read_seed(root, request, error) && read_logprobs(root, sampling, error) && read_stop(root, request, error) &&
         read_stop_tokens(server, root, request, error);
}
