#include "families/hybrid_layers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "families/config_keys.h"
#include "families/model_config.h"
#include "kernels/delta_rule.h"
#include "language/decoder_sizes.h"
#include "language/delta_net.h"
#include "language/grouped_attention.h"

enum { NAME_SIZE = OMMAI_LOADER_MAX_NAME + 1 };

/* ---- config.json ---- */

static enum omma_status parse_types(const json_t *types, const char *where, struct ommai_decoder_config *config,
                                    struct omma_error *error) {
  if (json_array_size(types) != (size_t)config->n_layers) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, "layer_types",
                            "%s: key \"layer_types\": expected num_hidden_layers = %lld entries, found %zu", where,
                            (long long)config->n_layers, json_array_size(types));
  }
  for (int64_t i = 0; i < config->n_layers; i++) {
    const json_t *type = json_array_get(types, (size_t)i);
    const char *name = json_is_string(type) ? json_string_value(type) : "";
    bool full = strcmp(name, "full_attention") == 0;
    config->layers[i].mixer = full ? &ommai_grouped_attention : &ommai_delta_net;
    if (full || strcmp(name, "linear_attention") == 0) continue;
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "layer_types",
                            "%s: key \"layer_types\": expected \"linear_attention\" or \"full_attention\" for layer %lld, "
                            "found \"%.60s\"",
                            where, (long long)i, name);
  }
  return OMMA_OK;
}

/* Every interval-th layer is full attention, the others are gated delta nets. */
static enum omma_status parse_layers(const json_t *text, const char *where, struct ommai_decoder_config *config,
                                     struct omma_error *error) {
  int64_t interval = 4;
  json_t *types;
  OMMAI_TRY(ommai_json_array(text, where, "layer_types", false, &types, error));
  if (types) return parse_types(types, where, config, error);
  OMMAI_TRY(ommai_json_integer(text, where, "full_attention_interval", false, 1, OMMAI_CONFIG_MAX_LAYERS, &interval, error));
  for (int64_t i = 0; i < config->n_layers; i++) {
    config->layers[i].mixer = (i + 1) % interval == 0 ? &ommai_grouped_attention : &ommai_delta_net;
  }
  return OMMA_OK;
}

/* Files without these keys have one layer, or no head at all. */
static enum omma_status parse_draft_head(const json_t *text, const char *where, struct ommai_draft_offer *offer,
                                         struct omma_error *error) {
  offer->n_layers = 1;
  OMMAI_TRY(
      ommai_json_integer(text, where, "mtp_num_hidden_layers", false, 0, OMMAI_CONFIG_MAX_LAYERS, &offer->n_layers, error));
  return ommai_json_boolean(text, where, "mtp_use_dedicated_embeddings", false, &offer->own_embeddings, error);
}

static enum omma_status parse_delta(const json_t *text, const char *where, struct ommai_delta_config *delta,
                                    struct omma_error *error) {
  const struct {
    const char *key;
    int64_t fallback, max, *out;
  } keys[] = {{"linear_num_key_heads", 16, OMMAI_CONFIG_MAX_HEADS, &delta->n_key_heads},
              {"linear_num_value_heads", 32, OMMAI_CONFIG_MAX_HEADS, &delta->n_value_heads},
              {"linear_key_head_dim", 128, OMMAI_DELTA_MAX_DIM, &delta->key_dim},
              {"linear_value_head_dim", 128, OMMAI_DELTA_MAX_DIM, &delta->value_dim},
              {"linear_conv_kernel_dim", 4, OMMAI_DELTA_MAX_KERNEL, &delta->kernel}};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    *keys[i].out = keys[i].fallback;
    OMMAI_TRY(ommai_json_integer(text, where, keys[i].key, false, 1, keys[i].max, keys[i].out, error));
  }
  if (delta->n_value_heads % delta->n_key_heads == 0) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_FORMAT, "linear_num_value_heads",
                          "%s: expected linear_num_value_heads %lld to be a multiple of linear_num_key_heads %lld", where,
                          (long long)delta->n_value_heads, (long long)delta->n_key_heads);
}

