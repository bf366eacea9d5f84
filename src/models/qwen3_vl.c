/* Qwen3-VL, dense: config keys, tensor names, chat form. docs/models/qwen3-vl.md describes the model.
 * Source: transformers' modeling_qwen3_vl.py and the released checkpoints' files. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "models/family.h"

/* ---- config.json ---- */

static enum omma_status refuse_other_string(const json_t *object, const char *where, const char *key, const char *expected,
                                            struct omma_error *error) {
  const char *value = expected;
  OMMAI_TRY(ommai_json_string(object, where, key, false, &value, error));
  if (strcmp(value, expected) == 0) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, key, "%s: key \"%s\": expected \"%s\", found \"%.60s\"", where, key,
                          expected, value);
}

static enum omma_status refuse_true(const json_t *object, const char *where, const char *key, struct omma_error *error) {
  bool value = false;
  OMMAI_TRY(ommai_json_boolean(object, where, key, false, &value, error));
  if (!value) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, key, "%s: key \"%s\": true is not supported", where, key);
}

static enum omma_status check_theta(const char *where, double theta, struct omma_error *error) {
  if (theta > 1) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_FORMAT, "rope_theta", "%s: key \"rope_theta\": expected more than 1, found %g",
                          where, theta);
}

/* The released files hold rope_theta beside rope_scaling; transformers 5 writes one rope_parameters with both. */
static enum omma_status parse_rope(const json_t *text, const char *where, struct ommai_decoder_config *config,
                                   struct omma_error *error) {
  json_t *rope;
  OMMAI_TRY(ommai_json_object(text, where, "rope_parameters", false, &rope, error));
  if (!rope) OMMAI_TRY(ommai_json_object(text, where, "rope_scaling", true, &rope, error));
  config->rope_theta = 500000.0; /* the class default of the official configuration */
  OMMAI_TRY(ommai_json_number(text, where, "rope_theta", false, &config->rope_theta, error));
  OMMAI_TRY(ommai_json_number(rope, where, "rope_theta", false, &config->rope_theta, error));
  OMMAI_TRY(refuse_other_string(rope, where, "rope_type", "default", error));
  size_t count = 0;
  OMMAI_TRY(ommai_json_integers(rope, where, "mrope_section", true, 0, OMMAI_MROPE_MAX_PAIRS, config->mrope_section, 3, &count,
                                error));
  config->mrope_interleaved = true;
  OMMAI_TRY(ommai_json_boolean(rope, where, "mrope_interleaved", false, &config->mrope_interleaved, error));
  const int64_t *section = config->mrope_section;
  if (count != 3 || section[0] + section[1] + section[2] != config->head_dim / 2) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, "mrope_section",
                            "%s: key \"mrope_section\": expected 3 entries that sum to head_dim / 2 = %lld", where,
                            (long long)config->head_dim / 2);
  }
  return check_theta(where, config->rope_theta, error);
}

