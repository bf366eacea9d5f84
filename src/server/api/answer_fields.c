#include "server/api/answer_fields.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "server/core/request_json.h"
#include "server/http/http_call.h"
#include "server/state/server_state.h"

/* Fields of other servers and of vLLM's that change answers, with the number that changes
 * nothing. */
static const struct {
  const char *key;
  double neutral;
  const char *instead; /* NULL: nothing does the same */
} changing_fields[] = {
    {"logprob_token_ids", 0, NULL},
    {"chat_template", 0, "--chat-template"},
    {"documents", 0, NULL},
    {"length_penalty", 1, NULL},
    {"watermarking", 0, NULL},
    {"logits_processors", 0, NULL},
    {"prompt_embeds", 0, NULL},
    {"encoder_repetition_penalty", 1, NULL},
    {"repeat_penalty", 1, "repetition_penalty"},
    {"typical_p", 1, NULL},
    {"top_n_sigma", -1, NULL},
    {"mirostat", 0, NULL},
    {"dry_multiplier", 0, "no_repeat_ngram_size"},
    {"xtc_probability", 0, NULL},
    {"dynatemp_range", 0, NULL},
    {"n_predict", -1, "max_tokens"},
    {"num_predict", -1, "max_tokens"},
    {"max_new_tokens", 0, "max_tokens"},
    {"stop_sequences", 0, "stop"},
    {"options", 0, "a field of the request for each of them"},
    {"system", 0, "a message of the role system"},
    {"images", 0, "a part image_url of a message"},
    {"min_pixels", 0, "mm_processor_kwargs.min_pixels"},
    {"max_pixels", 0, "mm_processor_kwargs.max_pixels"},
    {"encoder_no_repeat_ngram_size", 0, NULL},
    {"guidance_scale", 1, NULL},
    {"negative_prompt", 0, NULL},
    {"samplers", 0, NULL},
    {"smoothing_factor", 0, NULL},
    {"tfs_z", 1, NULL},
    {"top_a", 0, NULL},
    {"lora", 0, NULL},
    {"lora_path", 0, NULL},
    {"grammar", 0, "structured_outputs.grammar"},
    {"json_schema", 0, "structured_outputs.json"},
    {"regex", 0, "structured_outputs.regex"},
    {"ebnf", 0, "structured_outputs.grammar"},
    {"custom_logit_processor", 0, NULL},
};

static bool refuse_given(const json_t *root, struct ommai_api_error *error) {
  for (size_t i = 0; i < sizeof changing_fields / sizeof changing_fields[0]; i++) {
    const json_t *value = ommai_field_get(root, changing_fields[i].key);
    bool same = json_is_number(value) && json_number_value(value) == changing_fields[i].neutral;
    if (same || ommai_field_is_neutral(value)) continue;
    return ommai_api_fail(error, 400, changing_fields[i].key, "%s is not supported%s%s.", changing_fields[i].key,
                          changing_fields[i].instead ? "; here it is " : "",
                          changing_fields[i].instead ? changing_fields[i].instead : "");
  }
  return true;
}

/* Fields that clients send, that this server knows and cannot honour: the one value (or the
 * absence) that changes nothing is accepted, any other is refused instead of being ignored. */
static bool refuse_unsupported(const json_t *root, struct ommai_api_error *error) {
  static const struct {
    const char *key;
    bool standard;
    const char *instead; /* NULL: nothing does the same */
  } flags[] = {
      {"use_beam_search", false, NULL}, {"return_tokens_as_token_ids", false, NULL}, {"do_sample", true, "temperature 0"}};
  for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
    bool value = flags[i].standard;
    if (!ommai_field_boolean(root, flags[i].key, &value, error)) return false;
    if (value != flags[i].standard) {
      return ommai_api_fail(error, 400, flags[i].key, "%s %s is not supported%s%s.", flags[i].key, value ? "true" : "false",
                            flags[i].instead ? "; here it is " : "", flags[i].instead ? flags[i].instead : "");
    }
  }
  return refuse_given(root, error);
}

