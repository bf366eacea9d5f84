/* dots.ocr: config keys, tensor names, chat template. docs/models/dots-ocr.md describes the model.
 * Source: vLLM's dots_ocr.py and descriptions of the released checkpoint's files. */
#include "base/error.h"
#include "families/config_keys.h"
#include "families/decoder_config.h"
#include "families/family.h"
#include "families/qwen2_files.h"

/* ---- config.json ---- */

static const struct ommai_vision_config tower = {
    .depth = 42,
    .hidden_size = 1536,
    .n_heads = 12,
    .intermediate_size = 4224,
    .patch_size = 14,
    .temporal_patch_size = 1,
    .merge_size = 2,
    .in_channels = 3,
    .out_hidden_size = 1536,
    .norm = OMMAI_VISION_RMS_NORM,
    .merger_norm_eps = 1e-6f,
    .entry_norm = true,
    .gated = true,
    .rope = OMMAI_ROPE_HALF,
    .rope_theta = 10000.0,
    .merger = {.layer_norm = true},
};

/* hidden_size is that of the merged tokens. */
static const struct ommai_tower_keys tower_keys = {
    .depth = "num_hidden_layers",
    .hidden_size = "embed_dim",
    .n_heads = "num_attention_heads",
    .intermediate_size = "intermediate_size",
    .out_hidden_size = "hidden_size",
    .temporal_patch_size = "temporal_patch_size",
    .merge_size = "spatial_merge_size",
    .in_channels = {"num_channels"},
    .expected = {"model_type", "dots_vit"},
};

static enum omma_status parse_own(const json_t *vision, const char *where, struct ommai_model_config *config,
                                  struct omma_error *error) {
  struct ommai_vision_config *read = &config->vision;
  read->final_norm = true;
  OMMAI_TRY(ommai_decoder_parse_eps(vision, where, "rms_norm_eps", 1e-5, &read->norm_eps, error));
  OMMAI_TRY(ommai_json_boolean(vision, where, "post_norm", false, &read->final_norm, error));
  OMMAI_TRY(ommai_config_refuse_true(vision, where, "use_bias", error));
  OMMAI_TRY(ommai_config_refuse_true(vision, where, "is_causal", error));
  if (read->temporal_patch_size == 1) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "temporal_patch_size",
                          "%s: key \"temporal_patch_size\": expected 1, found %lld", where,
                          (long long)read->temporal_patch_size);
}

/* ---- released processor files ---- */

static const struct ommai_default_processor published = {
    .name = "dots.ocr's published values",
    .image = "{\"min_pixels\": 3136, \"max_pixels\": 11289600," OMMAI_CLIP_KEYS "}",
};

/* ---- tensors ---- */

static const struct ommai_tower_names tower_names = {
    .prefixes = {"vision_tower."},
    .patch_embed = "patch_embed.patchifier.proj",
    .patch_embed_dims = 4,
    .patch_embed_bias = true,
    .entry_norm = "patch_embed.patchifier.norm",
    .block = "blocks",
    .unbiased = true,
    .norm1 = "norm1",
    .norm2 = "norm2",
    .qkv = "attn.qkv",
    .proj = "attn.proj",
    .fc1 = "mlp.fc1",
    .up = "mlp.fc3",
    .fc2 = "mlp.fc2",
    .final_norm = "post_trunk_norm",
    .merger = {.norm = "merger.ln_q", .fc1 = "merger.mlp.0", .fc2 = "merger.mlp.2"},
};

/* ---- prompts ---- */

static const struct ommai_media_marks marks = {
    .image_begin = "<|img|>",
    .image_end = "<|endofimg|>",
    .image_token = "<|imgpad|>",
};

/* Turns as the released template writes them, and contents as lists besides. */
#define TURNS                                                                                              \
  "{%- for message in messages -%}"                                                                        \
  "{{ {'system': '<|system|>', 'user': '<|user|>', 'assistant': '<|assistant|>'}.get(message.role, '') }}" \
  "{%- for part in ([{'type': 'text', 'text': message.content}] if message.content is string else "        \
  "message.content) -%}{{ part.text if part.type == 'text' else '<|img|><|imgpad|><|endofimg|>' }}"        \
  "{%- endfor -%}"                                                                                         \
  "{{ {'system': '<|endofsystem|>\n', 'user': '<|endofuser|>'}.get(message.role, '') }}"                   \
  "{{ '<|endofassistant|>' if message.role == 'assistant' and not loop.last }}{%- endfor -%}"              \
  "{{ '<|assistant|>' if add_generation_prompt }}"

const struct ommai_family ommai_family_dots_ocr = {
    OMMAI_FAMILY_PARTS,
    .model_type = "dots_ocr",
    .text = &ommai_text_qwen2_1d,
    .image = {.resize_rule = OMMAI_RESIZE_INT16},
    .image_token_key = "image_token_id",
    .defaults = &ommai_qwen2_processor_defaults,
    .chat_name = "dots.ocr",
};