static enum omma_status parse_text(const json_t *root, const char *path, struct ommai_decoder_config *config,
                                   struct omma_error *error) {
  json_t *text;
  char where[4200];
  snprintf(where, sizeof where, "%s: text_config", path);
  OMMAI_TRY(ommai_json_object(root, path, "text_config", true, &text, error));
  double eps = 1e-6;
  OMMAI_TRY(ommai_json_integer(text, where, "num_hidden_layers", true, 1, OMMAI_CONFIG_MAX_LAYERS, &config->n_layers, error));
  OMMAI_TRY(ommai_json_integer(text, where, "hidden_size", true, 1, OMMAI_CONFIG_MAX_WIDTH, &config->hidden_size, error));
  OMMAI_TRY(ommai_json_integer(text, where, "num_attention_heads", true, 1, OMMAI_CONFIG_MAX_HEADS, &config->n_heads, error));
  config->n_kv_heads = config->n_heads;
  OMMAI_TRY(ommai_json_integer(text, where, "num_key_value_heads", false, 1, config->n_heads, &config->n_kv_heads, error));
  config->head_dim = 128;
  OMMAI_TRY(ommai_json_integer(text, where, "head_dim", false, 2, OMMA_ATTENTION_MAX_HEAD_DIM, &config->head_dim, error));
  OMMAI_TRY(
      ommai_json_integer(text, where, "intermediate_size", true, 1, OMMAI_CONFIG_MAX_WIDTH, &config->intermediate_size, error));
  OMMAI_TRY(ommai_json_integer(text, where, "vocab_size", true, 1, OMMAI_CONFIG_MAX_VOCAB, &config->vocab_size, error));
  OMMAI_TRY(ommai_json_integer(text, where, "max_position_embeddings", true, 1, OMMAI_CONFIG_MAX_POSITIONS,
                               &config->max_positions, error));
  OMMAI_TRY(ommai_json_number(text, where, "rms_norm_eps", false, &eps, error));
  config->norm_eps = (float)eps;
  if (config->n_heads % config->n_kv_heads || config->head_dim % 2) {
    return ommai_fail_field(
        error, OMMA_ERROR_FORMAT, "num_key_value_heads",
        "%s: expected num_attention_heads %lld to be a multiple of num_key_value_heads %lld and head_dim %lld even", where,
        (long long)config->n_heads, (long long)config->n_kv_heads, (long long)config->head_dim);
  }
  if (!(eps > 0 && eps < 1)) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, "rms_norm_eps", "%s: key \"rms_norm_eps\": found %g", where, eps);
  }
  OMMAI_TRY(refuse_true(text, where, "attention_bias", error));
  OMMAI_TRY(refuse_true(text, where, "use_sliding_window", error));
  OMMAI_TRY(refuse_other_string(text, where, "hidden_act", "silu", error));
  OMMAI_TRY(parse_rope(text, where, config, error));
  OMMAI_TRY(ommai_json_boolean(text, where, "tie_word_embeddings", false, &config->tied_embeddings, error));
  return ommai_json_boolean(root, path, "tie_word_embeddings", false, &config->tied_embeddings, error);
}

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
  OMMAI_TRY(refuse_other_string(vision, where, "hidden_act", "gelu_pytorch_tanh", error));
  config->activation = OMMAI_ACTIVATION_GELU_TANH;
  config->norm_eps = 1e-6f;
  config->rope_theta = 10000.0;
  OMMAI_TRY(ommai_json_object(vision, where, "rope_parameters", false, &rope, error));
  if (rope) OMMAI_TRY(ommai_json_number(rope, where, "rope_theta", false, &config->rope_theta, error));
  OMMAI_TRY(check_theta(where, config->rope_theta, error));
  return parse_deepstack(vision, where, config, error);
}

