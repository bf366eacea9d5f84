/* Kimi-VL: config keys, tensor names, chat template. docs/models/kimi_vl.md describes the model.
 * Source: vLLM's moonvit.py and kimi_vl.py, transformers' Kimi-K2.5, and the released checkpoints'
 * files. */
#include "base/error.h"
#include "families/family.h"

/* ---- config.json ---- */

/* The released files give every size. */
static const struct ommai_vision_config tower = {
    .temporal_patch_size = 1,
    .in_channels = 3,
    .norm = OMMAI_VISION_LAYER_NORM,
    .norm_eps = 1e-5f,
    .merger_norm_eps = 1e-5f,
    .final_norm = true,
    .activation = OMMAI_ACTIVATION_GELU_TANH,
    .positions = OMMAI_POSITIONS_BICUBIC,
    .rope = OMMAI_ROPE_PAIRS,
    .rope_theta = 10000.0,
};

static const struct ommai_tower_keys tower_keys = {
    OMMAI_PLAIN_TOWER_KEYS,
    .expected = {"model_type", "moonvit"},
    .required = true,
};

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

static enum omma_status parse_own(const json_t *vision, const char *where, struct ommai_model_config *config,
                                  struct omma_error *error) {
  struct ommai_vision_config *tower_config = &config->vision;
  OMMAI_TRY(ommai_json_integer(vision, where, "init_pos_emb_height", true, 1, 4096, &tower_config->position_rows, error));
  OMMAI_TRY(ommai_json_integer(vision, where, "init_pos_emb_width", true, 1, 4096, &tower_config->position_columns, error));
  return parse_merge(vision, where, tower_config, error);
}

/* ---- released processor files ---- */

/* Nothing in config.json distinguishes Thinking-2506 from Instruct. */
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
    .merger = {.norm = "multi_modal_projector.pre_norm", .fc1 = "multi_modal_projector.linear_1", .fc2 = "multi_modal_projector.linear_2"},
};

/* ---- prompts ---- */

static const struct ommai_media_marks marks = {
    .image_begin = "<|media_start|>image<|media_content|>",
    .image_end = "<|media_end|>",
    .image_token = "<|media_pad|>",
};

#define TURNS                                                                                                     \
  "{{ '<|im_system|>system<|im_middle|>You are a helpful assistant<|im_end|>' if messages[0].role != 'system' }}" \
  "{%- for message in messages -%}{{ '<|im_' + message.role + '|>' + message.role + '<|im_middle|>' }}"           \
  "{%- for part in ([{'type': 'text', 'text': message.content}] if message.content is string else "               \
  "message.content) -%}{{ part.text if part.type == 'text' else "                                                 \
  "'<|media_start|>image<|media_content|><|media_pad|><|media_end|>' }}{%- endfor -%}<|im_end|>{%- endfor -%}"    \
  "{{ '<|im_assistant|>assistant<|im_middle|>' if add_generation_prompt }}"

const struct ommai_family ommai_family_kimi_vl = {
    OMMAI_FAMILY_PARTS,
    .model_type = "kimi_vl",
    .text = &ommai_text_deepseek,
    .image = {.sizing = OMMAI_SIZING_PATCHES, .resize_rule = OMMAI_RESIZE_PRECISE22, .raster_patches = true},
    .image_token_key = "media_placeholder_token_id",
    .defaults = &defaults,
    .chat_name = "Kimi-VL",
};
