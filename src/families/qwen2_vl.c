/* Qwen2-VL: config keys, tensor names, chat templates. docs/models/qwen2_vl.md describes the model.
 * Source: transformers' modeling_qwen2_vl.py and the released checkpoints' files. */
#include <stdio.h>

#include "base/error.h"
#include "families/config_keys.h"
#include "families/family.h"
#include "families/qwen2_files.h"
#include "families/qwen_decoder.h"
#include "families/tower_loader.h"

/* ---- config.json ---- */

/* The tower's own width is embed_dim; hidden_size is the width of the language model's rows. */
static const struct ommai_tower_keys tower_keys = {.hidden_size = "embed_dim", .out_hidden_size = "hidden_size"};

/* Of the official class. */
static void set_class_defaults(struct ommai_vision_config *config) {
  config->depth = 32;
  config->hidden_size = 1280;
  config->n_heads = 16;
  config->patch_size = 14;
  config->temporal_patch_size = config->merge_size = 2;
  config->out_hidden_size = 3584;
}

static enum omma_status parse_vision(const json_t *root, const char *path, struct ommai_vision_config *config,
                                     struct omma_error *error) {
  json_t *vision;
  char where[4200];
  snprintf(where, sizeof where, "%s: vision_config", path);
  OMMAI_TRY(ommai_json_object(root, path, "vision_config", true, &vision, error));
  set_class_defaults(config);
  OMMAI_TRY(ommai_tower_parse_sizes(vision, where, &tower_keys, config, error));
  OMMAI_TRY(ommai_config_expect_string(vision, where, "hidden_act", "quick_gelu", error));
  config->activation = OMMAI_ACTIVATION_QUICK_GELU;
  config->norm = OMMAI_VISION_LAYER_NORM;
  config->norm_eps = config->merger_norm_eps = 1e-6f;
  config->positions = OMMAI_POSITIONS_NONE;
  config->rope = OMMAI_ROPE_HALF;
  return OMMA_OK;
}

static enum omma_status parse_config(const json_t *root, const char *path, struct ommai_model_config *config,
                                     struct omma_error *error) {
  OMMAI_TRY(parse_vision(root, path, &config->vision, error));
  OMMAI_TRY(ommai_qwen_decoder_parse(root, path, OMMAI_QWEN2, &config->text, error));
  config->image.resize_rule = OMMAI_RESIZE_INT16;
  config->video.time_by_temporal_patch = true;
  return ommai_model_config_fit(root, path, "image_token_id", "video_token_id", config, error);
}

/* ---- released processor files ---- */

static const struct ommai_default_processor published = {
    .name = "Qwen2-VL's published values",
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
    .fc1 = "mlp.fc1",
    .fc2 = "mlp.fc2",
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
    {"Qwen2-VL", &ommai_template_qwen2_5_vl, &ommai_qwen2_builtin_template},
    {"this project's test checkpoints", &ommai_template_own_qwen2_5_vl, &ommai_qwen2_builtin_template},
    {NULL, NULL, NULL},
};

/* Boxes are text between <|box_start|> and <|box_end|>, no JSON. */
const struct ommai_family ommai_family_qwen2_vl = {
    .model_type = "qwen2_vl",
    .parse_config = parse_config,
    .load_vision = load_vision,
    .load_text = load_text,
    .published = &published,
    .defaults = &ommai_qwen2_processor_defaults,
    .variants = variants,
};
