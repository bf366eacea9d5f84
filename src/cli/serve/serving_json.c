#include "cli/serve/serving_json.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/core/diagnostics.h"
#include "cli/core/json_words.h"

/* Takes the limit of one kind of media. */
static int read_limit(const char *command, const json_t *root, const char *flag, const char *kind, int64_t *limit) {
  struct omma_error error;
  if (ommai_json_integer(root, flag, kind, false, 0, INT32_MAX, limit, &error) == OMMA_OK) return OMMAI_EXIT_DONE;
  return ommai_usage_error("%s: %s", command, error.message);
}

int ommai_serving_read_media_limits(const char *command, const char *text, struct omma_server_options *options) {
  static const char flag[] = "--limit-mm-per-prompt";
  static const char *const known[] = {"image", "video", "audio", NULL};
  json_t *root;
  if (!text) return OMMAI_EXIT_DONE;
  int code = ommai_json_option_read(command, flag, text, known, &root);
  if (code == OMMAI_EXIT_DONE) code = read_limit(command, root, flag, "image", &options->settings.limit_images_per_prompt);
  if (code == OMMAI_EXIT_DONE) code = read_limit(command, root, flag, "video", &options->settings.limit_videos_per_prompt);
  json_decref(root);
  return code;
}

int ommai_serving_read_processor(const char *command, const char *text, const struct ommai_common *common,
                                 struct omma_image_options *limits) {
  static const char flag[] = "--mm-processor-kwargs";
  static const char *const known[] = {"min_pixels", "max_pixels", NULL};
  struct omma_error error;
  json_t *root;
  *limits = ommai_common_image_options(common);
  if (!text) return OMMAI_EXIT_DONE;
  if (limits->min_pixels || limits->max_pixels) {
    return ommai_usage_error("%s: %s: not together with --min-pixels and --max-pixels", command, flag);
  }
  int code = ommai_json_option_read(command, flag, text, known, &root);
  if (code == OMMAI_EXIT_DONE &&
      (ommai_json_integer(root, flag, "min_pixels", false, 1, INT64_MAX, &limits->min_pixels, &error) != OMMA_OK ||
       ommai_json_integer(root, flag, "max_pixels", false, 1, INT64_MAX, &limits->max_pixels, &error) != OMMA_OK)) {
    code = ommai_usage_error("%s: %s", command, error.message);
  }
  json_decref(root);
  return code;
}

static const char speculation[] = "--speculative-config";

static int read_n_drafts(const char *command, const json_t *root, struct omma_engine_options *options) {
  struct omma_error error;
  const char *key = "num_speculative_tokens";
  if (ommai_json_integer(root, speculation, key, true, 1, 15, &options->draft_tokens, &error) == OMMA_OK) {
    return OMMAI_EXIT_DONE;
  }
  return ommai_usage_error("%s: %s", command, error.message);
}

static int read_lookup(const char *command, const json_t *root, struct omma_engine_options *options) {
  struct omma_error error;
  int code = read_n_drafts(command, root, options);
  if (code != OMMAI_EXIT_DONE) return code;
  if (ommai_json_integer(root, speculation, "prompt_lookup_max", false, 1, 64, &options->lookup_max, &error) != OMMA_OK ||
      ommai_json_integer(root, speculation, "prompt_lookup_min", false, 1, 64, &options->lookup_min, &error) != OMMA_OK) {
    return ommai_usage_error("%s: %s", command, error.message);
  }
  if (!options->lookup_max || options->lookup_min <= options->lookup_max) return OMMAI_EXIT_DONE;
  return ommai_usage_error("%s: %s: \"prompt_lookup_min\": expected 1 to \"prompt_lookup_max\", %lld, found %lld", command,
                           speculation, (long long)options->lookup_max, (long long)options->lookup_min);
}

/* The caller frees common->draft_model. */
static int read_draft_model(const char *command, const json_t *root, struct omma_engine_options *options,
                            struct ommai_common *common) {
  const char *directory = json_string_value(json_object_get(root, "model"));
  if (!directory || !*directory) {
    return ommai_usage_error("%s: %s: model: expected the directory of a smaller model with the same tokenizer", command,
                             speculation);
  }
  int code = read_n_drafts(command, root, options);
  if (code != OMMAI_EXIT_DONE) return code;
  common->draft_model = strdup(directory);
  return common->draft_model ? code : ommai_usage_error("%s: %s: no memory", command, speculation);
}

