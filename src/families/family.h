/* A model family as data: how its towers and language models differ from others'.
 * ommai_family_parse and the loaders work by this table, with a function only for keys that no
 * other family has. */
#pragma once

#include "families/model_config.h"
#include "families/prompt_builder.h"
#include "families/text_family.h"
#include "families/tower_loader.h"

struct ommai_token_vector_rules;
struct ommai_vector_rules;

struct ommai_family {
  const char *model_type; /* of config.json */

  /* The tower: what no key sets, and the official class's defaults of the sizes that keys set; the
   * keys; the tensors. */
  const struct ommai_vision_config *tower;
  const struct ommai_tower_keys *tower_keys;
  const struct ommai_tower_names *tower_names;

  /* Reads keys of vision_config that are this family's own into config->vision and config->video,
   * after the others. NULL: there are none. Errors: FORMAT, UNSUPPORTED. */
  enum omma_status (*parse_own)(const json_t *vision, const char *where, struct ommai_model_config *config,
                                struct omma_error *error);

  const struct ommai_text_family *text;

  /* Reads keys outside of vision_config and text_config (root; `path` for messages), and takes over
   * into the tower's values what the language model's keys give, after both. NULL: there are none.
   * Errors: FORMAT, UNSUPPORTED. */
  enum omma_status (*parse_root)(const json_t *root, const char *path, struct ommai_model_config *config,
                                 struct omma_error *error);

  /* Images and videos: what no file sets. */
  struct ommai_image_config image; /* sizing, resize_rule, raster_patches */
  struct ommai_video_config video; /* area_of_all_frames, time_by_temporal_patch */
  /* of config.json; without the second it takes no videos */
  const char *image_token_key, *video_token_key;
  const struct ommai_default_processor *published;
  const struct ommai_processor_defaults *defaults;
  const struct ommai_media_marks *marks; /* of its chat templates */
  /* Of its models for vectors and scores; NULL: there are none. */
  const struct ommai_vector_rules *vectors;
  const struct ommai_token_vector_rules *token_vectors; /* those of tokens; likewise */
  /* A form of prompts for checkpoints whose own template is missing or cannot be rendered: whose it
   * is, for messages, and its text in Jinja. */
  const char *chat_name, *chat_template;
  /* of the boxes in its answers; NONE: it was not trained on a JSON form of them */
  enum omma_box_unit box_unit;
};

/* Members of a table whose file calls its own parts so. */
#define OMMAI_FAMILY_PARTS                                                                                                  \
  .tower = &tower, .tower_keys = &tower_keys, .tower_names = &tower_names, .parse_own = parse_own, .published = &published, \
  .marks = &marks, .chat_template = TURNS

/* Reads config.json (root; `path` for messages) into config's vision, text, image and video, and
 * checks that tower and language model fit together. Errors: FORMAT, UNSUPPORTED. */
enum omma_status ommai_family_parse(const struct ommai_family *family, const json_t *root, const char *path,
                                    struct ommai_model_config *config, struct omma_error *error);

/* The family for a model_type, or NULL; and the list of all, separated by blanks, for messages. */
const struct ommai_family *ommai_family_find(const char *model_type);
const char *ommai_family_list(void);
/* Those that have a vector of an input, and those that may have a layer for one of each token,
 * likewise. */
void ommai_vector_family_lists(char *of_inputs, char *of_tokens, size_t size);
/* What released models for a task, EMBED or SCORE, are called. */
const char *ommai_vector_model_name(enum omma_model_task task);

/* X(model_type, words): the one list of families. words: what the families and their parts are
 * called, which tools/check_layers.sh keeps out of all other folders. */
#define OMMAI_FAMILIES(X)             \
  X(qwen2_vl, "qwen")                 \
  X(qwen2_5_vl, "qwen")               \
  X(qwen3_vl, "qwen")                 \
  X(qwen3_vl_moe, "qwen")             \
  X(qwen3_5, "qwen")                  \
  X(qwen3_5_moe, "qwen")              \
  X(kimi_vl, "kimi moonvit deepseek") \
  X(paddleocr_vl, "paddle ernie")     \
  X(glm_ocr, "glm")                   \
  X(lighton_ocr, "lighton pixtral")   \
  X(dots_ocr, "dots_ocr dotsocr")

#define OMMAI_FAMILY_DECLARATION(name, words) extern const struct ommai_family ommai_family_##name;
OMMAI_FAMILIES(OMMAI_FAMILY_DECLARATION)
#undef OMMAI_FAMILY_DECLARATION