static bool refuse_best_of(const json_t *root, int64_t n, struct ommai_api_error *error) {
  int64_t best_of = n;
  if (!ommai_field_integer(root, "best_of", INT64_MIN, INT64_MAX, &best_of, error)) return false;
  if (best_of == n) return true;
  return ommai_api_fail(error, 400, "best_of",
                        "best_of %" PRId64
                        " is not supported: all answers that are drawn are returned, so best_of must equal n, which is %" PRId64
                        " here.",
                        best_of, n);
}

static bool add_stop(struct ommai_answer_fields *fields, const json_t *value, struct ommai_api_error *error) {
  struct omma_sampling *sampling = &fields->sampling;
  if (!ommai_json_is_text(value)) {
    return ommai_api_fail(error, 400, "stop", "stop must be a string or a list of strings, got %s.", ommai_json_kind(value));
  }
  const char *text = json_string_value(value);
  if (!json_string_length(value)) return ommai_api_fail(error, 400, "stop", "stop must not hold an empty string.");
  if (strlen(text) != json_string_length(value)) {
    return ommai_api_fail(error, 400, "stop", "stop must not hold the character NUL.");
  }
  if (sampling->n_stop == OMMA_MAX_STOP_STRINGS) {
    return ommai_api_fail(error, 400, "stop", "stop must hold at most %d strings.", OMMA_MAX_STOP_STRINGS);
  }
  fields->stop[sampling->n_stop++] = text;
  return true;
}

static bool read_stop(const json_t *root, struct ommai_answer_fields *fields, struct ommai_api_error *error) {
  const json_t *stop = ommai_field_get(root, "stop");
  fields->sampling.stop = fields->stop;
  if (!stop) return true;
  if (!json_is_array(stop)) return add_stop(fields, stop, error);
  for (size_t i = 0; i < json_array_size(stop); i++) {
    if (!add_stop(fields, json_array_get(stop, i), error)) return false;
  }
  return true;
}

static bool read_stop_tokens(const struct ommai_server *server, const json_t *root, struct ommai_answer_fields *fields,
                             struct ommai_api_error *error) {
  static const char KEY[] = "stop_token_ids";
  const json_t *ids;
  struct omma_sampling *sampling = &fields->sampling;
  sampling->stop_token_ids = fields->stop_token_ids;
  if (!ommai_field_array(root, KEY, &ids, error)) return false;
  if (json_array_size(ids) > OMMAI_FIELD_MAX_STOP_TOKENS) {
    return ommai_api_fail(error, 400, KEY, "%s must hold at most %d ids, got %zu.", KEY, OMMAI_FIELD_MAX_STOP_TOKENS,
                          json_array_size(ids));
  }
  sampling->n_stop_token_ids = json_array_size(ids);
  return ommai_token_ids_read(&server->config, ids, KEY, fields->stop_token_ids, error);
}

/* What counts where the request has no limit, and the server's own bound. */
static void bound_max_tokens(const struct omma_model_info *info, struct ommai_answer_fields *fields) {
  int64_t *max_tokens = &fields->sampling.max_tokens, bound = info->max_tokens_limit;
  fields->default_max_tokens = *max_tokens == 0;
  if (*max_tokens == 0) *max_tokens = info->recommended_max_tokens;
  if (bound && (*max_tokens == 0 || *max_tokens > bound)) *max_tokens = bound;
}

/* max_completion_tokens wins; the other is checked all the same. */
static bool read_max_tokens(const struct ommai_server *server, const json_t *root, struct ommai_answer_fields *fields,
                            struct ommai_api_error *error) {
  int64_t old_name = fields->sampling.max_tokens, new_name = 0;
  if (!ommai_field_integer(root, "max_tokens", 1, INT32_MAX, &old_name, error) ||
      !ommai_field_integer(root, "max_completion_tokens", 1, INT32_MAX, &new_name, error)) {
    return false;
  }
  fields->max_tokens_field = new_name ? "max_completion_tokens" : "max_tokens";
  fields->sampling.max_tokens = new_name ? new_name : old_name;
  bound_max_tokens(&server->config.info, fields);
  struct omma_sampling *sampling = &fields->sampling;
  if (!ommai_field_integer(root, "min_tokens", 0, INT32_MAX, &sampling->min_tokens, error)) return false;
  if (sampling->max_tokens && sampling->min_tokens > sampling->max_tokens) {
    return ommai_api_fail(error, 400, "min_tokens", "min_tokens must be at most %s=%" PRId64 ", got %" PRId64 ".",
                          fields->max_tokens_field, sampling->max_tokens, sampling->min_tokens);
  }
  return true;
}

