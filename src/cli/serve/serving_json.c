#include "cli/serve/serving_json.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/core/diagnostics.h"
#include "cli/core/json_words.h"

enum omma_status ommai_serving_read_media_limits(const char *text, struct omma_server_options *options,
                                                 struct omma_error *error) {
  static const char flag[] = "--limit-mm-per-prompt";
  static const char *const known[] = {"image", "video", "audio", NULL};
  struct ommai_server_settings *settings = &options->settings;
  json_t *root;
  if (!text) return OMMA_OK;
  enum omma_status status = ommai_json_option_read(flag, text, known, &root, error);
  if (status == OMMA_OK) {
    status = ommai_json_integer(root, flag, "image", false, 0, INT32_MAX, &settings->limit_images_per_prompt, error);
  }
  if (status == OMMA_OK) {
    status = ommai_json_integer(root, flag, "video", false, 0, INT32_MAX, &settings->limit_videos_per_prompt, error);
  }
  json_decref(root);
  return status;
}

enum omma_status ommai_serving_read_processor(const char *text, const struct ommai_common *common,
                                              struct omma_image_options *limits, struct omma_error *error) {
  static const char flag[] = "--mm-processor-kwargs";
  static const char *const known[] = {"min_pixels", "max_pixels", NULL};
  json_t *root;
  *limits = ommai_common_image_options(common);
  if (!text) return OMMA_OK;
  if (limits->min_pixels || limits->max_pixels) {
    return ommai_fail(error, OMMA_ERROR_ARGUMENT, "%s: not together with --min-pixels and --max-pixels", flag);
  }
  enum omma_status status = ommai_json_option_read(flag, text, known, &root, error);
  if (status == OMMA_OK) {
    status = ommai_json_integer(root, flag, "min_pixels", false, 1, INT64_MAX, &limits->min_pixels, error);
  }
  if (status == OMMA_OK) {
    status = ommai_json_integer(root, flag, "max_pixels", false, 1, INT64_MAX, &limits->max_pixels, error);
  }
  json_decref(root);
  return status;
}

static const char speculation[] = "--speculative-config";

static enum omma_status read_n_drafts(const json_t *root, struct omma_engine_options *options, struct omma_error *error) {
  return ommai_json_integer(root, speculation, "num_speculative_tokens", true, 1, 15, &options->draft_tokens, error);
}

static enum omma_status read_lookup(const json_t *root, struct omma_engine_options *options, struct omma_error *error) {
  OMMAI_TRY(read_n_drafts(root, options, error));
  OMMAI_TRY(ommai_json_integer(root, speculation, "prompt_lookup_max", false, 1, 64, &options->lookup_max, error));
  OMMAI_TRY(ommai_json_integer(root, speculation, "prompt_lookup_min", false, 1, 64, &options->lookup_min, error));
  if (!options->lookup_max || options->lookup_min <= options->lookup_max) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_ARGUMENT,
                    "%s: \"prompt_lookup_min\": expected 1 to \"prompt_lookup_max\", %lld, found %lld", speculation,
                    (long long)options->lookup_max, (long long)options->lookup_min);
}

/* The caller frees common->draft_model. */
static enum omma_status read_draft_model(const json_t *root, struct omma_engine_options *options, struct ommai_common *common,
                                         struct omma_error *error) {
  const char *directory = json_string_value(json_object_get(root, "model"));
  if (!directory || !*directory) {
    return ommai_fail(error, OMMA_ERROR_ARGUMENT,
                      "%s: model: expected the directory of a smaller model with the same tokenizer", speculation);
  }
  OMMAI_TRY(read_n_drafts(root, options, error));
  common->draft_model = strdup(directory);
  return common->draft_model ? OMMA_OK : ommai_fail(error, OMMA_ERROR_MEMORY, "%s: no memory", speculation);
}

/* "mtp", or in older files for vLLM "FAMILY_mtp". */
static bool is_draft_head(const char *method) {
  size_t n = strlen(method);
  return strcmp(method, "mtp") == 0 || (n > 4 && strcmp(method + n - 4, "_mtp") == 0);
}

