/* Qwen3-VL and Qwen3.5, dense and with experts: config keys, tensor names, chat template.
 * docs/models/qwen3-vl.md and docs/models/qwen3_5.md describe the models. Source: transformers'
 * modeling_qwen3_vl.py, modeling_qwen3_5.py and the released checkpoints' files. */
#include <math.h>

#include "base/error.h"
#include "families/config_keys.h"
#include "families/family.h"
#include "families/qwen2_files.h"
#include "families/vector_rules.h"

/* ---- config.json ---- */

static const struct ommai_vision_config tower = {
    OMMAI_QWEN_TOWER,
    .depth = 27,
    .hidden_size = 1152,
    .intermediate_size = 4304,
    .patch_size = 16,
    .norm = OMMAI_VISION_LAYER_NORM,
    .activation = OMMAI_ACTIVATION_GELU_TANH,
    .positions = OMMAI_POSITIONS_BILINEAR,
};

static const struct ommai_tower_keys tower_keys = {
    OMMAI_QWEN_TOWER_KEYS,
    .hidden_size = "hidden_size",
    .intermediate_size = "intermediate_size",
    .out_hidden_size = "out_hidden_size",
    .expected = {"hidden_act", "gelu_pytorch_tanh"},
};

/* Sorts the blocks, each with the number of its first mention, and drops the others of the same
 * block. */
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

/* Outputs come in the order of blocks; the list's order is that of the mergers. The class's default
 * beyond the depth has no block. */
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
  config->position_rows = config->position_columns = side;
  return OMMA_OK;
}

static enum omma_status parse_own(const json_t *vision, const char *where, struct ommai_model_config *config,
                                  struct omma_error *error) {
  OMMAI_TRY(parse_positions(vision, where, &config->vision, error));
  return parse_deepstack(vision, where, &config->vision, error);
}

/* Qwen3.5: no deepstack. */
static enum omma_status parse_flat(const json_t *vision, const char *where, struct ommai_model_config *config,
                                   struct omma_error *error) {
  json_t *blocks;
  OMMAI_TRY(ommai_json_array(vision, where, "deepstack_visual_indexes", false, &blocks, error));
  if (json_array_size(blocks) > 0) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "deepstack_visual_indexes",
                            "%s: key \"deepstack_visual_indexes\": expected none, found %zu", where, json_array_size(blocks));
  }
  return parse_positions(vision, where, &config->vision, error);
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
    .mean = OMMAI_CLIP_MEAN,
    .std = OMMAI_CLIP_STD,
    .video_mean = {0.5f, 0.5f, 0.5f},
    .video_std = {0.5f, 0.5f, 0.5f},
};

/* ---- tensors ---- */

static const struct ommai_tower_names tower_names = {
    OMMAI_QWEN_TOWER_NAMES,
    .prefixes = {"model.visual.", "visual.", "vlm.model.visual."},
    .patch_embed_bias = true,
    .position_table = "pos_embed",
    .position_dims = 2,
    .fc1 = "mlp.linear_fc1",
    .fc2 = "mlp.linear_fc2",
    .merger = {.norm = "merger.norm", .fc1 = "merger.linear_fc1", .fc2 = "merger.linear_fc2"},
    .deepstack = "deepstack_merger_list",
    .deepstack_merger = {.norm = "norm", .fc1 = "linear_fc1", .fc2 = "linear_fc2"},
};

static const struct ommai_media_marks marks = {
    .image_begin = "<|vision_start|>",
    .image_end = "<|vision_end|>",
    .image_token = "<|image_pad|>",
    .video_token = "<|video_pad|>",
    .video = OMMAI_VIDEO_TIMED,
};

/* Qwen3-VL-Embedding and Qwen3-VL-Reranker, the dense models alone. Source: the helper classes in
 * their repositories. */
static const struct ommai_vector_rules vectors = {
    .models = {[OMMA_TASK_EMBED] = "Qwen3-VL-Embedding", [OMMA_TASK_SCORE] = "Qwen3-VL-Reranker"},
    .instruction = "Represent the user's input.",
    .nothing = "NULL",
    .score_system =
        "Judge whether the Document meets the requirements based on the Query and the Instruct provided. Note "
        "that the answer can only be \"yes\" or \"no\".",
    .score_instruction = "Given a search query, retrieve relevant candidates that answer the query.",
    .before_instruction = "<Instruct>: ",
    .before_query = "<Query>:",
    .before_document = "\n<Document>:",
    .yes = "yes",
    .no = "no",
    .score_kept_last = 5,
    .max_tokens = 8192,
    .min_pixels = 4 * 32 * 32,
    .max_pixels = 1800 * 32 * 32,
    .score_max_pixels = 640 * 32 * 32,
    .frame_min_pixels = 128 * 32 * 32,
    .frame_max_pixels = 768 * 32 * 32,
    .video_pixels = 10 * 768 * 32 * 32,
    .score_video_pixels = 4 * 2 * 640 * 32 * 32,
    .resize_rule = OMMAI_RESIZE_PRECISE22,
};

/* ColQwen3. */
static const struct ommai_token_vector_rules token_vectors = {OMMAI_QWEN_PAGES, .width = 320};

#define QWEN3(own, name)                                                                                              \
  OMMAI_QWEN_FAMILY, .parse_own = own, .video = {.area_of_all_frames = true}, .defaults = &defaults, .marks = &marks, \
                     .chat_name = name, .chat_template = OMMAI_QWEN_TURNS, .box_unit = OMMA_BOX_UNIT_THOUSANDTHS
#define QWEN3_VL QWEN3(parse_own, "Qwen3-VL Instruct")
#define QWEN3_5 QWEN3(parse_flat, "Qwen3.5")

const struct ommai_family ommai_family_qwen3_vl = {QWEN3_VL, .model_type = "qwen3_vl", .text = &ommai_text_qwen3,
                                                   .vectors = &vectors, .token_vectors = &token_vectors};
const struct ommai_family ommai_family_qwen3_vl_moe = {QWEN3_VL, .model_type = "qwen3_vl_moe", .text = &ommai_text_qwen3_moe};
const struct ommai_family ommai_family_qwen3_5 = {QWEN3_5, .model_type = "qwen3_5", .text = &ommai_text_qwen3_5};
const struct ommai_family ommai_family_qwen3_5_moe = {QWEN3_5, .model_type = "qwen3_5_moe", .text = &ommai_text_qwen3_5_moe};
