/* Qwen3-VL, dense and with experts: config keys, tensor names, chat form. docs/models/qwen3-vl.md describes the model.
 * Source: transformers' modeling_qwen3_vl.py and the released checkpoints' files. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "models/config_keys.h"
#include "models/family.h"
#include "models/qwen_decoder.h"

/* ---- config.json ---- */

static enum omma_status parse_deepstack(const json_t *vision, const char *where, struct ommai_vision_config *config,
                                        struct omma_error *error) {
  size_t count = 0;
  OMMAI_TRY(ommai_json_integers(vision, where, "deepstack_visual_indexes", true, 0, config->depth - 1, config->deepstack_layers,
                                OMMAI_VISION_MAX_DEEPSTACK, &count, error));
  config->n_deepstack = (int64_t)count;
  for (size_t i = 1; i < count; i++) {
    if (config->deepstack_layers[i] <= config->deepstack_layers[i - 1]) {
      return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "deepstack_visual_indexes",
                              "%s: key \"deepstack_visual_indexes\": expected ascending entries", where);
    }
  }
  return OMMA_OK;
}

static enum omma_status parse_vision_sizes(const json_t *vision, const char *where, struct ommai_vision_config *config,
                                           struct omma_error *error) {
  int64_t positions;
  config->in_channels = 3;
  OMMAI_TRY(ommai_json_integer(vision, where, "depth", true, 1, OMMAI_CONFIG_MAX_LAYERS, &config->depth, error));
  OMMAI_TRY(ommai_json_integer(vision, where, "hidden_size", true, 1, OMMAI_CONFIG_MAX_WIDTH, &config->hidden_size, error));
  OMMAI_TRY(ommai_json_integer(vision, where, "num_heads", true, 1, OMMAI_CONFIG_MAX_HEADS, &config->n_heads, error));
  OMMAI_TRY(ommai_json_integer(vision, where, "intermediate_size", true, 1, OMMAI_CONFIG_MAX_WIDTH, &config->intermediate_size,
                               error));
  OMMAI_TRY(ommai_json_integer(vision, where, "patch_size", true, 1, 256, &config->patch_size, error));
  OMMAI_TRY(ommai_json_integer(vision, where, "temporal_patch_size", true, 1, 16, &config->temporal_patch_size, error));
  OMMAI_TRY(ommai_json_integer(vision, where, "spatial_merge_size", true, 1, 8, &config->merge_size, error));
  OMMAI_TRY(ommai_json_integer(vision, where, "in_channels", false, 3, 3, &config->in_channels, error));
  OMMAI_TRY(ommai_json_integer(vision, where, "in_chans", false, 3, 3, &config->in_channels, error));
  OMMAI_TRY(
      ommai_json_integer(vision, where, "out_hidden_size", true, 1, OMMAI_CONFIG_MAX_WIDTH, &config->out_hidden_size, error));
  OMMAI_TRY(ommai_json_integer(vision, where, "num_position_embeddings", true, 1, OMMAI_CONFIG_MAX_WIDTH, &positions, error));
  config->head_dim = config->hidden_size / config->n_heads;
  config->position_side = (int64_t)lround(sqrt((double)positions));
  if (config->hidden_size % config->n_heads || config->head_dim % 4 || config->head_dim > OMMA_ATTENTION_MAX_HEAD_DIM) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, "num_heads",
                            "%s: hidden_size %lld in %lld heads: expected heads of a multiple of 4, at most %d", where,
                            (long long)config->hidden_size, (long long)config->n_heads, OMMA_ATTENTION_MAX_HEAD_DIM);
  }
  if (config->position_side * config->position_side != positions) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, "num_position_embeddings",
                            "%s: key \"num_position_embeddings\": expected a square, found %lld", where, (long long)positions);
  }
  return OMMA_OK;
}

static enum omma_status parse_vision(const json_t *root, const char *path, struct ommai_vision_config *config,
                                     struct omma_error *error) {
  json_t *vision, *rope;
  char where[4200];
  snprintf(where, sizeof where, "%s: vision_config", path);
  OMMAI_TRY(ommai_json_object(root, path, "vision_config", true, &vision, error));
  OMMAI_TRY(parse_vision_sizes(vision, where, config, error));
  OMMAI_TRY(ommai_config_expect_string(vision, where, "hidden_act", "gelu_pytorch_tanh", error));
  config->activation = OMMAI_ACTIVATION_GELU_TANH;
  config->norm_eps = 1e-6f;
  config->rope_theta = 10000.0;
  OMMAI_TRY(ommai_json_object(vision, where, "rope_parameters", false, &rope, error));
  if (rope) OMMAI_TRY(ommai_json_number(rope, where, "rope_theta", false, &config->rope_theta, error));
  OMMAI_TRY(ommai_config_check_theta(where, config->rope_theta, error));
  return parse_deepstack(vision, where, config, error);
}

