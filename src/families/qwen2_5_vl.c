/* Qwen2.5-VL: config keys, tensor names, chat template. docs/models/qwen2_5_vl.md describes the model.
 * Source: transformers' modeling_qwen2_5_vl.py and the released checkpoints' files. */
#include <stdio.h>

#include "base/error.h"
#include "families/config_keys.h"
#include "families/family.h"
#include "families/qwen2_files.h"
#include "families/qwen_decoder.h"
#include "families/tower_loader.h"

/* ---- config.json ---- */

static const struct ommai_tower_keys tower_keys = {
    .hidden_size = "hidden_size", .out_hidden_size = "out_hidden_size", .intermediate_size = "intermediate_size"};

enum { MAX_TOKENS_PER_SECOND = 1000 };

/* A window is window_size pixels a side, in whole merged tokens; all blocks but the listed ones stay inside their windows. */
static enum omma_status parse_windows(const json_t *vision, const char *where, struct ommai_vision_config *config,
                                      struct omma_error *error) {
  int64_t pixels = 112, full[OMMAI_VISION_MAX_DEPTH] = {7, 15, 23, 31};
  size_t n_full = 4;
  OMMAI_TRY(ommai_json_integer(vision, where, "window_size", false, 1, OMMAI_CONFIG_MAX_WIDTH, &pixels, error));
  OMMAI_TRY(ommai_json_integers(vision, where, "fullatt_block_indexes", false, 0, config->depth - 1, full,
                                OMMAI_VISION_MAX_DEPTH, &n_full, error));
  config->window_size = pixels / config->merge_size / config->patch_size;
  if (config->window_size < 1) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, "window_size",
                            "%s: key \"window_size\": expected at least a merged token of %lld pixels, found %lld", where,
                            (long long)(config->merge_size * config->patch_size), (long long)pixels);
  }
  for (int64_t block = 0; block < config->depth; block++) config->windowed[block] = true;
  for (size_t i = 0; i < n_full; i++) {
    if (full[i] < config->depth) config->windowed[full[i]] = false; /* the class's default may be beyond */
  }
  return OMMA_OK;
}

/* What a second of a video counts for in its time positions. */
static enum omma_status parse_time(const json_t *vision, const char *where, struct ommai_video_config *video,
                                   struct omma_error *error) {
  video->tokens_per_second = 4;
  OMMAI_TRY(ommai_json_number(vision, where, "tokens_per_second", false, &video->tokens_per_second, error));
  if (video->tokens_per_second >= 0 && video->tokens_per_second <= MAX_TOKENS_PER_SECOND) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_FORMAT, "tokens_per_second",
                          "%s: key \"tokens_per_second\": expected 0 to %d, found %g", where, MAX_TOKENS_PER_SECOND,
                          video->tokens_per_second);
}

/* Configurations that transformers 4.49 saved lack what equals the class's default. */
static void set_class_defaults(struct ommai_vision_config *config) {
  config->depth = 32;
  config->hidden_size = config->out_hidden_size = 3584;
  config->n_heads = 16;
  config->intermediate_size = 3420;
  config->patch_size = 14;
  config->temporal_patch_size = config->merge_size = 2;
}

static enum omma_status parse_vision(const json_t *root, const char *path, struct ommai_model_config *model,
                                     struct omma_error *error) {
  struct ommai_vision_config *config = &model->vision;
  json_t *vision;
  char where[4200];
  snprintf(where, sizeof where, "%s: vision_config", path);
  OMMAI_TRY(ommai_json_object(root, path, "vision_config", true, &vision, error));
  set_class_defaults(config);
  OMMAI_TRY(ommai_tower_parse_sizes(vision, where, &tower_keys, config, error));
  OMMAI_TRY(parse_time(vision, where, &model->video, error));
  OMMAI_TRY(ommai_config_expect_string(vision, where, "hidden_act", "silu", error));
  config->gated = true;
  config->norm = OMMAI_VISION_RMS_NORM;
  config->norm_eps = config->merger_norm_eps = 1e-6f;
  config->positions = OMMAI_POSITIONS_NONE;
  config->rope = OMMAI_ROPE_HALF;
  return parse_windows(vision, where, config, error);
}

static enum omma_status parse_config(const json_t *root, const char *path, struct ommai_model_config *config,
                                     struct omma_error *error) {
  OMMAI_TRY(parse_vision(root, path, config, error));
  OMMAI_TRY(ommai_qwen_decoder_parse(root, path, OMMAI_QWEN2, &config->text, error));
  config->image.resize_rule = OMMAI_RESIZE_INT16;
  return ommai_model_config_fit(root, path, "image_token_id", "video_token_id", config, error);
}

/* ---- released processor files ---- */

static const struct ommai_default_processor published = {
    .name = "Qwen2.5-VL's published values",
    .image = OMMAI_QWEN2_PREPROCESSOR,
};

/* ---- tensors ---- */

static const struct ommai_tower_names tower_names = {
    .prefixes = {"visual.", "model.visual."},
    .patch_embed = "patch_embed.proj",
    .patch_embed_dims = 5,
    .block = "blocks",
    .norm1 = "norm1",
    .norm2 = "norm2",
    .qkv = "attn.qkv",
    .proj = "attn.proj",
    .fc1 = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .fc2 = "mlp.down_proj",
    .apart = {"attn.q", "attn.k", "attn.v"},
    .merger = {"merger.ln_q", "merger.mlp.0", "merger.mlp.2"},
};

static enum omma_status load_vision(struct ommai_weight_loader *loader, struct ommai_vision_tower *tower,
                                    struct omma_error *error) {
  return ommai_tower_load(loader, &tower_names, tower, error);
}

static enum omma_status load_text(struct ommai_weight_loader *loader, struct ommai_decoder *decoder, struct omma_error *error) {
  return ommai_qwen_decoder_load(loader, OMMAI_QWEN2, decoder, error);
}

/* ---- chat templates ---- */

static const struct ommai_chat_variant variants[] = {
    {"Qwen2.5-VL", &ommai_template_qwen2_5_vl, &ommai_qwen2_builtin_template},
    {"this project's test checkpoints", &ommai_template_own_qwen2_5_vl, &ommai_qwen2_builtin_template},
    {NULL, NULL, NULL},
};

const struct ommai_family ommai_family_qwen2_5_vl = {
    .model_type = "qwen2_5_vl",
    .parse_config = parse_config,
    .load_vision = load_vision,
    .load_text = load_text,
    .published = &published,
    .defaults = &ommai_qwen2_processor_defaults,
    .variants = variants,
    .box_unit = OMMA_BOX_UNIT_RESIZED_PIXELS,
};