/* Choices of a request have seeds that follow one another. */
static uint64_t next_seed(struct ommai_server *server) {
  uint64_t seed;
  if (server->config.settings.seed.given)
    return (uint64_t)server->config.settings.seed.value + OMMAI_MAX_CHOICES * (uint64_t)atomic_fetch_add(&server->n_seeds, 1);
  randombytes_buf(&seed, sizeof seed);
  return seed;
}

static bool read_seed(struct ommai_server *server, const json_t *root, struct ommai_answer_fields *fields,
                      struct ommai_api_error *error) {
  int64_t seed = 0;
  if (!ommai_field_integer(root, "seed", INT64_MIN, INT64_MAX, &seed, error)) return false;
  fields->own_seed = ommai_field_get(root, "seed") != NULL;
  fields->sampling.seed = fields->own_seed ? (uint64_t)seed : next_seed(server);
  return true;
}

/* What stays in the text, and what is sent with it. */
static bool read_text_flags(const json_t *root, struct ommai_answer_fields *fields, struct ommai_api_error *error) {
  bool skip_special_tokens = true;
  if (!ommai_field_boolean(root, "skip_special_tokens", &skip_special_tokens, error)) return false;
  fields->sampling.keep_special_tokens = !skip_special_tokens;
  return ommai_field_boolean(root, "include_stop_str_in_output", &fields->sampling.include_stop, error) &&
         ommai_field_boolean(root, "return_token_ids", &fields->return_token_ids, error);
}

/* Of the prompt, and that many of the likeliest tokens at each place. */
static bool read_prompt_logprobs(const json_t *root, struct ommai_answer_fields *fields, struct ommai_api_error *error) {
  static const char FIELD[] = "prompt_logprobs";
  int64_t n_top = 0;
  if (!ommai_field_integer(root, FIELD, 0, OMMA_MAX_TOP_LOGPROBS, &n_top, error)) return false;
  fields->sampling.prompt_logprobs = ommai_field_get(root, FIELD) && !fields->stream;
  fields->sampling.n_prompt_logprobs = (int)n_top;
  return !fields->stream || n_top == 0 ||
         ommai_api_fail(error, 400, FIELD, "`prompt_logprobs` are not available when `stream=True`.");
}

/* A prompt leaves room for the answer that is asked for, or one token. */
static bool read_truncation(const struct ommai_server *server, const json_t *root, struct ommai_answer_fields *fields,
                            struct ommai_api_error *error) {
  int64_t answer = fields->default_max_tokens ? 1 : fields->sampling.max_tokens;
  return ommai_truncation_read(root, server->config.info.max_model_len - answer, &fields->truncation, error);
}

static double recommended_or(double recommended, double standard) { return recommended > 0 ? recommended : standard; }

/* What the checkpoint recommends, as vLLM does, else what OpenAI's interface defines. */
static void set_defaults(const struct omma_model_info *info, struct omma_sampling *sampling) {
  sampling->temperature = info->recommended_temperature >= 0 ? info->recommended_temperature : 1;
  sampling->top_p = recommended_or(info->recommended_top_p, 1);
  sampling->min_p = info->recommended_min_p;
  sampling->top_k = info->recommended_top_k;
  sampling->repetition_penalty = recommended_or(info->recommended_repetition_penalty, 1);
  sampling->presence_penalty = info->recommended_presence_penalty;
  sampling->frequency_penalty = info->recommended_frequency_penalty;
}

/* The message names those there are, as far as it has room. */
bool ommai_model_check(const struct ommai_server_config *config, const char *name, struct ommai_api_error *error) {
  char names[400] = "";
  size_t used = 0;
  if (ommai_server_model_name(config, name)) return true;
  for (size_t i = 0; i < config->n_model_names; i++) {
    int added = snprintf(names + used, sizeof names - used, "%s`%s`", i ? ", " : "", config->model_names[i]);
    if (added < 0 || (size_t)added >= sizeof names - used) {
      names[used] = '\0';
      break;
    }
    used += (size_t)added;
  }
  return ommai_api_fail(error, 404, "model", "The model `%.200s` does not exist. Served here: %s.", name,
                        used ? names : "see /v1/models");
}

