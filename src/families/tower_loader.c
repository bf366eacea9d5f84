#include "families/tower_loader.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "families/config_keys.h"
#include "families/model_config.h"

/* ---- config.json ---- */

enum omma_status ommai_tower_check_sizes(const char *where, struct ommai_vision_config *config, struct omma_error *error) {
  config->head_dim = config->hidden_size / config->n_heads;
  if (config->hidden_size % config->n_heads || config->head_dim % 4 || config->head_dim > OMMA_ATTENTION_MAX_HEAD_DIM) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, "num_heads",
                            "%s: hidden_size %lld in %lld heads: expected heads of a multiple of 4, at most %d", where,
                            (long long)config->hidden_size, (long long)config->n_heads, OMMA_ATTENTION_MAX_HEAD_DIM);
  }
  if (config->merge_size != 1 && config->merge_size != 2 && config->merge_size != 4) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "spatial_merge_size",
                            "%s: merging %lld x %lld patches: expected 1, 2 or 4", where, (long long)config->merge_size,
                            (long long)config->merge_size);
  }
  return OMMA_OK;
}

/* intermediate_size as the part of hidden_size that mlp_ratio is, cut to an integer. */
static enum omma_status parse_ratio(const json_t *vision, const char *where, struct ommai_vision_config *config,
                                    struct omma_error *error) {
  double ratio = 4; /* of the official class */
  OMMAI_TRY(ommai_json_number(vision, where, "mlp_ratio", false, &ratio, error));
  double size = (double)config->hidden_size * ratio;
  if (!(size >= 1 && size <= OMMAI_CONFIG_MAX_WIDTH)) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, "mlp_ratio",
                            "%s: key \"mlp_ratio\": %g times %lld: expected 1 to %d outputs", where, ratio,
                            (long long)config->hidden_size, OMMAI_CONFIG_MAX_WIDTH);
  }
  config->intermediate_size = (int64_t)size;
  return OMMA_OK;
}

static enum omma_status parse_theta(const json_t *vision, const char *where, const char *key,
                                    struct ommai_vision_config *config, struct omma_error *error) {
  json_t *rope;
  OMMAI_TRY(ommai_json_object(vision, where, key, false, &rope, error));
  if (rope) OMMAI_TRY(ommai_json_number(rope, where, "rope_theta", false, &config->rope_theta, error));
  return ommai_config_check_theta(where, config->rope_theta, error);
}

enum omma_status ommai_tower_parse(const json_t *vision, const char *where, const struct ommai_tower_keys *keys,
                                   struct ommai_vision_config *config, struct omma_error *error) {
  const struct {
    const char *key;
    int64_t low, high, *out;
  } sizes[] = {
      {keys->depth, 1, OMMAI_CONFIG_MAX_LAYERS, &config->depth},
      {keys->hidden_size, 1, OMMAI_CONFIG_MAX_WIDTH, &config->hidden_size},
      {keys->n_heads, 1, OMMAI_CONFIG_MAX_HEADS, &config->n_heads},
      {keys->intermediate_size, 1, OMMAI_CONFIG_MAX_WIDTH, &config->intermediate_size},
      {"patch_size", 1, 256, &config->patch_size},
      {keys->temporal_patch_size, 1, 16, &config->temporal_patch_size},
      {keys->merge_size, 1, 8, &config->merge_size},
      {keys->in_channels[0], 3, 3, &config->in_channels},
      {keys->in_channels[1], 3, 3, &config->in_channels},
      {keys->out_hidden_size, 1, OMMAI_CONFIG_MAX_WIDTH, &config->out_hidden_size},
  };
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (!sizes[i].key) continue;
    OMMAI_TRY(
        ommai_json_integer(vision, where, sizes[i].key, keys->required, sizes[i].low, sizes[i].high, sizes[i].out, error));
  }
  if (!keys->intermediate_size) OMMAI_TRY(parse_ratio(vision, where, config, error));
  if (keys->rope) OMMAI_TRY(parse_theta(vision, where, keys->rope, config, error));
  return ommai_config_expect_string(vision, where, keys->expected[0], keys->expected[1], error);
}

/* ---- tensors ---- */

/* One load: the loader, and the names with the prefix that the checkpoint has. */
struct load {
  struct ommai_weight_loader *loader;
  const struct ommai_vision_config *config;
  const struct ommai_tower_names *names;
  const char *prefix;
};

/* The full name of a layer: PREFIX NAME, or PREFIX GROUP.INDEX.NAME where there is a group. */
struct full_name {
  char text[OMMAI_LOADER_MAX_NAME - 7];
};