/* "mtp", or in older files for vLLM "FAMILY_mtp". */
static bool is_draft_head(const char *method) {
  size_t n = strlen(method);
  return strcmp(method, "mtp") == 0 || (n > 4 && strcmp(method + n - 4, "_mtp") == 0);
}

static int read_method(const char *command, const json_t *root, struct omma_engine_options *options,
                       struct ommai_common *common) {
  static const char *const of_head[] = {"method", "num_speculative_tokens", NULL},
                           *const of_model[] = {"method", "num_speculative_tokens", "model", NULL},
                           *const of_lookup[] = {"method", "num_speculative_tokens", "prompt_lookup_max", "prompt_lookup_min",
                                                 NULL};
  const json_t *named = json_object_get(root, "method");
  const char *method = named ? json_string_value(named) : json_object_get(root, "model") ? "draft_model" : NULL;
  bool lookup = method && strcmp(method, "ngram") == 0, head = method && is_draft_head(method);
  if (!lookup && !head && (!method || strcmp(method, "draft_model") != 0)) {
    return ommai_usage_error("%s: %s: method: expected \"ngram\", \"mtp\" or \"draft_model\"", command, speculation);
  }
  int code = ommai_json_check_keys(command, root, speculation, lookup ? of_lookup : head ? of_head : of_model);
  if (code != OMMAI_EXIT_DONE) return code;
  if (lookup) return read_lookup(command, root, options);
  common->draft_head = head;
  options->drafting = head ? OMMA_DRAFTS_HEAD : OMMA_DRAFTS_MODEL;
  return head ? read_n_drafts(command, root, options) : read_draft_model(command, root, options, common);
}

int ommai_serving_read_speculation(const char *command, const char *text, struct omma_engine_options *options,
                                   struct ommai_common *common) {
  json_t *root;
  if (!text) return OMMAI_EXIT_DONE;
  int code = ommai_json_option_read(command, speculation, text, NULL, &root);
  if (code == OMMAI_EXIT_DONE) code = read_method(command, root, options, common);
  json_decref(root);
  return code;
}

/* What vLLM's object sets for reasoning: the parser must be the one that is given, and a grammar is
 * for what follows the reasoning. */
static int check_reasoning(const char *command, const char *flag, const json_t *root, const char *given) {
  const char *parser = json_string_value(json_object_get(root, "reasoning_parser"));
  if (parser && parser[0] && (!given || strcmp(given, parser) != 0)) {
    return ommai_usage_error("%s: %s: reasoning_parser: it is given by --reasoning-parser %s", command, flag, parser);
  }
  if (given && json_is_true(json_object_get(root, "enable_in_reasoning"))) {
    return ommai_usage_error("%s: %s: enable_in_reasoning: not supported, structured output follows the reasoning", command,
                             flag);
  }
  return OMMAI_EXIT_DONE;
}

int ommai_serving_read_structured_outputs(const char *command, const char *text, const char *reasoning_parser,
                                          bool *compact_json) {
  static const char flag[] = "--structured-outputs-config";
  static const char *const known[] = {"backend",
                                      "disable_fallback",
                                      "disable_any_whitespace",
                                      "disable_additional_properties",
                                      "reasoning_parser",
                                      "enable_in_reasoning",
                                      NULL};
  struct omma_error error;
  json_t *root;
  if (!text) return OMMAI_EXIT_DONE;
  int code = ommai_json_option_read(command, flag, text, known, &root);
  if (code == OMMAI_EXIT_DONE) code = check_reasoning(command, flag, root, reasoning_parser);
  if (code == OMMAI_EXIT_DONE &&
      ommai_json_boolean(root, flag, "disable_any_whitespace", false, compact_json, &error) != OMMA_OK) {
    code = ommai_usage_error("%s: %s", command, error.message);
  }
  json_decref(root);
  return code;
}

int ommai_serving_check_overrides(const char *command, const char *text) {
  static const char flag[] = "--override-generation-config";
  static const char *const known[] = {
      "temperature",       "top_p",          "top_k", "min_p", "repetition_penalty", "presence_penalty",
      "frequency_penalty", "max_new_tokens", NULL};
  json_t *root, *value;
  const char *key;
  if (!text) return OMMAI_EXIT_DONE;
  int code = ommai_json_option_read(command, flag, text, NULL, &root);
  json_object_foreach(root, key, value) {
    size_t i = 0;
    while (known[i] && strcmp(known[i], key) != 0) i++;
    if (!known[i]) ommai_warn("%s: %s: \"%s\" changes nothing here", command, flag, key);
  }
  json_decref(root);
  return code;
}
