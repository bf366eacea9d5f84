/* Kimi-VL: config keys, tensor names, chat template. docs/models/kimi_vl.md describes the model.
 * Source: vLLM's moonvit.py and kimi_vl.py, transformers' Kimi-K2.5, and the released checkpoints' files. */
#include <stdio.h>

#include "base/error.h"
#include "families/config_keys.h"
#include "families/deepseek_decoder.h"
#include "families/family.h"
#include "families/tower_loader.h"

/* ---- config.json ---- */

static enum omma_status parse_merge(const json_t *vision, const char *where, struct ommai_vision_config *config,
                                    struct omma_error *error) {
  int64_t kernel[2];
  size_t count = 0;
  OMMAI_TRY(ommai_json_integers(vision, where, "merge_kernel_size", true, 1, 8, kernel, 2, &count, error));
  if (count != 2 || kernel[0] != kernel[1]) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "merge_kernel_size",
                            "%s: key \"merge_kernel_size\": expected two equal sides", where);
  }
  config->merge_size = kernel[0];
  return OMMA_OK;
}

static enum omma_status parse_vision(const json_t *root, const char *path, struct ommai_vision_config *config,
                                     struct omma_error *error) {
  json_t *vision;
  char where[4200];
  const struct {
    const char *key;
    int64_t high, *out;
  } keys[] = {
      {"num_hidden_layers", OMMAI_CONFIG_MAX_LAYERS, &config->depth},
      {"hidden_size", OMMAI_CONFIG_MAX_WIDTH, &config->hidden_size},
      {"num_attention_heads", OMMAI_CONFIG_MAX_HEADS, &config->n_heads},
      {"intermediate_size", OMMAI_CONFIG_MAX_WIDTH, &config->intermediate_size},
      {"patch_size", 256, &config->patch_size},
      {"init_pos_emb_height", 4096, &config->position_rows},
      {"init_pos_emb_width", 4096, &config->position_columns},
  };
  snprintf(where, sizeof where, "%s: vision_config", path);
  OMMAI_TRY(ommai_json_object(root, path, "vision_config", true, &vision, error));
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    OMMAI_TRY(ommai_json_integer(vision, where, keys[i].key, true, 1, keys[i].high, keys[i].out, error));
  }
  OMMAI_TRY(ommai_config_expect_string(vision, where, "model_type", "moonvit", error));
  OMMAI_TRY(parse_merge(vision, where, config, error));
  config->in_channels = 3;
  config->temporal_patch_size = 1;
  config->norm = OMMAI_VISION_LAYER_NORM;
  config->norm_eps = config->merger_norm_eps = 1e-5f;
  config->final_norm = true;
  config->activation = OMMAI_ACTIVATION_GELU_TANH;
  config->positions = OMMAI_POSITIONS_BICUBIC;
  config->rope = OMMAI_ROPE_PAIRS;
  config->rope_theta = 10000.0;
  return ommai_tower_check_sizes(where, config, error);
}

static enum omma_status parse_config(const json_t *root, const char *path, struct ommai_model_config *config,
                                     struct omma_error *error) {
  OMMAI_TRY(parse_vision(root, path, &config->vision, error));
  OMMAI_TRY(ommai_deepseek_decoder_parse(root, path, &config->text, error));
  config->vision.out_hidden_size = config->text.hidden_size; /* of the projector */
  config->image.sizing = OMMAI_SIZING_PATCHES;
  config->image.resize_rule = OMMAI_RESIZE_PRECISE22;
  config->image.raster_patches = true;
  return ommai_model_config_fit(root, path, "media_placeholder_token_id", NULL, config, error);
}

/* ---- released processor files ---- */

/* Nothing in config.json tells Thinking-2506 from Instruct. */
static const struct ommai_default_processor published = {
    .name = "Kimi-VL-A3B-Instruct's published values (Thinking-2506 has in_token_limit 16384 instead of 4096)",
    .image =
        "{\"in_token_limit\": 4096, \"pad_input\": true,"
        " \"image_mean\": [0.5, 0.5, 0.5], \"image_std\": [0.5, 0.5, 0.5]}",
};

static const struct ommai_processor_defaults defaults = {.mean = {0.5f, 0.5f, 0.5f}, .std = {0.5f, 0.5f, 0.5f}};

/* ---- tensors ---- */

static const struct ommai_tower_names tower_names = {
    .prefixes = {""},
    .patch_embed = "vision_tower.patch_embed.proj",
    .patch_embed_dims = 4,
    .patch_embed_bias = true,
    .position_table = "vision_tower.patch_embed.pos_emb",
    .position_dims = 3,
    .block = "vision_tower.encoder.blocks",
    .norm1 = "norm0",
    .norm2 = "norm1",
    .qkv = "wqkv",
    .proj = "wo",
    .fc1 = "mlp.fc0",
    .fc2 = "mlp.fc1",
    .apart = {"wq", "wk", "wv"},
    .final_norm = "vision_tower.encoder.final_layernorm",
    .merger = {"multi_modal_projector.pre_norm", "multi_modal_projector.linear_1", "multi_modal_projector.linear_2"},
};

static enum omma_status load_vision(struct ommai_weight_loader *loader, struct ommai_vision_tower *tower,
                                    struct omma_error *error) {
  return ommai_tower_load(loader, &tower_names, tower, error);
}

static enum omma_status load_text(struct ommai_weight_loader *loader, struct ommai_decoder *decoder, struct omma_error *error) {
  return ommai_deepseek_decoder_load(loader, "language_model", decoder, error);
}

/* ---- chat template ---- */

static const struct ommai_builtin_template builtin_template = {
    .turn_begin = {[OMMA_ROLE_SYSTEM] = "<|im_system|>system<|im_middle|>",
                   [OMMA_ROLE_USER] = "<|im_user|>user<|im_middle|>",
                   [OMMA_ROLE_ASSISTANT] = "<|im_assistant|>assistant<|im_middle|>"},
    .turn_end = "<|im_end|>",
    .image_begin = "<|media_start|>image<|media_content|>",
    .image_end = "<|media_end|>",
    .image_token = "<|media_pad|>",
    .default_system = "You are a helpful assistant",
    .allow_system_anywhere = true,
    .images_in = {true, true, true},
};

static const struct ommai_chat_variant variants[] = {
    {"Kimi-VL", &ommai_template_kimi_vl, &builtin_template},
    {"this project's test checkpoints", &ommai_template_own_kimi_vl, &builtin_template},
    {NULL, NULL, NULL},
};

const struct ommai_family ommai_family_kimi_vl = {
    .model_type = "kimi_vl",
    .parse_config = parse_config,
    .load_vision = load_vision,
    .load_text = load_text,
    .published = &published,
    .defaults = &defaults,
    .variants = variants,
};
