#include "families/decoder_loader.h"

#include <stdio.h>

#include "base/error.h"
#include "language/decoder_sizes.h"
#include "language/feed_forward.h"

enum { NAME_SIZE = OMMAI_LOADER_MAX_NAME + 1 };

enum omma_status ommai_decoder_load_vector(struct ommai_weight_loader *loader, const char *prefix, const char *name, int64_t n,
                                           float **out, struct omma_error *error) {
  char full[NAME_SIZE];
  snprintf(full, sizeof full, "%s.%s", prefix, name);
  return ommai_loader_vector(loader, full, 1, &n, out, error);
}

struct ommai_linear_part ommai_decoder_part(const char *prefix, const char *name, int64_t n_out, bool has_bias) {
  struct ommai_linear_part part = {.n_out = n_out, .has_bias = has_bias};
  snprintf(part.prefix, sizeof part.prefix, "%s.%s", prefix, name);
  return part;
}

/* Of the layer that was packed or described last. */
static enum omma_status make_parts(struct ommai_weight_loader *loader, bool has_bias, const struct ommai_linear_call *call,
                                   struct ommai_decoder_linear *out, struct omma_error *error) {
  if (loader->mode != OMMAI_LOADER_PACK) return ommai_loader_count_scratch(loader, has_bias, call, true, error);
  return ommai_linear_parts_create(loader->linear_context, out->linear, call, &out->parts, error);
}

enum omma_status ommai_decoder_load_linear(struct ommai_weight_loader *loader, enum ommai_weight_role role,
                                           const struct ommai_linear_part *parts, int n_parts, int64_t n_in,
                                           struct ommai_linear_call call, struct ommai_decoder_linear *out,
                                           struct omma_error *error) {
  bool has_bias = false;
  for (int i = 0; i < n_parts; i++) has_bias |= parts[i].has_bias;
  OMMAI_TRY(ommai_loader_linear(loader, role, parts, n_parts, 2, &n_in, &out->linear, error));
  return make_parts(loader, has_bias, &call, out, error);
}

enum omma_status ommai_decoder_pack_linear(struct ommai_weight_loader *loader, enum ommai_weight_role role, const char *name,
                                           const struct ommai_linear_source *sources, int n_sources, int64_t n_in,
                                           struct ommai_linear_call call, struct ommai_decoder_linear *out,
                                           struct omma_error *error) {
  OMMAI_TRY(ommai_loader_pack(loader, role, name, sources, n_sources, n_in, &out->linear, error));
  return make_parts(loader, false, &call, out, error);
}

/* Of the layer that was packed or described last. */
static enum omma_status make_op(struct ommai_weight_loader *loader, const struct ommai_linear_call *call,
                                struct ommai_decoder_tile_linear *out, struct omma_error *error) {
  if (loader->mode != OMMAI_LOADER_PACK) return ommai_loader_count_scratch(loader, false, call, false, error);
  return ommai_linear_op_create(loader->linear_context, out->linear, call, &out->op, error);
}

enum omma_status ommai_decoder_pack_tile_linear(struct ommai_weight_loader *loader, enum ommai_weight_role role,
                                                const char *name, const struct ommai_linear_source *sources, int n_sources,
                                                int64_t n_in, struct ommai_linear_call call,
                                                struct ommai_decoder_tile_linear *out, struct omma_error *error) {
  OMMAI_TRY(ommai_loader_pack(loader, role, name, sources, n_sources, n_in, &out->linear, error));
  return make_op(loader, &call, out, error);
}

/* The parts that gate and up are stacked from, and down. */
struct gated_parts {
  struct ommai_linear_part gate_up[2], down;
};

static struct gated_parts gated_parts(const struct ommai_decoder_config *config, const char *prefix,
                                      int64_t intermediate_size) {
  return (struct gated_parts){{ommai_decoder_part(prefix, "gate_proj", intermediate_size, false),
                               ommai_decoder_part(prefix, "up_proj", intermediate_size, false)},
                              ommai_decoder_part(prefix, "down_proj", config->hidden_size, false)};
}

enum omma_status ommai_decoder_load_dense(struct ommai_weight_loader *loader, const struct ommai_decoder_config *config,
                                          const char *prefix, int64_t intermediate_size, bool fused,
                                          struct ommai_decoder_dense *out, struct omma_error *error) {
  struct gated_parts parts = gated_parts(config, prefix, intermediate_size);
  if (fused) parts.gate_up[0] = ommai_decoder_part(prefix, "gate_up_proj", 2 * intermediate_size, false);
  OMMAI_TRY(ommai_decoder_load_linear(loader, OMMAI_ROLE_GATE_UP, parts.gate_up, fused ? 1 : 2, config->hidden_size,
                                      ommai_feed_forward_call_gate_up(config, intermediate_size), &out->gate_up, error));
  return ommai_decoder_load_linear(loader, OMMAI_ROLE_DOWN, &parts.down, 1, intermediate_size,
                                   ommai_feed_forward_call_down(config, intermediate_size, !config->branch_norms), &out->down,
                                   error);
}

