/* Qwen3-VL, dense and with experts: config keys, tensor names, chat template. docs/models/qwen3-vl.md describes the model.
 * Source: transformers' modeling_qwen3_vl.py and the released checkpoints' files. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "families/config_keys.h"
#include "families/family.h"
#include "families/qwen_decoder.h"
#include "families/tower_loader.h"

/* ---- config.json ---- */

static const struct ommai_tower_keys tower_keys = {
    .hidden_size = "hidden_size", .out_hidden_size = "out_hidden_size", .intermediate_size = "intermediate_size"};

/* Sorts the blocks, each with the number of its first mention, and drops the others of the same block. */
static void sort_deepstack(const int64_t *blocks, size_t count, struct ommai_vision_config *config) {
  for (int64_t block = 0; block < config->depth; block++) {
    for (size_t i = 0; i < count; i++) {
      if (blocks[i] != block) continue;
      config->deepstack_layers[config->n_deepstack] = block;
      config->deepstack_mergers[config->n_deepstack++] = (int64_t)i;
      break;
    }
  }
}

/* Outputs come in the order of blocks; the list's order is that of the mergers. The class's default beyond the depth has no block. */
static enum omma_status parse_deepstack(const json_t *vision, const char *where, struct ommai_vision_config *config,
                                        struct omma_error *error) {
  int64_t blocks[OMMAI_VISION_MAX_DEEPSTACK] = {8, 16, 24};
  size_t count = 3;
  OMMAI_TRY(ommai_json_integers(vision, where, "deepstack_visual_indexes", false, 0, config->depth - 1, blocks,
                                OMMAI_VISION_MAX_DEEPSTACK, &count, error));
  config->n_deepstack = 0;
  sort_deepstack(blocks, count, config);
  return OMMA_OK;
}

/* Learned positions: a square table. */
static enum omma_status parse_positions(const json_t *vision, const char *where, struct ommai_vision_config *config,
                                        struct omma_error *error) {
  int64_t count = 2304;
  OMMAI_TRY(ommai_json_integer(vision, where, "num_position_embeddings", false, 1, OMMAI_CONFIG_MAX_WIDTH, &count, error));
  int64_t side = (int64_t)lround(sqrt((double)count));
  if (side * side != count) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, "num_position_embeddings",
                            "%s: key \"num_position_embeddings\": expected a square, found %lld", where, (long long)count);
  }
  config->positions = OMMAI_POSITIONS_BILINEAR;
  config->position_rows = config->position_columns = side;
  return OMMA_OK;
}

/* Configurations that transformers saves may lack what equals the class's default. */
static void set_class_defaults(struct ommai_vision_config *config) {
  config->depth = 27;
  config->hidden_size = 1152;
  config->n_heads = 16;
  config->intermediate_size = 4304;
  config->patch_size = 16;
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
  OMMAI_TRY(ommai_config_expect_string(vision, where, "hidden_act", "gelu_pytorch_tanh", error));
  config->activation = OMMAI_ACTIVATION_GELU_TANH;
  config->norm = OMMAI_VISION_LAYER_NORM;
  config->norm_eps = config->merger_norm_eps = 1e-6f;
  config->rope = OMMAI_ROPE_HALF;
  OMMAI_TRY(parse_positions(vision, where, config, error));
  return parse_deepstack(vision, where, config, error);
}

static enum omma_status parse_variant(const json_t *root, const char *path, enum ommai_qwen_variant variant,
                                      struct ommai_model_config *config, struct omma_error *error) {
  OMMAI_TRY(parse_vision(root, path, &config->vision, error));
  OMMAI_TRY(ommai_qwen_decoder_parse(root, path, variant, &config->text, error));
  config->image.resize_rule = OMMAI_RESIZE_INT16;
  config->video.area_of_all_frames = true;
  return ommai_model_config_fit(root, path, "image_token_id", "video_token_id", config, error);
}

static enum omma_status parse_config(const json_t *root, const char *path, struct ommai_model_config *config,
                                     struct omma_error *error) {
  return parse_variant(root, path, OMMAI_QWEN3, config, error);
}

static enum omma_status parse_moe_config(const json_t *root, const char *path, struct ommai_model_config *config,
                                         struct omma_error *error) {
  return parse_variant(root, path, OMMAI_QWEN3_MOE, config, error);
}

/* ---- released processor files ---- */

static const struct ommai_default_processor published = {
    .name = "Qwen3-VL's published values",
    .image =
        "{\"size\": {\"shortest_edge\": 65536, \"longest_edge\": 16777216},"
        " \"image_mean\": [0.5, 0.5, 0.5], \"image_std\": [0.5, 0.5, 0.5]}",
    .video =
        "{\"size\": {\"shortest_edge\": 4096, \"longest_edge\": 25165824},"
        " \"image_mean\": [0.5, 0.5, 0.5], \"image_std\": [0.5, 0.5, 0.5]}",
};