static enum omma_status parse_config(const json_t *root, const char *path, struct ommai_model_config *config,
                                     struct omma_error *error) {
  int64_t image_token;
  OMMAI_TRY(parse_vision(root, path, &config->vision, error));
  OMMAI_TRY(parse_text(root, path, &config->text, error));
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

static struct ommai_linear_part decoder_part(const char *prefix, const char *name, int64_t n_out) {
  struct ommai_linear_part part = {.n_out = n_out};
  snprintf(part.prefix, sizeof part.prefix, "%s.%s", prefix, name);
  return part;
}

static enum omma_status decoder_linear(struct ommai_weight_loader *loader, const struct ommai_linear_part *parts, int n_parts,
                                       int64_t n_in, struct ommai_linear_form form, struct ommai_decoder_linear *out,
                                       struct omma_error *error) {
  OMMAI_TRY(ommai_loader_linear(loader, parts, n_parts, 2, &n_in, &out->linear, error));
  if (loader->mode != OMMAI_LOADER_PACK) return OMMA_OK;
  return ommai_linear_op_create(loader->linear_engine, out->linear, &form, &out->op, error);
}

static enum omma_status load_layer(struct ommai_weight_loader *loader, const struct ommai_decoder_config *config, int64_t index,
                                   struct ommai_decoder_layer *layer, struct omma_error *error) {
  char prefix[64];
  int64_t h = config->hidden_size, intermediate = config->intermediate_size;
  int64_t q = ommai_decoder_q_width(config), kv = ommai_decoder_kv_width(config);
  snprintf(prefix, sizeof prefix, "model.language_model.layers.%lld", (long long)index);
  const struct ommai_linear_part qkv[3] = {decoder_part(prefix, "self_attn.q_proj", q),
                                           decoder_part(prefix, "self_attn.k_proj", kv),
                                           decoder_part(prefix, "self_attn.v_proj", kv)};
  const struct ommai_linear_part o = decoder_part(prefix, "self_attn.o_proj", h);
  const struct ommai_linear_part gate_up[2] = {decoder_part(prefix, "mlp.gate_proj", intermediate),
                                               decoder_part(prefix, "mlp.up_proj", intermediate)};
  const struct ommai_linear_part down = decoder_part(prefix, "mlp.down_proj", h);
  OMMAI_TRY(vector(loader, prefix, "input_layernorm.weight", h, &layer->input_norm, error));
  OMMAI_TRY(vector(loader, prefix, "post_attention_layernorm.weight", h, &layer->post_norm, error));
  OMMAI_TRY(vector(loader, prefix, "self_attn.q_norm.weight", config->head_dim, &layer->q_norm, error));
  OMMAI_TRY(vector(loader, prefix, "self_attn.k_norm.weight", config->head_dim, &layer->k_norm, error));
  OMMAI_TRY(decoder_linear(loader, qkv, 3, h, ommai_decoder_form_qkv(config), &layer->qkv, error));
  OMMAI_TRY(decoder_linear(loader, &o, 1, q, ommai_decoder_form_o(config), &layer->o, error));
  OMMAI_TRY(decoder_linear(loader, gate_up, 2, h, ommai_decoder_form_gate_up(config), &layer->gate_up, error));
  return decoder_linear(loader, &down, 1, intermediate, ommai_decoder_form_down(config), &layer->down, error);
}

static enum omma_status load_text(struct ommai_weight_loader *loader, struct ommai_decoder *decoder, struct omma_error *error) {
  const struct ommai_decoder_config *config = &decoder->config;
  const int64_t table[2] = {config->vocab_size, config->hidden_size};
  OMMAI_TRY(ommai_loader_mapped(loader, "model.language_model.embed_tokens.weight", 2, table, &decoder->embedding,
                                &decoder->embedding_type, error));
  for (int64_t i = 0; i < config->n_layers; i++) {
    struct ommai_decoder_layer described = {0};
    OMMAI_TRY(load_layer(loader, config, i, decoder->layers ? &decoder->layers[i] : &described, error));
  }
  OMMAI_TRY(vector(loader, "model.language_model.norm", "weight", config->hidden_size, &decoder->final_norm, error));
  struct ommai_linear_part head = {.n_out = config->vocab_size};
  snprintf(head.prefix, sizeof head.prefix, "%s", config->tied_embeddings ? "model.language_model.embed_tokens" : "lm_head");
  return ommai_loader_linear(loader, &head, 1, 2, &table[1], &decoder->lm_head, error);
}

static const struct ommai_chat_form chat = {
    .turn_begin = {[OMMA_ROLE_SYSTEM] = "<|im_start|>system\n",
                   [OMMA_ROLE_USER] = "<|im_start|>user\n",
                   [OMMA_ROLE_ASSISTANT] = "<|im_start|>assistant\n"},
    .turn_end = "<|im_end|>\n",
    .picture_begin = "<|vision_start|>",
    .picture_end = "<|vision_end|>",
};

const struct ommai_family ommai_family_qwen3_vl = {
    .model_type = "qwen3_vl",
    .parse_config = parse_config,
    .load_vision = load_vision,
    .load_text = load_text,
    .chat = &chat,
};