static enum omma_status load_expert(struct ommai_weight_loader *loader, const struct ommai_decoder_config *config,
                                    const char *prefix, struct ommai_decoder_expert *out, struct omma_error *error) {
  int64_t hidden = config->hidden_size, intermediate = config->experts.intermediate_size;
  const struct gated_parts parts = gated_parts(config, prefix, intermediate);
  const struct ommai_linear_call gate_up = ommai_feed_forward_call_gate_up(config, intermediate);
  const struct ommai_linear_call down = ommai_feed_forward_call_down(config, intermediate, false);
  const enum ommai_weight_role role = OMMAI_ROLE_EXPERT;
  OMMAI_TRY(ommai_loader_linear(loader, role, parts.gate_up, 2, 2, &hidden, &out->gate_up.linear, error));
  OMMAI_TRY(make_op(loader, &gate_up, &out->gate_up, error));
  OMMAI_TRY(ommai_loader_linear(loader, role, &parts.down, 1, 2, &intermediate, &out->down.linear, error));
  return make_op(loader, &down, &out->down, error);
}

enum omma_status ommai_decoder_load_router(struct ommai_weight_loader *loader, const struct ommai_decoder_config *config,
                                           const char *prefix, struct ommai_decoder_tile_linear *out,
                                           struct omma_error *error) {
  static const char *const names[2] = {"gate", "shared_expert_gate"};
  char name[NAME_SIZE];
  int n = config->experts.router.shared_gate ? 2 : 1;
  const int64_t shapes[2][2] = {{config->experts.router.n_experts, config->hidden_size}, {1, config->hidden_size}};
  struct ommai_loader_tensor tensors[2];
  struct ommai_linear_source sources[2];
  for (int i = 0; i < n; i++) {
    snprintf(name, sizeof name, "%s.%s.weight", prefix, names[i]);
    OMMAI_TRY(ommai_loader_open(loader, name, 2, shapes[i], &tensors[i], error));
    sources[i] = ommai_loader_matrix(&tensors[i], 0, shapes[i][0], false);
  }
  OMMAI_TRY(ommai_decoder_pack_tile_linear(loader, OMMAI_ROLE_ROUTER, name, sources, n, config->hidden_size,
                                           ommai_decoder_call_router(config), out, error));
  for (int i = 0; i < n; i++) ommai_loader_close(loader, &tensors[i]);
  return OMMA_OK;
}

enum omma_status ommai_decoder_load_experts(struct ommai_weight_loader *loader, const struct ommai_decoder_config *config,
                                            const char *prefix, struct ommai_decoder_layer *layer, struct omma_error *error) {
  for (int64_t e = 0; e < config->experts.router.n_experts; e++) {
    char name[NAME_SIZE];
    struct ommai_decoder_expert described = {0};
    snprintf(name, sizeof name, "%s.experts.%lld", prefix, (long long)e);
    OMMAI_TRY(load_expert(loader, config, name, layer->experts ? &layer->experts[e] : &described, error));
  }
  return OMMA_OK;
}

enum omma_status ommai_decoder_load_ends(struct ommai_weight_loader *loader, const char *prefix, const char *head,
                                         struct ommai_decoder *decoder, struct omma_error *error) {
  const struct ommai_decoder_config *config = &decoder->config;
  const int64_t table[2] = {config->vocab_size, config->hidden_size};
  char embedding[OMMAI_DECODER_PREFIX_SIZE], name[NAME_SIZE];
  snprintf(embedding, sizeof embedding, "%s.embed_tokens", prefix);
  snprintf(name, sizeof name, "%s.weight", embedding);
  OMMAI_TRY(ommai_loader_mapped(loader, name, 2, table, &decoder->embedding, &decoder->embedding_type,
                                &decoder->embedding_stored, error));
  OMMAI_TRY(ommai_decoder_load_vector(loader, prefix, "norm.weight", config->hidden_size, &decoder->final_norm, error));
  struct ommai_linear_part part = {.n_out = config->vocab_size};
  if (config->headless) return OMMA_OK;
  snprintf(part.prefix, sizeof part.prefix, "%s", config->tied_embeddings ? embedding : head);
  return ommai_loader_linear(loader, OMMAI_ROLE_LM_HEAD, &part, 1, 2, &table[1], &decoder->lm_head, error);
}