static enum omma_status parse_variant(const json_t *root, const char *path, enum ommai_qwen_variant variant,
                                      struct ommai_model_config *config, struct omma_error *error) {
  int64_t image_token;
  OMMAI_TRY(parse_vision(root, path, &config->vision, error));
  OMMAI_TRY(ommai_qwen_decoder_parse(root, path, variant, &config->text, error));
  OMMAI_TRY(ommai_json_integer(root, path, "image_token_id", true, 0, config->text.vocab_size - 1, &image_token, error));
  config->image_token = (int32_t)image_token;
  /* Outputs beyond the last layer have no taker, as in the official code. */
  config->text.n_deepstack = ommai_min_i64(config->vision.n_deepstack, config->text.n_layers);
  config->picture.resize_rule = OMMAI_RESIZE_INT16;
  if (config->vision.out_hidden_size != config->text.hidden_size) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, "out_hidden_size",
                            "%s: vision_config: out_hidden_size %lld differs from text_config's hidden_size %lld", path,
                            (long long)config->vision.out_hidden_size, (long long)config->text.hidden_size);
  }
  return OMMA_OK;
}

static enum omma_status parse_config(const json_t *root, const char *path, struct ommai_model_config *config,
                                     struct omma_error *error) {
  return parse_variant(root, path, OMMAI_QWEN3, config, error);
}

static enum omma_status parse_moe_config(const json_t *root, const char *path, struct ommai_model_config *config,
                                         struct omma_error *error) {
  return parse_variant(root, path, OMMAI_QWEN3_MOE, config, error);
}

/* ---- tensors ---- */

static enum omma_status vector(struct ommai_weight_loader *loader, const char *prefix, const char *name, int64_t n, float **out,
                               struct omma_error *error) {
  char full[OMMAI_LOADER_MAX_NAME + 1];
  snprintf(full, sizeof full, "%s.%s", prefix, name);
  return ommai_loader_vector(loader, full, 1, &n, out, error);
}

static enum omma_status layer_norm(struct ommai_weight_loader *loader, const char *prefix, int64_t n,
                                   struct ommai_vision_norm *norm, struct omma_error *error) {
  OMMAI_TRY(vector(loader, prefix, "weight", n, &norm->weight, error));
  return vector(loader, prefix, "bias", n, &norm->bias, error);
}

/* A layer of the tower with its call form. */
static enum omma_status vision_linear(struct ommai_weight_loader *loader, const char *prefix, const char *name, int64_t n_out,
                                      int n_dims, const int64_t *inner_shape, struct ommai_linear_form form,
                                      struct ommai_vision_linear *out, struct omma_error *error) {
  struct ommai_linear_part part = {.n_out = n_out, .has_bias = true};
  snprintf(part.prefix, sizeof part.prefix, "%s.%s", prefix, name);
  OMMAI_TRY(ommai_loader_linear(loader, &part, 1, n_dims, inner_shape, &out->linear, error));
  if (loader->mode != OMMAI_LOADER_PACK) return OMMA_OK;
  return ommai_linear_op_create(loader->linear_engine, out->linear, &form, &out->op, error);
}

static enum omma_status load_block(struct ommai_weight_loader *loader, const struct ommai_vision_config *config, int64_t index,
                                   enum omma_dtype dtype, struct ommai_vision_block *block, struct omma_error *error) {
  char prefix[64], norm[80];
  int64_t h = config->hidden_size, intermediate = config->intermediate_size;
  snprintf(prefix, sizeof prefix, "model.visual.blocks.%lld", (long long)index);
  snprintf(norm, sizeof norm, "%s.norm1", prefix);
  OMMAI_TRY(layer_norm(loader, norm, h, &block->norm1, error));
  snprintf(norm, sizeof norm, "%s.norm2", prefix);
  OMMAI_TRY(layer_norm(loader, norm, h, &block->norm2, error));
  OMMAI_TRY(vision_linear(loader, prefix, "attn.qkv", 3 * h, 2, &h, ommai_vision_form_qkv(config), &block->qkv, error));
  OMMAI_TRY(vision_linear(loader, prefix, "attn.proj", h, 2, &h, ommai_vision_form_proj(config), &block->proj, error));
  OMMAI_TRY(vision_linear(loader, prefix, "mlp.linear_fc1", intermediate, 2, &h, ommai_vision_form_fc1(config, dtype),
                          &block->fc1, error));
  return vision_linear(loader, prefix, "mlp.linear_fc2", h, 2, &intermediate, ommai_vision_form_fc2(config), &block->fc2,
                       error);
}

static enum omma_status load_merger(struct ommai_weight_loader *loader, const struct ommai_vision_config *config,
                                    const char *prefix, bool norm_after_join, enum omma_dtype dtype,
                                    struct ommai_vision_merger *merger, struct omma_error *error) {
  char norm[96];
  int64_t joined = config->hidden_size * config->merge_size * config->merge_size;
  merger->norm_after_join = norm_after_join;
  snprintf(norm, sizeof norm, "%s.norm", prefix);
  OMMAI_TRY(layer_norm(loader, norm, norm_after_join ? joined : config->hidden_size, &merger->norm, error));
  OMMAI_TRY(vision_linear(loader, prefix, "linear_fc1", joined, 2, &joined, ommai_vision_form_merger_fc1(config, dtype),
                          &merger->fc1, error));
  return vision_linear(loader, prefix, "linear_fc2", config->out_hidden_size, 2, &joined, ommai_vision_form_merger_fc2(config),
                       &merger->fc2, error);
}