static struct full_name full_name(const struct load *load, const char *group, int64_t index, const char *name) {
  struct full_name full;
  if (group) {
    snprintf(full.text, sizeof full.text, "%s%s.%lld.%s", load->prefix, group, (long long)index, name);
  } else {
    snprintf(full.text, sizeof full.text, "%s%s", load->prefix, name);
  }
  return full;
}

static const char *pick_prefix(const struct ommai_weight_loader *loader, const struct ommai_tower_names *names) {
  char probe[OMMAI_LOADER_MAX_NAME + 1];
  for (size_t i = 1; i < sizeof names->prefixes / sizeof *names->prefixes && names->prefixes[i]; i++) {
    snprintf(probe, sizeof probe, "%s%s.weight", names->prefixes[i], names->patch_embed);
    if (ommai_loader_find(loader, probe)) return names->prefixes[i];
  }
  return names->prefixes[0];
}

static enum omma_status load_norm_of(const struct load *load, enum ommai_vision_norm_kind kind, struct full_name name,
                                     int64_t n, struct ommai_vision_norm *norm, struct omma_error *error) {
  char full[OMMAI_LOADER_MAX_NAME + 1];
  snprintf(full, sizeof full, "%s.weight", name.text);
  OMMAI_TRY(ommai_loader_vector(load->loader, full, 1, &n, &norm->weight, error));
  if (kind == OMMAI_VISION_RMS_NORM) return OMMA_OK;
  snprintf(full, sizeof full, "%s.bias", name.text);
  return ommai_loader_vector(load->loader, full, 1, &n, &norm->bias, error);
}

/* Of the kind that the tower has. */
static enum omma_status load_norm(const struct load *load, struct full_name name, int64_t n, struct ommai_vision_norm *norm,
                                  struct omma_error *error) {
  return load_norm_of(load, load->config->norm, name, n, norm, error);
}

/* Parts of n_out outputs each, stacked, with the call of the layer. */
static enum omma_status load_linear(const struct load *load, enum ommai_weight_role role, const struct full_name *parts,
                                    int n_parts, int64_t n_out, bool has_bias, int n_dims, const int64_t *inner_shape,
                                    struct ommai_linear_call call, struct ommai_vision_linear *out, struct omma_error *error) {
  enum { MAX_PARTS = 3 };
  struct ommai_linear_part stacked[MAX_PARTS];
  for (int i = 0; i < n_parts; i++) {
    stacked[i] = (struct ommai_linear_part){.n_out = n_out, .has_bias = has_bias};
    memcpy(stacked[i].prefix, parts[i].text, sizeof parts[i].text);
  }
  OMMAI_TRY(ommai_loader_linear(load->loader, role, stacked, n_parts, n_dims, inner_shape, &out->linear, error));
  if (load->loader->mode != OMMAI_LOADER_PACK) {
    return ommai_loader_count_scratch(load->loader, has_bias, &call, false, error);
  }
  return ommai_linear_op_create(load->loader->linear_context, out->linear, &call, &out->op, error);
}

/* The usual layer of a block: a matrix [n_out, n_in], and its bias where there are biases. */
static enum omma_status load_matrix(const struct load *load, enum ommai_weight_role role, struct full_name name, int64_t n_out,
                                    int64_t n_in, struct ommai_linear_call call, struct ommai_vision_linear *out,
                                    struct omma_error *error) {
  return load_linear(load, role, &name, 1, n_out, !load->names->unbiased, 2, &n_in, call, out, error);
}

/* The type that the tower's layers take and give. */
static enum omma_dtype tower_type(const struct load *load) { return load->loader->policy.kinds[OMMAI_ROLE_TOWER_FC1].compute; }

/* q, k and v: one matrix, or three above each other. */
static enum omma_status load_qkv(const struct load *load, int64_t index, struct ommai_vision_linear *out,
                                 struct omma_error *error) {
  const struct ommai_tower_names *names = load->names;
  const struct ommai_linear_call call = ommai_vision_call_qkv(load->config);
  int64_t h = load->config->hidden_size;
  if (names->apart[0]) {
    struct full_name apart[3];
    char probe[OMMAI_LOADER_MAX_NAME + 1];
    for (int i = 0; i < 3; i++) apart[i] = full_name(load, names->block, index, names->apart[i]);
    snprintf(probe, sizeof probe, "%s.weight", apart[0].text);
    if (!names->qkv || ommai_loader_find(load->loader, probe)) {
      return load_linear(load, OMMAI_ROLE_TOWER_QKV, apart, 3, h, !names->unbiased, 2, &h, call, out, error);
    }
  }
  return load_matrix(load, OMMAI_ROLE_TOWER_QKV, full_name(load, names->block, index, names->qkv), 3 * h, h, call, out, error);
}

