/* PaddleOCR-VL: config keys, tensor names, chat template. docs/models/paddleocr-vl.md describes the
 * model. Source: transformers' modeling_paddleocr_vl.py and image_processing_paddleocr_vl.py, and
 * the released checkpoints' files. */
#include "base/error.h"
#include "families/decoder_config.h"
#include "families/family.h"

/* ---- config.json ---- */

static const struct ommai_vision_config tower = {
    .depth = 27,
    .hidden_size = 1152,
    .n_heads = 16,
    .intermediate_size = 4304,
    .patch_size = 14,
    .temporal_patch_size = 1,
    .merge_size = 2,
    .in_channels = 3,
    .norm = OMMAI_VISION_LAYER_NORM,
    .merger_norm_eps = 1e-5f,
    .final_norm = true,
    .activation = OMMAI_ACTIVATION_GELU_TANH,
    .positions = OMMAI_POSITIONS_BILINEAR_CENTRES,
    .rope = OMMAI_ROPE_HALF,
    .rope_theta = 10000.0,
};

/* A temporal_patch_size that files have means nothing. */
static const struct ommai_tower_keys tower_keys = {
    OMMAI_PLAIN_TOWER_KEYS,
    .merge_size = "spatial_merge_size",
    .in_channels = {"num_channels"},
    .rope = "rope_parameters",
    .expected = {"hidden_act", "gelu_pytorch_tanh"},
};

/* The table of positions has as many rows and columns as whole patches fit into image_size. */
static enum omma_status parse_own(const json_t *vision, const char *where, struct ommai_model_config *config,
                                  struct omma_error *error) {
  struct ommai_vision_config *read = &config->vision;
  int64_t image_size = 384;
  OMMAI_TRY(ommai_decoder_parse_eps(vision, where, "layer_norm_eps", 1e-6, &read->norm_eps, error));
  OMMAI_TRY(
      ommai_json_integer(vision, where, "image_size", false, read->patch_size, OMMAI_CONFIG_MAX_WIDTH, &image_size, error));
  read->position_rows = read->position_columns = image_size / read->patch_size;
  return OMMA_OK;
}

/* ---- released processor files ---- */

static const struct ommai_default_processor published = {
    .name = "PaddleOCR-VL's published values",
    .image =
        "{\"min_pixels\": 112896, \"max_pixels\": 1003520,"
        " \"image_mean\": [0.5, 0.5, 0.5], \"image_std\": [0.5, 0.5, 0.5]}",
};

static const struct ommai_processor_defaults defaults = {
    .min_pixels = 384 * 384,
    .max_pixels = 1536 * 1536,
    .mean = OMMAI_CLIP_MEAN,
    .std = OMMAI_CLIP_STD,
};

/* ---- tensors ---- */

static const struct ommai_merger_names projector = {
    .norm = "projector.pre_norm", .fc1 = "projector.linear_1", .fc2 = "projector.linear_2"};

static const struct ommai_tower_names tower_names = {
    .prefixes = {"", "model."},
    .patch_embed = "visual.vision_model.embeddings.patch_embedding",
    .patch_embed_dims = 4,
    .patch_embed_bias = true,
    .position_table = "visual.vision_model.embeddings.position_embedding",
    .position_dims = 2,
    .block = "visual.vision_model.encoder.layers",
    .norm1 = "layer_norm1",
    .norm2 = "layer_norm2",
    .proj = "self_attn.out_proj",
    .fc1 = "mlp.fc1",
    .fc2 = "mlp.fc2",
    .apart = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
    .final_norm = "visual.vision_model.post_layernorm",
    .merger = {.norm = "mlp_AR.pre_norm", .fc1 = "mlp_AR.linear_1", .fc2 = "mlp_AR.linear_2"},
    .other_merger = &projector,
};

/* ---- prompts ---- */

static const struct ommai_media_marks marks = {
    .image_begin = "<|IMAGE_START|>",
    .image_end = "<|IMAGE_END|>",
    .image_token = "<|IMAGE_PLACEHOLDER|>",
};

/* A user's images go before all of the message's texts. */
#define TURNS                                                                                                         \
  "<|begin_of_sentence|>{%- for message in messages -%}"                                                              \
  "{%- set parts = [{'type': 'text', 'text': message.content}] if message.content is string else message.content -%}" \
  "{{ {'user': 'User: ', 'assistant': 'Assistant:\n'}.get(message.role, '') }}"                                       \
  "{%- for part in parts if part.type == 'image' -%}<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>{%- endfor -%}"  \
  "{%- for part in parts if part.type == 'text' -%}{{ part.text }}{%- endfor -%}"                                     \
  "{{ '</s>' if message.role == 'assistant' else '\n' }}{%- endfor -%}"                                               \
  "{{ 'Assistant:\n' if add_generation_prompt }}"

const struct ommai_family ommai_family_paddleocr_vl = {
    OMMAI_FAMILY_PARTS,
    .model_type = "paddleocr_vl",
    .text = &ommai_text_ernie,
    .image = {.sizing = OMMAI_SIZING_SIDES_AND_AREA, .resize_rule = OMMAI_RESIZE_INT16, .raster_patches = true},
    .image_token_key = "image_token_id",
    .defaults = &defaults,
    .chat_name = "PaddleOCR-VL",
};
