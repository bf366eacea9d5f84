#include "families/family.h"

#include <stdio.h>

#include "base/checked.h"
#include "base/error.h"
#include "families/decoder_config.h"

static enum omma_status parse_tower(const struct ommai_family *family, const json_t *root, const char *path,
                                    struct ommai_model_config *config, struct omma_error *error) {
  json_t *vision;
  char where[OMMAI_WHERE_SIZE];
  snprintf(where, sizeof where, "%s: vision_config", path);
  OMMAI_TRY(ommai_json_object(root, path, "vision_config", true, &vision, error));
  config->vision = *family->tower;
  OMMAI_TRY(ommai_tower_parse(vision, where, family->tower_keys, &config->vision, error));
  return family->parse_own ? family->parse_own(vision, where, config, error) : OMMA_OK;
}

/* What the parts agree on, once all are read. */
static enum omma_status join_parts(const struct ommai_family *family, const json_t *root, const char *path,
                                   struct ommai_model_config *config, struct omma_error *error) {
  char where[OMMAI_WHERE_SIZE];
  snprintf(where, sizeof where, "%s: vision_config", path);
  if (family->parse_root) OMMAI_TRY(family->parse_root(root, path, config, error));
  return ommai_tower_check_sizes(where, &config->vision, error);
}

/* The ids of the tokens that images and videos stand for. */
static enum omma_status parse_tokens(const struct ommai_family *family, const json_t *root, const char *path,
                                     struct ommai_model_config *config, struct omma_error *error) {
  int64_t image, video = -1, last = config->text.vocab_size - 1;
  OMMAI_TRY(ommai_json_integer(root, path, family->image_token_key, true, 0, last, &image, error));
  if (family->video_token_key) {
    OMMAI_TRY(ommai_json_integer(root, path, family->video_token_key, false, 0, last, &video, error));
  }
  config->image_token = (int32_t)image;
  config->video.token = (int32_t)video;
  return OMMA_OK;
}

enum omma_status ommai_family_parse(const struct ommai_family *family, const json_t *root, const char *path,
                                    struct ommai_model_config *config, struct omma_error *error) {
  const char *width_key = family->tower_keys->out_hidden_size;
  config->image = family->image;
  config->video = family->video;
  OMMAI_TRY(parse_tower(family, root, path, config, error));
  OMMAI_TRY(family->text->parse(family->text, root, path, &config->text, error));
  OMMAI_TRY(join_parts(family, root, path, config, error));
  OMMAI_TRY(parse_tokens(family, root, path, config, error));
  /* Outputs beyond the last layer have no taker, as in the official code. */
  config->text.n_deepstack = ommai_min_i64(config->vision.n_deepstack, config->text.n_layers);
  if (!width_key) config->vision.out_hidden_size = config->text.hidden_size;
  if (config->vision.out_hidden_size == config->text.hidden_size) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_FORMAT, width_key,
                          "%s: vision_config: %s %lld differs from text_config's hidden_size %lld", path, width_key,
                          (long long)config->vision.out_hidden_size, (long long)config->text.hidden_size);
}
