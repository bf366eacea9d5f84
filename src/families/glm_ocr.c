/* GLM-OCR: config keys, tensor names, chat template. docs/models/glm-ocr.md describes the model.
 * Source: transformers' modeling_glm_ocr.py and image_processing_glm46v.py, and the released
 * checkpoint's files. */
#include "base/error.h"
#include "families/decoder_config.h"
#include "families/family.h"

/* ---- config.json ---- */

static const struct ommai_vision_config tower = {
    .depth = 24,
    .hidden_size = 1024,
    .n_heads = 16,
    .intermediate_size = 4096,
    .patch_size = 14,
    .temporal_patch_size = 2,
    .merge_size = 2,
    .in_channels = 3,
    .out_hidden_size = 1536,
    .norm = OMMAI_VISION_RMS_NORM,
    .merger_norm_eps = 1e-5f,
    .final_norm = true,
    .qk_norm = true,
    .gated = true,
    .rope = OMMAI_ROPE_HALF,
    .rope_theta = 10000.0,
    .merger = {.no_norm = true, .projected = true, .gated = true},
};

static const struct ommai_tower_keys tower_keys = {
    .depth = "depth",
    .hidden_size = "hidden_size",
    .n_heads = "num_heads",
    .intermediate_size = "intermediate_size",
    .out_hidden_size = "out_hidden_size",
    .temporal_patch_size = "temporal_patch_size",
    .merge_size = "spatial_merge_size",
    .in_channels = {"in_channels"},
    .rope = "rope_parameters",
    .expected = {"hidden_act", "silu"},
};

static enum omma_status parse_own(const json_t *vision, const char *where, struct ommai_model_config *config,
                                  struct omma_error *error) {
  struct ommai_vision_config *read = &config->vision;
  bool bias = true;
  OMMAI_TRY(ommai_decoder_parse_eps(vision, where, "rms_norm_eps", 1e-5, &read->norm_eps, error));
  OMMAI_TRY(ommai_json_boolean(vision, where, "attention_bias", false, &bias, error));
  if (!bias) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "attention_bias",
                            "%s: key \"attention_bias\": expected true, found false", where);
  }
  read->merger.reduced_size = read->out_hidden_size;
  read->merger.inner_size = read->out_hidden_size * read->in_channels;
  return OMMA_OK;
}

/* ---- released processor files ---- */

static const struct ommai_default_processor published = {
    .name = "GLM-OCR's published values",
    .image = "{\"size\": {\"shortest_edge\": 12544, \"longest_edge\": 9633792}," OMMAI_CLIP_KEYS "}",
};

static const struct ommai_processor_defaults defaults = {
    .min_pixels = 112 * 112, .max_pixels = 28 * 28 * 15000, .mean = OMMAI_CLIP_MEAN, .std = OMMAI_CLIP_STD};

/* ---- tensors ---- */

static const struct ommai_tower_names tower_names = {
    .prefixes = {"model.visual."},
    .patch_embed = "patch_embed.proj",
    .patch_embed_dims = 5,
    .patch_embed_bias = true,
    .block = "blocks",
    .norm1 = "norm1",
    .norm2 = "norm2",
    .qkv = "attn.qkv",
    .proj = "attn.proj",
    .fc1 = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .fc2 = "mlp.down_proj",
    .q_norm = "attn.q_norm",
    .k_norm = "attn.k_norm",
    .final_norm = "post_layernorm",
    .merger = {.reduce = "downsample",
               .project = "merger.proj",
               .projected_norm = "merger.post_projection_norm",
               .fc1 = "merger.gate_proj",
               .up = "merger.up_proj",
               .fc2 = "merger.down_proj",
               .unbiased = true},
};

/* ---- prompts ---- */

static const struct ommai_media_marks marks = {
    .image_begin = "<|begin_of_image|>",
    .image_end = "<|end_of_image|>",
    .image_token = "<|image|>",
};

#define TURNS                                                                                                     \
  "[gMASK]<sop>{%- for message in messages -%}<|{{ message.role }}|>{{ '\n' }}"                                   \
  "{%- for part in ([{'type': 'text', 'text': message.content}] if message.content is string else "               \
  "message.content) -%}{{ part.text if part.type == 'text' else '<|begin_of_image|><|image|><|end_of_image|>' }}" \
  "{%- endfor -%}{%- endfor -%}{{ '<|assistant|>\n' if add_generation_prompt }}"

const struct ommai_family ommai_family_glm_ocr = {
    OMMAI_FAMILY_PARTS,
    .model_type = "glm_ocr",
    .text = &ommai_text_glm,
    .image = {.sizing = OMMAI_SIZING_FRAMES, .resize_rule = OMMAI_RESIZE_INT16},
    .image_token_key = "image_token_id",
    .defaults = &defaults,
    .chat_name = "GLM-OCR",
};