/* The norms of the heads of q and k. */
static enum omma_status load_head_norms(const struct load *load, int64_t index, struct ommai_vision_block *block,
                                        struct omma_error *error) {
  struct ommai_vision_norm q = {0}, k = {0};
  const struct full_name names[2] = {full_name(load, load->names->block, index, load->names->q_norm),
                                     full_name(load, load->names->block, index, load->names->k_norm)};
  enum omma_status status = load_norm_of(load, OMMAI_VISION_RMS_NORM, names[0], load->config->head_dim, &q, error);
  if (status == OMMA_OK) status = load_norm_of(load, OMMAI_VISION_RMS_NORM, names[1], load->config->head_dim, &k, error);
  block->q_norm = q.weight;
  block->k_norm = k.weight;
  return status;
}

static enum omma_status load_block(const struct load *load, int64_t index, struct ommai_vision_block *block,
                                   struct omma_error *error) {
  const struct ommai_tower_names *names = load->names;
  const struct ommai_vision_config *config = load->config;
  int64_t h = config->hidden_size, intermediate = config->intermediate_size;
  const struct full_name fc1[2] = {full_name(load, names->block, index, names->fc1),
                                   full_name(load, names->block, index, config->gated ? names->up : names->fc1)};
  OMMAI_TRY(load_norm(load, full_name(load, names->block, index, names->norm1), h, &block->norm1, error));
  OMMAI_TRY(load_norm(load, full_name(load, names->block, index, names->norm2), h, &block->norm2, error));
  if (config->qk_norm) OMMAI_TRY(load_head_norms(load, index, block, error));
  OMMAI_TRY(load_qkv(load, index, &block->qkv, error));
  OMMAI_TRY(load_matrix(load, OMMAI_ROLE_TOWER_PROJ, full_name(load, names->block, index, names->proj), h, h,
                        ommai_vision_call_proj(config), &block->proj, error));
  OMMAI_TRY(load_linear(load, OMMAI_ROLE_TOWER_FC1, fc1, config->gated ? 2 : 1, intermediate, !names->unbiased, 2, &h,
                        ommai_vision_call_fc1(config, tower_type(load)), &block->fc1, error));
  return load_matrix(load, OMMAI_ROLE_TOWER_FC2, full_name(load, names->block, index, names->fc2), h, intermediate,
                     ommai_vision_call_fc2(config), &block->fc2, error);
}

/* The steps between the norm of a merger and its fc1. */
static enum omma_status load_merger_entry(const struct load *load, const struct ommai_merger_names *names,
                                          struct ommai_vision_merger *merger, struct omma_error *error) {
  const struct ommai_vision_config *config = load->config;
  int64_t width = ommai_vision_merger_width(config);
  const int64_t kernel[3] = {config->hidden_size, config->merge_size, config->merge_size};
  const int64_t flat = config->hidden_size * ommai_vision_joined_patches(config);
  if (config->merger.reduced_size) {
    const struct full_name name = full_name(load, NULL, 0, names->reduce);
    OMMAI_TRY(load_linear(load, OMMAI_ROLE_MERGER, &name, 1, width, !names->flat_reduce, names->flat_reduce ? 2 : 4,
                          names->flat_reduce ? &flat : kernel, ommai_vision_call_merger_reduce(config, tower_type(load)),
                          &merger->reduce, error));
  }
  if (!config->merger.projected) return OMMA_OK;
  const struct full_name name = full_name(load, NULL, 0, names->project);
  OMMAI_TRY(load_linear(load, OMMAI_ROLE_MERGER, &name, 1, width, !names->unbiased, 2, &width,
                        ommai_vision_call_merger_project(config), &merger->project, error));
  return load_norm_of(load, OMMAI_VISION_LAYER_NORM, full_name(load, NULL, 0, names->projected_norm), width,
                      &merger->projected_norm, error);
}