bool ommai_model_read(const struct ommai_server_config *config, const json_t *root, const char **name,
                      struct ommai_api_error *error) {
  const char *model = NULL;
  if (!ommai_field_string(root, "model", &model, error)) return false;
  if (model && !ommai_model_check(config, model, error)) return false;
  *name = model ? ommai_server_model_name(config, model) : config->model_names[0];
  return true;
}

static bool read_stream_options(const json_t *root, struct ommai_answer_fields *fields, struct ommai_api_error *error) {
  static const char FIELD[] = "stream_options";
  /* include_obfuscation pads the events of OpenAI's server */
  static const char *const known[] = {"include_usage", "continuous_usage_stats", "include_obfuscation", NULL};
  const json_t *options;
  if (!ommai_field_boolean(root, "stream", &fields->stream, error)) return false;
  if (!ommai_field_object(root, FIELD, known, &options, error)) return false;
  if (!options) return true;
  if (!fields->stream) {
    return ommai_api_fail(error, 400, FIELD, "Stream options can only be defined when `stream=True`.");
  }
  return ommai_field_boolean(options, "include_usage", &fields->include_usage, error) &&
         ommai_field_boolean(options, "continuous_usage_stats", &fields->continuous_usage, error);
}

bool ommai_answer_fields_read(struct ommai_server *server, const json_t *root, int64_t max_tokens,
                              struct ommai_answer_fields *fields, struct ommai_api_error *error) {
  struct omma_sampling *sampling = &fields->sampling;
  *fields = (struct ommai_answer_fields){.n = 1, .sampling.max_tokens = max_tokens};
  set_defaults(&server->config.info, sampling);
  return ommai_model_read(&server->config, root, &fields->model, error) &&
         ommai_field_string(root, "request_id", &fields->request_id, error) && read_stream_options(root, fields, error) &&
         ommai_own_wishes_read(root, &fields->own, error) && refuse_unsupported(root, error) &&
         ommai_field_number(root, "temperature", 0, 2, false, &sampling->temperature, error) &&
         ommai_field_number(root, "top_p", 0, 1, true, &sampling->top_p, error) &&
         ommai_field_number(root, "min_p", 0, 1, false, &sampling->min_p, error) &&
         ommai_field_integer(root, "top_k", -1, INT32_MAX, &sampling->top_k, error) &&
         ommai_field_number(root, "repetition_penalty", 0, 100, true, &sampling->repetition_penalty, error) &&
         ommai_field_number(root, "presence_penalty", -2, 2, false, &sampling->presence_penalty, error) &&
         ommai_field_number(root, "frequency_penalty", -2, 2, false, &sampling->frequency_penalty, error) &&
         ommai_field_boolean(root, "ignore_eos", &sampling->ignore_eos, error) &&
         ommai_field_integer(root, "n", 1, OMMAI_MAX_CHOICES, &fields->n, error) &&
         ommai_field_integer(root, "priority", INT32_MIN, INT32_MAX, &fields->priority, error) &&
         ommai_field_name(root, "cache_salt", &fields->cache_salt, error) && read_max_tokens(server, root, fields, error) &&
         read_seed(server, root, fields, error) && read_stop(root, fields, error) &&
         read_stop_tokens(server, root, fields, error) && read_text_flags(root, fields, error) &&
         read_prompt_logprobs(root, fields, error) && read_truncation(server, root, fields, error) &&
         ommai_token_fields_read(&server->config, root, &fields->tokens, sampling, error) &&
         refuse_best_of(root, fields->n, error) && ommai_structured_output_read(server, root, false, &sampling->grammar, error);
}

void ommai_answer_fields_free(const struct ommai_server *server, struct ommai_answer_fields *fields) {
  omma_grammar_destroy(fields->sampling.grammar);
  ommai_token_fields_free(&fields->tokens, server->config.allocator);
}