static const struct ommai_processor_defaults defaults = {
    .min_pixels = 56 * 56,
    .max_pixels = 28 * 28 * 1280,
    .mean = {0.48145466f, 0.4578275f, 0.40821073f},
    .std = {0.26862954f, 0.26130258f, 0.27577711f},
    .video_mean = {0.5f, 0.5f, 0.5f},
    .video_std = {0.5f, 0.5f, 0.5f},
};

/* ---- tensors ---- */

static const struct ommai_tower_names tower_names = {
    .prefixes = {"model.visual."},
    .patch_embed = "patch_embed.proj",
    .patch_embed_dims = 5,
    .patch_embed_bias = true,
    .position_table = "pos_embed",
    .position_dims = 2,
    .block = "blocks",
    .norm1 = "norm1",
    .norm2 = "norm2",
    .qkv = "attn.qkv",
    .proj = "attn.proj",
    .fc1 = "mlp.linear_fc1",
    .fc2 = "mlp.linear_fc2",
    .apart = {"attn.q", "attn.k", "attn.v"},
    .merger = {"merger.norm", "merger.linear_fc1", "merger.linear_fc2"},
    .deepstack = "deepstack_merger_list",
    .deepstack_merger = {"norm", "linear_fc1", "linear_fc2"},
};

static enum omma_status load_vision(struct ommai_weight_loader *loader, struct ommai_vision_tower *tower,
                                    struct omma_error *error) {
  return ommai_tower_load(loader, &tower_names, tower, error);
}

static enum omma_status load_text(struct ommai_weight_loader *loader, struct ommai_decoder *decoder, struct omma_error *error) {
  return ommai_qwen_decoder_load(loader, OMMAI_QWEN3, decoder, error);
}

static enum omma_status load_moe_text(struct ommai_weight_loader *loader, struct ommai_decoder *decoder,
                                      struct omma_error *error) {
  return ommai_qwen_decoder_load(loader, OMMAI_QWEN3_MOE, decoder, error);
}

/* ---- chat template ---- */

#define TURNS                                                                             \
  {                                                                                       \
    [OMMA_ROLE_SYSTEM] = "<|im_start|>system\n", [OMMA_ROLE_USER] = "<|im_start|>user\n", \
    [OMMA_ROLE_ASSISTANT] = "<|im_start|>assistant\n"                                     \
  }

static const struct ommai_builtin_template instruct_template = {
    .turn_begin = TURNS,
    .turn_end = "<|im_end|>\n",
    .image_begin = "<|vision_start|>",
    .image_end = "<|vision_end|>",
    .image_token = "<|image_pad|>",
    .video_token = "<|video_pad|>",
    .video = OMMAI_VIDEO_TIMED,
    .images_in = {[OMMA_ROLE_USER] = true},
};

/* The template renders images in answers too, and would drop those of thoughts. */
static const struct ommai_builtin_template thinking_template = {
    .turn_begin = TURNS,
    .thought_begin = "<think>",
    .thought_end = "</think>",
    .turn_end = "<|im_end|>\n",
    .image_begin = "<|vision_start|>",
    .image_end = "<|vision_end|>",
    .image_token = "<|image_pad|>",
    .video_token = "<|video_pad|>",
    .video = OMMAI_VIDEO_TIMED,
    .allow_system_anywhere = true,
    .images_in = {[OMMA_ROLE_SYSTEM] = true, [OMMA_ROLE_USER] = true},
};

static const struct ommai_chat_variant variants[] = {
    {"Qwen3-VL Instruct", &ommai_template_qwen3_vl_instruct, &instruct_template},
    {"Qwen3-VL Thinking", &ommai_template_qwen3_vl_thinking, &thinking_template},
    {"this project's test checkpoints", &ommai_template_own_qwen3_vl, &instruct_template},
    {"this project's demo model", &ommai_template_own_demo, &instruct_template},
    {NULL, NULL, NULL},
};

const struct ommai_family ommai_family_qwen3_vl = {
    .model_type = "qwen3_vl",
    .parse_config = parse_config,
    .load_vision = load_vision,
    .load_text = load_text,
    .published = &published,
    .defaults = &defaults,
    .variants = variants,
    .box_unit = OMMA_BOX_UNIT_THOUSANDTHS,
};

const struct ommai_family ommai_family_qwen3_vl_moe = {
    .model_type = "qwen3_vl_moe",
    .parse_config = parse_moe_config,
    .load_vision = load_vision,
    .load_text = load_moe_text,
    .published = &published,
    .defaults = &defaults,
    .variants = variants,
    .box_unit = OMMA_BOX_UNIT_THOUSANDTHS,
};