/* The gate of a gated delta net's norm: SiLU, by either of its names. Files of Qwen3.5 leave the
 * key out, later ones have it. */
static enum omma_status parse_norm_gate(const json_t *text, const char *where, struct omma_error *error) {
  const char *gate = "swish";
  OMMAI_TRY(ommai_json_string(text, where, "output_gate_type", false, &gate, error));
  if (strcmp(gate, "silu") == 0) return OMMA_OK;
  return ommai_config_expect_string(text, where, "output_gate_type", "swish", error);
}

enum omma_status ommai_hybrid_parse(const json_t *text, const char *where, struct ommai_decoder_config *config,
                                    struct omma_error *error) {
  config->output_gate = true;
  OMMAI_TRY(ommai_json_boolean(text, where, "attn_output_gate", false, &config->output_gate, error));
  if (!config->output_gate) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "attn_output_gate",
                            "%s: key \"attn_output_gate\": false is not supported", where);
  }
  OMMAI_TRY(parse_norm_gate(text, where, error));
  OMMAI_TRY(parse_layers(text, where, config, error));
  OMMAI_TRY(parse_draft_head(text, where, &config->draft_offer, error));
  return parse_delta(text, where, &config->delta, error);
}

/* ---- tensors ---- */

void ommai_hybrid_finish_norm(const struct ommai_weight_loader *loader, float *weight, int64_t n) {
  for (int64_t i = 0; loader->mode == OMMAI_LOADER_PACK && i < n; i++) weight[i] += 1;
}

/* conv1d.weight [channels, 1, kernel], turned to [kernel, channels]. */
static enum omma_status load_conv(struct ommai_weight_loader *loader, const struct ommai_delta_config *delta,
                                  const char *prefix, float **out, struct omma_error *error) {
  char name[NAME_SIZE];
  float *read = NULL;
  const int64_t shape[3] = {ommai_delta_channels(delta), 1, delta->kernel};
  snprintf(name, sizeof name, "%s.conv1d.weight", prefix);
  OMMAI_TRY(ommai_loader_vector(loader, name, 3, shape, &read, error));
  if (loader->mode != OMMAI_LOADER_PACK) return OMMA_OK;
  size_t n = (size_t)(shape[0] * shape[2]);
  *out = ommai_allocate(&loader->allocator, n, sizeof **out);
  for (int64_t c = 0; *out && c < shape[0]; c++) {
    for (int64_t j = 0; j < shape[2]; j++) (*out)[j * shape[0] + c] = read[c * shape[2] + j];
  }
  ommai_release(&loader->allocator, read, n, sizeof *read);
  return *out ? OMMA_OK : ommai_fail_memory(error, name, n * sizeof **out);
}

static enum omma_status load_delta_vectors(struct ommai_weight_loader *loader, const struct ommai_decoder_config *config,
                                           const char *prefix, struct ommai_delta_weights *out, struct omma_error *error) {
  const struct ommai_delta_config *delta = &config->delta;
  int64_t heads = delta->n_value_heads;
  OMMAI_TRY(load_conv(loader, delta, prefix, &out->conv, error));
  OMMAI_TRY(ommai_decoder_load_vector(loader, prefix, "A_log", heads, &out->decay_rates, error));
  for (int64_t h = 0; loader->mode == OMMAI_LOADER_PACK && h < heads; h++) out->decay_rates[h] = expf(out->decay_rates[h]);
  OMMAI_TRY(ommai_decoder_load_vector(loader, prefix, "dt_bias", heads, &out->decay_bias, error));
  return ommai_decoder_load_vector(loader, prefix, "norm.weight", delta->value_dim, &out->norm, error);
}