static enum omma_status read_method(const json_t *root, struct omma_engine_options *options, struct ommai_common *common,
                                    struct omma_error *error) {
  static const char *const of_head[] = {"method", "num_speculative_tokens", NULL},
                           *const of_model[] = {"method", "num_speculative_tokens", "model", NULL},
                           *const of_lookup[] = {"method", "num_speculative_tokens", "prompt_lookup_max", "prompt_lookup_min",
                                                 NULL};
  const json_t *named = json_object_get(root, "method");
  const char *method = named ? json_string_value(named) : json_object_get(root, "model") ? "draft_model" : NULL;
  bool lookup = method && strcmp(method, "ngram") == 0, head = method && is_draft_head(method);
  if (!lookup && !head && (!method || strcmp(method, "draft_model") != 0)) {
    return ommai_fail(error, OMMA_ERROR_ARGUMENT, "%s: method: expected \"ngram\", \"mtp\" or \"draft_model\"", speculation);
  }
  OMMAI_TRY(ommai_json_check_keys(root, speculation, lookup ? of_lookup : head ? of_head : of_model, error));
  if (lookup) return read_lookup(root, options, error);
  common->draft_head = head;
  options->drafting = head ? OMMA_DRAFTS_HEAD : OMMA_DRAFTS_MODEL;
  return head ? read_n_drafts(root, options, error) : read_draft_model(root, options, common, error);
}

enum omma_status ommai_serving_read_speculation(const char *text, struct omma_engine_options *options,
                                                struct ommai_common *common, struct omma_error *error) {
  json_t *root;
  if (!text) return OMMA_OK;
  enum omma_status status = ommai_json_option_read(speculation, text, NULL, &root, error);
  if (status == OMMA_OK) status = read_method(root, options, common, error);
  json_decref(root);
  return status;
}

/* What vLLM's object sets for reasoning: the parser must be the one that is given, and a grammar is
 * for what follows the reasoning. */
static enum omma_status check_reasoning(const char *flag, const json_t *root, const char *given, struct omma_error *error) {
  const char *parser = json_string_value(json_object_get(root, "reasoning_parser"));
  if (parser && parser[0] && (!given || strcmp(given, parser) != 0)) {
    return ommai_fail(error, OMMA_ERROR_ARGUMENT, "%s: reasoning_parser: it is given by --reasoning-parser %s", flag, parser);
  }
  if (given && json_is_true(json_object_get(root, "enable_in_reasoning"))) {
    return ommai_fail(error, OMMA_ERROR_ARGUMENT,
                      "%s: enable_in_reasoning: not supported, structured output follows the reasoning", flag);
  }
  return OMMA_OK;
}

enum omma_status ommai_serving_read_structured_outputs(const char *text, const char *reasoning_parser, bool *compact_json,
                                                       struct omma_error *error) {
  static const char flag[] = "--structured-outputs-config";
  static const char *const known[] = {"backend",
                                      "disable_fallback",
                                      "disable_any_whitespace",
                                      "disable_additional_properties",
                                      "reasoning_parser",
                                      "enable_in_reasoning",
                                      NULL};
  json_t *root;
  if (!text) return OMMA_OK;
  enum omma_status status = ommai_json_option_read(flag, text, known, &root, error);
  if (status == OMMA_OK) status = check_reasoning(flag, root, reasoning_parser, error);
  if (status == OMMA_OK) status = ommai_json_boolean(root, flag, "disable_any_whitespace", false, compact_json, error);
  json_decref(root);
  return status;
}

enum omma_status ommai_serving_check_overrides(const char *command, const char *text, struct omma_error *error) {
  static const char flag[] = "--override-generation-config";
  static const char *const known[] = {
      "temperature",       "top_p",          "top_k", "min_p", "repetition_penalty", "presence_penalty",
      "frequency_penalty", "max_new_tokens", NULL};
  json_t *root, *value;
  const char *key;
  if (!text) return OMMA_OK;
  enum omma_status status = ommai_json_option_read(flag, text, NULL, &root, error);
  json_object_foreach(root, key, value) {
    if (!ommai_word_is_among(key, known)) ommai_warn("%s: %s: \"%s\" changes nothing here", command, flag, key);
  }
  json_decref(root);
  return status;
}
