/* Qwen2-VL: config keys, tensor names, chat templates. docs/models/qwen2_vl.md describes the model.
 * Source: transformers' modeling_qwen2_vl.py and the released checkpoints' files. */
#include "families/family.h"
#include "families/qwen2_files.h"
#include "families/vector_rules.h"

/* ---- config.json ---- */

static const struct ommai_vision_config tower = {
    OMMAI_QWEN_TOWER,
    .depth = 32,
    .hidden_size = 1280,
    .patch_size = 14,
    .norm = OMMAI_VISION_LAYER_NORM,
    .activation = OMMAI_ACTIVATION_QUICK_GELU,
    .positions = OMMAI_POSITIONS_NONE,
};

/* The tower's own width is embed_dim; hidden_size is the width of the language model's rows. */
static const struct ommai_tower_keys tower_keys = {
    OMMAI_QWEN_TOWER_KEYS,
    .hidden_size = "embed_dim",
    .out_hidden_size = "hidden_size",
    .expected = {"hidden_act", "quick_gelu"},
};

/* ---- released processor files ---- */

static const struct ommai_default_processor published = {
    .name = "Qwen2-VL's published values",
    .image = OMMAI_QWEN2_PREPROCESSOR,
};

/* ---- tensors ---- */

static const struct ommai_tower_names tower_names = {
    OMMAI_QWEN_TOWER_NAMES, /* and of its own: */
    .prefixes = {"visual.", "model.visual.", "vlm.model.visual."},
    .fc1 = "mlp.fc1",
    .fc2 = "mlp.fc2",
    .merger = {.norm = "merger.ln_q", .fc1 = "merger.mlp.0", .fc2 = "merger.mlp.2"},
};

/* ColQwen2. */
static const struct ommai_token_vector_rules token_vectors = {OMMAI_QWEN_PAGES, .width = 128};

/* Boxes are text between <|box_start|> and <|box_end|>, no JSON. */
const struct ommai_family ommai_family_qwen2_vl = {
    .model_type = "qwen2_vl",
    OMMAI_QWEN_FAMILY,
    .text = &ommai_text_qwen2,
    .video = {.time_by_temporal_patch = true},
    .defaults = &ommai_qwen2_processor_defaults,
    .marks = &ommai_qwen2_media_marks,
    .token_vectors = &token_vectors,
    .chat_name = "Qwen2-VL",
    .chat_template = OMMAI_QWEN2_TURNS,
};