enum omma_status ommai_hybrid_load_delta(struct ommai_weight_loader *loader, const struct ommai_decoder_config *config,
                                         const char *layer_prefix, int64_t index, struct ommai_decoder_layer *layer,
                                         struct omma_error *error) {
  const struct ommai_delta_config *delta = &config->delta;
  int64_t h = config->hidden_size, values = delta->n_value_heads * delta->value_dim;
  char prefix[OMMAI_DECODER_PREFIX_SIZE + 16];
  snprintf(prefix, sizeof prefix, "%s.linear_attn", layer_prefix);
  const struct ommai_linear_part in[4] = {ommai_decoder_part(prefix, "in_proj_qkv", ommai_delta_channels(delta), false),
                                          ommai_decoder_part(prefix, "in_proj_z", values, false),
                                          ommai_decoder_part(prefix, "in_proj_b", delta->n_value_heads, false),
                                          ommai_decoder_part(prefix, "in_proj_a", delta->n_value_heads, false)};
  const struct ommai_linear_part out = ommai_decoder_part(prefix, "out_proj", h, false);
  OMMAI_TRY(load_delta_vectors(loader, config, prefix, &layer->delta, error));
  OMMAI_TRY(ommai_decoder_load_linear(loader, OMMAI_ROLE_TEXT_QKV, in, 4, h, ommai_decoder_call_qkv(config, index), &layer->qkv,
                                      error));
  return ommai_decoder_load_linear(loader, OMMAI_ROLE_TEXT_O, &out, 1, values, ommai_decoder_call_o(config, index), &layer->o,
                                   error);
}

/* Queries of all heads, keys, values, gates of all heads: 2 n_heads + 2 matrices. */
static void set_sources(const struct ommai_decoder_config *config, const struct ommai_loader_tensor tensors[3],
                        struct ommai_linear_source *sources) {
  int64_t n = config->n_heads, d = config->head_dim, head = d * config->hidden_size, kv = ommai_decoder_kv_width(config);
  for (int64_t i = 0; i < n; i++) {
    sources[i] = ommai_loader_matrix(&tensors[0], 2 * i * head, d, false);
    sources[n + 2 + i] = ommai_loader_matrix(&tensors[0], (2 * i + 1) * head, d, false);
  }
  sources[n] = ommai_loader_matrix(&tensors[1], 0, kv, false);
  sources[n + 1] = ommai_loader_matrix(&tensors[2], 0, kv, false);
}

enum omma_status ommai_hybrid_load_qkv(struct ommai_weight_loader *loader, const struct ommai_decoder_config *config,
                                       const char *prefix, int64_t index, struct ommai_decoder_layer *layer,
                                       struct omma_error *error) {
  static const char *const names[3] = {"q_proj", "k_proj", "v_proj"};
  int64_t kv = ommai_decoder_kv_width(config), h = config->hidden_size;
  const int64_t shapes[3][2] = {{2 * ommai_decoder_q_width(config), h}, {kv, h}, {kv, h}};
  size_t n_sources = (size_t)(2 * config->n_heads + 2);
  struct ommai_loader_tensor tensors[3];
  char name[NAME_SIZE];
  for (int i = 2; i >= 0; i--) {
    snprintf(name, sizeof name, "%s.self_attn.%s.weight", prefix, names[i]);
    OMMAI_TRY(ommai_loader_open(loader, name, 2, shapes[i], &tensors[i], error));
  }
  struct ommai_linear_source *sources = ommai_allocate(&loader->allocator, n_sources, sizeof *sources);
  if (!sources) return ommai_fail_memory(error, name, n_sources * sizeof *sources);
  set_sources(config, tensors, sources);
  snprintf(name, sizeof name, "%s.self_attn.q_proj", prefix);
  enum omma_status status = ommai_decoder_pack_linear(loader, OMMAI_ROLE_TEXT_QKV, name, sources, (int)n_sources, h,
                                                      ommai_decoder_call_qkv(config, index), &layer->qkv, error);
  ommai_release(&loader->allocator, sources, n_sources, sizeof *sources);
  for (int i = 0; i < 3; i++) ommai_loader_close(loader, &tensors[i]);
  return status;
}
