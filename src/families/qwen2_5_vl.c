/* Qwen2.5-VL: config keys, tensor names, chat template. docs/models/qwen2_5_vl.md describes the
 * model. Source: transformers' modeling_qwen2_5_vl.py and the released checkpoints' files. */
#include "base/error.h"
#include "families/config_keys.h"
#include "families/family.h"
#include "families/qwen2_files.h"
#include "families/vector_rules.h"

/* ---- config.json ---- */

static const struct ommai_vision_config tower = {
    OMMAI_QWEN_TOWER, /* and of its own: */
    .depth = 32,
    .hidden_size = 3584,
    .intermediate_size = 3420,
    .patch_size = 14,
    .norm = OMMAI_VISION_RMS_NORM,
    .gated = true,
    .positions = OMMAI_POSITIONS_NONE,
};

static const struct ommai_tower_keys tower_keys = {
    OMMAI_QWEN_TOWER_KEYS,
    .hidden_size = "hidden_size",
    .intermediate_size = "intermediate_size",
    .out_hidden_size = "out_hidden_size",
    .expected = {"hidden_act", "silu"},
};

enum { MAX_TOKENS_PER_SECOND = 1000 };

/* A window is window_size pixels a side, in whole merged tokens; all blocks but the listed ones
 * stay inside their windows. */
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
    /* the class's default may be beyond */
    if (full[i] < config->depth) config->windowed[full[i]] = false;
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

static enum omma_status parse_own(const json_t *vision, const char *where, struct ommai_model_config *config,
                                  struct omma_error *error) {
  OMMAI_TRY(parse_time(vision, where, &config->video, error));
  return parse_windows(vision, where, &config->vision, error);
}

/* ---- released processor files ---- */

static const struct ommai_default_processor published = {
    .name = "Qwen2.5-VL's published values",
    .image = OMMAI_QWEN2_PREPROCESSOR,
};

/* ---- tensors ---- */

static const struct ommai_tower_names tower_names = {
    OMMAI_QWEN_TOWER_NAMES, /* and of its own: */
    .prefixes = {"visual.", "model.visual.", "vlm.model.visual."},
    .fc1 = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .fc2 = "mlp.down_proj",
    .merger = {.norm = "merger.ln_q", .fc1 = "merger.mlp.0", .fc2 = "merger.mlp.2"},
};

/* ColQwen2.5. */
static const struct ommai_token_vector_rules token_vectors = {OMMAI_QWEN_PAGES, .width = 128};

const struct ommai_family ommai_family_qwen2_5_vl = {
    .model_type = "qwen2_5_vl",
    OMMAI_QWEN_FAMILY,
    .parse_own = parse_own,
    .text = &ommai_text_qwen2,
    .defaults = &ommai_qwen2_processor_defaults,
    .marks = &ommai_qwen2_media_marks,
    .token_vectors = &token_vectors,
    .chat_name = "Qwen2.5-VL",
    .chat_template = OMMAI_QWEN2_TURNS,
    .box_unit = OMMA_BOX_UNIT_RESIZED_PIXELS,
};