static enum omma_status load_merger(const struct load *load, const char *group, int64_t index,
                                    const struct ommai_merger_names *names, bool norm_after_join,
                                    struct ommai_vision_merger *merger, struct omma_error *error) {
  const struct ommai_vision_config *config = load->config;
  int64_t joined = config->hidden_size * ommai_vision_joined_patches(config), width = ommai_vision_merger_width(config);
  int64_t inner = ommai_vision_merger_inner(config);
  bool gated = config->merger.gated, biased = !names->unbiased;
  const struct full_name fc1[2] = {full_name(load, group, index, names->fc1),
                                   full_name(load, group, index, gated ? names->up : names->fc1)};
  const struct full_name fc2 = full_name(load, group, index, names->fc2);
  enum ommai_vision_norm_kind kind = config->merger.layer_norm ? OMMAI_VISION_LAYER_NORM : config->norm;
  merger->norm_after_join = norm_after_join;
  if (!config->merger.no_norm) {
    OMMAI_TRY(load_norm_of(load, kind, full_name(load, group, index, names->norm),
                           norm_after_join ? joined : config->hidden_size, &merger->norm, error));
  }
  OMMAI_TRY(load_merger_entry(load, names, merger, error));
  OMMAI_TRY(load_linear(load, OMMAI_ROLE_MERGER, fc1, gated ? 2 : 1, inner, biased, 2, &width,
                        ommai_vision_call_merger_fc1(config, tower_type(load)), &merger->fc1, error));
  return load_linear(load, OMMAI_ROLE_MERGER, &fc2, 1, config->out_hidden_size, biased, 2, &inner,
                     ommai_vision_call_merger_fc2(config), &merger->fc2, error);
}

static enum omma_status load_patch_embed(const struct load *load, struct ommai_vision_tower *tower, struct omma_error *error) {
  const struct ommai_vision_config *config = load->config;
  const struct full_name name = full_name(load, NULL, 0, load->names->patch_embed);
  const int64_t kernel[4] = {config->in_channels, config->temporal_patch_size, config->patch_size, config->patch_size};
  const int64_t flat_kernel[3] = {config->in_channels, config->patch_size, config->patch_size};
  return load_linear(load, OMMAI_ROLE_PATCH_EMBED, &name, 1, config->hidden_size, load->names->patch_embed_bias,
                     load->names->patch_embed_dims, load->names->patch_embed_dims == 5 ? kernel : flat_kernel,
                     ommai_vision_call_patch_embed(config), &tower->patch_embed, error);
}

static enum omma_status load_positions(const struct load *load, struct ommai_vision_tower *tower, struct omma_error *error) {
  const struct ommai_vision_config *config = load->config;
  char name[OMMAI_LOADER_MAX_NAME + 1];
  const int64_t flat[2] = {config->position_rows * config->position_columns, config->hidden_size};
  const int64_t grid[3] = {config->position_rows, config->position_columns, config->hidden_size};
  if (config->positions == OMMAI_POSITIONS_NONE) return OMMA_OK;
  snprintf(name, sizeof name, "%s.weight", full_name(load, NULL, 0, load->names->position_table).text);
  return ommai_loader_vector(load->loader, name, load->names->position_dims, load->names->position_dims == 2 ? flat : grid,
                             &tower->position_table, error);
}

enum omma_status ommai_tower_load(struct ommai_weight_loader *loader, const struct ommai_tower_names *names,
                                  struct ommai_vision_tower *tower, struct omma_error *error) {
  const struct ommai_vision_config *config = &tower->config;
  const struct load load = {loader, config, names, pick_prefix(loader, names)};
  OMMAI_TRY(load_patch_embed(&load, tower, error));
  OMMAI_TRY(load_positions(&load, tower, error));
  if (config->entry_norm) {
    OMMAI_TRY(load_norm(&load, full_name(&load, NULL, 0, names->entry_norm), config->hidden_size, &tower->entry_norm, error));
  }
  for (int64_t i = 0; i < config->depth; i++) {
    struct ommai_vision_block described = {0};
    OMMAI_TRY(load_block(&load, i, tower->blocks ? &tower->blocks[i] : &described, error));
  }
  if (config->final_norm) {
    OMMAI_TRY(load_norm(&load, full_name(&load, NULL, 0, names->final_norm), config->hidden_size, &tower->final_norm, error));
  }
  bool other = load.prefix != names->prefixes[0] && names->other_merger;
  OMMAI_TRY(load_merger(&load, NULL, 0, other ? names->other_merger : &names->merger, false, &tower->merger, error));
  for (int64_t j = 0; j < config->n_deepstack; j++) {
    OMMAI_TRY(load_merger(&load, names->deepstack, config->deepstack_mergers[j], &names->deepstack_merger, true,
                          &tower->deepstack[j], error));
  }
  return OMMA_OK;
}