static enum omma_status load_vision(struct ommai_weight_loader *loader, struct ommai_vision_tower *tower,
                                    struct omma_error *error) {
  const struct ommai_vision_config *config = &tower->config;
  const int64_t kernel[4] = {config->in_channels, config->temporal_patch_size, config->patch_size, config->patch_size};
  const int64_t table[2] = {config->position_side * config->position_side, config->hidden_size};
  OMMAI_TRY(vision_linear(loader, "model.visual.patch_embed", "proj", config->hidden_size, 5, kernel,
                          ommai_vision_form_patch_embed(config), &tower->patch_embed, error));
  OMMAI_TRY(ommai_loader_vector(loader, "model.visual.pos_embed.weight", 2, table, &tower->position_table, error));
  for (int64_t i = 0; i < config->depth; i++) {
    struct ommai_vision_block described = {0};
    OMMAI_TRY(load_block(loader, config, i, tower->dtype, tower->blocks ? &tower->blocks[i] : &described, error));
  }
  OMMAI_TRY(load_merger(loader, config, "model.visual.merger", false, tower->dtype, &tower->merger, error));
  for (int64_t j = 0; j < config->n_deepstack; j++) {
    char prefix[64];
    snprintf(prefix, sizeof prefix, "model.visual.deepstack_merger_list.%lld", (long long)j);
    OMMAI_TRY(load_merger(loader, config, prefix, true, tower->dtype, &tower->deepstack[j], error));
  }
  return OMMA_OK;
}

static enum omma_status load_text(struct ommai_weight_loader *loader, struct ommai_decoder *decoder, struct omma_error *error) {
  return ommai_qwen_decoder_load(loader, OMMAI_QWEN3, decoder, error);
}

static enum omma_status load_moe_text(struct ommai_weight_loader *loader, struct ommai_decoder *decoder,
                                      struct omma_error *error) {
  return ommai_qwen_decoder_load(loader, OMMAI_QWEN3_MOE, decoder, error);
}

/* ---- chat form ---- */

/* Parts of a turn in order; a picture is its markers with nothing between. */
static enum omma_status render_parts(const struct omma_message *message, size_t index, struct ommai_prompt_builder *builder,
                                     struct omma_error *error) {
  for (size_t i = 0; i < message->n_parts; i++) {
    const struct omma_part *part = &message->parts[i];
    if (!part->image) {
      OMMAI_TRY(ommai_prompt_text(builder, part->text, part->text_size, error));
      continue;
    }
    if (message->role != OMMA_ROLE_USER) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "messages", "messages[%zu]: only user messages can hold pictures",
                              index);
    }
    OMMAI_TRY(ommai_prompt_string(builder, "<|vision_start|>", error));
    OMMAI_TRY(ommai_prompt_picture(builder, part, error));
    OMMAI_TRY(ommai_prompt_string(builder, "<|vision_end|>", error));
  }
  return OMMA_OK;
}

static enum omma_status render_chat(const struct omma_message *messages, size_t n_messages, bool continue_final_message,
                                    struct ommai_prompt_builder *builder, struct omma_error *error) {
  static const char *const openings[] = {[OMMA_ROLE_SYSTEM] = "<|im_start|>system\n",
                                         [OMMA_ROLE_USER] = "<|im_start|>user\n",
                                         [OMMA_ROLE_ASSISTANT] = "<|im_start|>assistant\n"};
  for (size_t i = 0; i < n_messages; i++) {
    if (messages[i].role == OMMA_ROLE_SYSTEM && i > 0) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "messages", "messages[%zu]: a system message must be the first", i);
    }
    OMMAI_TRY(ommai_prompt_string(builder, openings[messages[i].role], error));
    OMMAI_TRY(render_parts(&messages[i], i, builder, error));
    if (i + 1 == n_messages && continue_final_message) return OMMA_OK;
    OMMAI_TRY(ommai_prompt_string(builder, "<|im_end|>\n", error));
  }
  return ommai_prompt_string(builder, "<|im_start|>assistant\n", error);
}

const struct ommai_family ommai_family_qwen3_vl = {
    .model_type = "qwen3_vl",
    .parse_config = parse_config,
    .load_vision = load_vision,
    .load_text = load_text,
    .render_chat = render_chat,
};

const struct ommai_family ommai_family_qwen3_vl_moe = {
    .model_type = "qwen3_vl_moe",
    .parse_config = parse_moe_config,
    .load_vision = load_vision,
    .load_text = load_moe_text,
    .render_chat = render_chat,
};
