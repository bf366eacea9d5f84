/* LightOnOCR: config keys, tensor names, chat template. docs/models/lighton-ocr.md describes the
 * model. Source: transformers' modeling_lighton_ocr.py, modeling_pixtral.py,
 * processing_lighton_ocr.py and image_processing_pixtral.py, and the released files. */
#include "base/error.h"
#include "families/config_keys.h"
#include "families/family.h"

/* ---- config.json ---- */

static const struct ommai_vision_config tower = {
    .depth = 24,
    .hidden_size = 1024,
    .n_heads = 16,
    .intermediate_size = 4096,
    .patch_size = 14,
    .temporal_patch_size = 1,
    .merge_size = 2,
    .in_channels = 3,
    .norm = OMMAI_VISION_RMS_NORM,
    .norm_eps = 1e-5f,
    .entry_norm = true,
    .gated = true,
    .rope = OMMAI_ROPE_HALF_SHARED,
    .rope_theta = 10000.0,
};

static const struct ommai_tower_keys tower_keys = {
    OMMAI_PLAIN_TOWER_KEYS,
    .in_channels = {"num_channels"},
    .rope = "rope_parameters",
    .expected = {"hidden_act", "silu"},
};

/* Older files have rope_theta outside of rope_parameters. */
static enum omma_status parse_own(const json_t *vision, const char *where, struct ommai_model_config *config,
                                  struct omma_error *error) {
  OMMAI_TRY(ommai_json_number(vision, where, "rope_theta", false, &config->vision.rope_theta, error));
  return ommai_config_check_theta(where, config->vision.rope_theta, error);
}

/* The projector is written for the language model: its width, and the eps of its norms. */
static enum omma_status parse_root(const json_t *root, const char *path, struct ommai_model_config *config,
                                   struct omma_error *error) {
  struct ommai_vision_config *vision = &config->vision;
  OMMAI_TRY(ommai_json_integer(root, path, "spatial_merge_size", false, 1, 8, &vision->merge_size, error));
  OMMAI_TRY(ommai_config_refuse_true(root, path, "multimodal_projector_bias", error));
  vision->merger_norm_eps = config->text.norm_eps;
  vision->merger.reduced_size = vision->hidden_size;
  vision->merger.inner_size = config->text.hidden_size;
  return OMMA_OK;
}

/* ---- released processor files ---- */

static const struct ommai_default_processor published = {
    .name = "LightOnOCR's published values",
    .image = "{\"size\": {\"longest_edge\": 1540}," OMMAI_CLIP_KEYS "}",
};

static const struct ommai_processor_defaults defaults = {
    .max_pixels = 1024 * 1024,
    .mean = OMMAI_CLIP_MEAN,
    .std = OMMAI_CLIP_STD,
};

/* ---- tensors ---- */

static const struct ommai_tower_names tower_names = {
    .prefixes = {"model."},
    .patch_embed = "vision_encoder.patch_conv",
    .patch_embed_dims = 4,
    .entry_norm = "vision_encoder.ln_pre",
    .block = "vision_encoder.transformer.layers",
    .unbiased = true,
    .norm1 = "attention_norm",
    .norm2 = "ffn_norm",
    .proj = "attention.o_proj",
    .fc1 = "feed_forward.gate_proj",
    .up = "feed_forward.up_proj",
    .fc2 = "feed_forward.down_proj",
    .apart = {"attention.q_proj", "attention.k_proj", "attention.v_proj"},
    .merger = {.norm = "vision_projection.norm",
               .reduce = "vision_projection.patch_merger.merging_layer",
               .fc1 = "vision_projection.linear_1",
               .fc2 = "vision_projection.linear_2",
               .unbiased = true,
               .flat_reduce = true},
};

/* ---- prompts ---- */

/* Nothing stands around an image's tokens. */
static const struct ommai_media_marks marks = {.image_begin = "", .image_end = "", .image_token = "<|image_pad|>"};

#define TURNS                                                                                                \
  "{{ '<|im_start|>system<|im_end|>\n' if messages[0].role != 'system' }}"                                   \
  "{%- for message in messages -%}{{ '<|im_start|>' + message.role + '\n' }}"                                \
  "{%- for part in ([{'type': 'text', 'text': message.content}] if message.content is string else "          \
  "message.content) -%}{{ part.text + '\n' if part.type == 'text' and message.content is not string else "   \
  "part.text if part.type == 'text' else '<|image_pad|>' }}{%- endfor -%}{{ '<|im_end|>\n' }}{%- endfor -%}" \
  "{{ '<|im_start|>assistant\n' if add_generation_prompt }}"

const struct ommai_family ommai_family_lighton_ocr = {
    OMMAI_FAMILY_PARTS,
    .model_type = "lighton_ocr",
    .parse_root = parse_root,
    .text = &ommai_text_qwen3_1d,
    .image = {.sizing = OMMAI_SIZING_EDGE, .resize_rule = OMMAI_RESIZE_INT16, .raster_patches = true},
    .image_token_key = "image_token_id",
    .defaults = &defaults,
    .chat_name = "LightOnOCR",
};
