#include "families/decoder_config.h"

#include <string.h>

#include "base/error.h"
#include "families/config_keys.h"
#include "families/model_config.h"

_Static_assert(OMMAI_CONFIG_MAX_LAYERS <= OMMAI_DECODER_MAX_LAYERS, "a config's layers fit the decoder's table");

enum omma_status ommai_decoder_parse_eps(const json_t *text, const char *where, const char *key, double fallback, float *out,
                                         struct omma_error *error) {
  double eps = fallback;
  OMMAI_TRY(ommai_json_number(text, where, key, false, &eps, error));
  if (!(eps > 0 && eps < 1))
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, key, "%s: key \"%s\": found %g", where, key, eps);
  *out = (float)eps;
  return OMMA_OK;
}

static enum omma_status parse_layer_types(const json_t *types, const char *where, int64_t window,
                                          struct ommai_decoder_config *config, struct omma_error *error) {
  if (json_array_size(types) != (size_t)config->n_layers) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, "layer_types",
                            "%s: key \"layer_types\": expected num_hidden_layers = %lld entries, found %zu", where,
                            (long long)config->n_layers, json_array_size(types));
  }
  for (int64_t i = 0; i < config->n_layers; i++) {
    const json_t *type = json_array_get(types, (size_t)i);
    const char *name = json_is_string(type) ? json_string_value(type) : "";
    config->layers[i].window = strcmp(name, "sliding_attention") == 0 ? window : 0;
    if (config->layers[i].window || strcmp(name, "full_attention") == 0) continue;
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "layer_types",
                            "%s: key \"layer_types\": expected \"full_attention\" or \"sliding_attention\" for layer %lld",
                            where, (long long)i);
  }
  return OMMA_OK;
}

/* Layers slide where use_sliding_window and sliding_window require it, from max_window_layers on or
 * as layer_types lists them. */
static enum omma_status parse_windows(const json_t *text, const char *where, struct ommai_decoder_config *config,
                                      struct omma_error *error) {
  enum { MAX_WINDOW_LAYERS = 80, WINDOW = 4096 };
  bool on = false;
  int64_t first = MAX_WINDOW_LAYERS, window = WINDOW;
  const json_t *given = json_object_get(text, "sliding_window");
  json_t *types;
  OMMAI_TRY(ommai_json_boolean(text, where, "use_sliding_window", false, &on, error));
  OMMAI_TRY(ommai_json_integer(text, where, "max_window_layers", false, 0, INT32_MAX, &first, error));
  OMMAI_TRY(ommai_json_array(text, where, "layer_types", false, &types, error));
  if (!on || (given && json_is_null(given))) return OMMA_OK;
  OMMAI_TRY(ommai_json_integer(text, where, "sliding_window", false, 1, INT32_MAX, &window, error));
  if (types) return parse_layer_types(types, where, window, config, error);
  for (int64_t i = first; i < config->n_layers; i++) config->layers[i].window = window;
  return OMMA_OK;
}

enum omma_status ommai_decoder_refuse_windows(const struct ommai_decoder_config *config, const char *where,
                                              struct omma_error *error) {
  int64_t i = 0;
  while (i < config->n_layers && config->layers[i].window == 0) i++;
  if (i == config->n_layers) return OMMA_OK;
  return ommai_fail_field(
      error, OMMA_ERROR_UNSUPPORTED, "use_sliding_window",
      "%s: key \"use_sliding_window\": expected false, found true: sliding windows are not supported for this family", where);
}

enum omma_status ommai_decoder_parse_common(const json_t *text, const char *where, double default_eps,
                                            struct ommai_decoder_config *config, struct omma_error *error) {
  OMMAI_TRY(ommai_json_integer(text, where, "num_hidden_layers", true, 1, OMMAI_CONFIG_MAX_LAYERS, &config->n_layers, error));
  OMMAI_TRY(ommai_json_integer(text, where, "hidden_size", true, 1, OMMAI_CONFIG_MAX_WIDTH, &config->hidden_size, error));
  OMMAI_TRY(ommai_json_integer(text, where, "num_attention_heads", true, 1, OMMAI_CONFIG_MAX_HEADS, &config->n_heads, error));
  config->n_kv_heads = config->n_heads;
  OMMAI_TRY(ommai_json_integer(text, where, "num_key_value_heads", false, 1, config->n_heads, &config->n_kv_heads, error));
  config->head_dim = config->hidden_size / config->n_heads;
  /* Where all layers have experts it may be missing. */
  bool dense = !json_object_get(text, "shared_expert_intermediate_size");
  OMMAI_TRY(ommai_json_integer(text, where, "intermediate_size", dense, 1, OMMAI_CONFIG_MAX_WIDTH, &config->intermediate_size,
                               error));
  OMMAI_TRY(ommai_json_integer(text, where, "vocab_size", true, 1, OMMAI_CONFIG_MAX_VOCAB, &config->vocab_size, error));
  OMMAI_TRY(ommai_json_integer(text, where, "max_position_embeddings", true, 1, OMMAI_CONFIG_MAX_POSITIONS,
                               &config->max_positions, error));
  OMMAI_TRY(ommai_decoder_parse_eps(text, where, "rms_norm_eps", default_eps, &config->norm_eps, error));
  if (!config->qkv_bias) OMMAI_TRY(ommai_config_refuse_true(text, where, "attention_bias", error));
  OMMAI_TRY(ommai_config_refuse_true(text, where, "use_bias", error));
  OMMAI_TRY(parse_windows(text, where, config, error));
  return ommai_config_expect_string(text, where, "hidden_act", "silu", error);
}

enum omma_status ommai_decoder_parse_tied(const json_t *text, const char *where, const json_t *root, const char *path,
                                          struct ommai_decoder_config *config, struct omma_error *error) {
  OMMAI_TRY(ommai_json_boolean(text, where, "tie_word_embeddings", false, &config->tied_embeddings, error));
  return ommai_json_boolean(root, path, "tie_word_embeddings", false, &config->tied_embeddings, error);
}

enum omma_status ommai_decoder_check_router(const char *where, const struct ommai_router_config *router,
                                            struct omma_error *error) {
  if (router->n_chosen > router->n_experts) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, "num_experts_per_tok",
                            "%s: key \"num_experts_per_tok\": expected at most the %lld experts, found %lld", where,
                            (long long)router->n_experts, (long long)router->n_chosen);
  }
  int64_t group = router->n_experts / router->n_groups;
  if (router->n_experts % router->n_groups || router->n_chosen_groups > router->n_groups ||
      router->n_chosen > router->n_chosen_groups * group) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, "n_group",
                            "%s: %lld experts in n_group %lld groups, topk_group %lld: expected equal groups that leave %lld "
                            "experts to choose",
                            where, (long long)router->n_experts, (long long)router->n_groups,
                            (long long)router->n_chosen_groups, (long long)router->n_chosen);
  }
  return OMMA_OK;
}
