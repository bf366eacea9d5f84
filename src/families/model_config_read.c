#include "families/model_config_read.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "families/family.h"
#include "families/generation_config.h"
#include "families/image_config.h"
#include "families/token_vectors.h"
#include "language/grouped_attention.h"

/* For estimates only: what a checkpoint really holds is seen when it is opened. */
static enum omma_dtype stored_type(const json_t *root) {
  const json_t *places[2] = {root, json_object_get(root, "text_config")};
  for (int i = 0; i < 2; i++) {
    const json_t *type = json_object_get(places[i], "dtype");
    const char *name = json_string_value(type ? type : json_object_get(places[i], "torch_dtype"));
    if (name) return strcmp(name, "bfloat16") == 0 ? OMMA_BF16 : strcmp(name, "float16") == 0 ? OMMA_F16 : OMMA_F32;
  }
  return OMMA_BF16;
}

static enum omma_status parse(const json_t *root, const struct ommai_documents *documents, const char *path, bool may_assume,
                              const struct omma_allocator *allocator, const struct ommai_family **family,
                              struct ommai_model_config *config, struct omma_error *error) {
  const json_t *inner;
  const char *model_type;
  OMMAI_TRY(ommai_token_vectors_unwrap(root, path, &inner, &model_type, error));
  *family = ommai_family_find(model_type);
  if (!*family) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "model_type", "%s: model_type \"%.60s\" is not supported; known: %s",
                            path, model_type, ommai_family_list());
  }
  snprintf(config->model_type, sizeof config->model_type, "%s", model_type);
  config->stored_type = stored_type(root);
  OMMAI_TRY(ommai_family_parse(*family, inner, path, config, error));
  OMMAI_TRY(ommai_token_vectors_read(documents, allocator, *family, root, path, config, error));
  const struct ommai_default_processor *published = may_assume ? (*family)->published : NULL;
  OMMAI_TRY(
      ommai_image_config_read(documents, allocator, published, (*family)->defaults, &config->vision, &config->image, error));
  if (config->video.token >= 0) {
    OMMAI_TRY(ommai_video_config_read(documents, allocator, published, (*family)->defaults, config, error));
  }
  return ommai_generation_config_read(documents, allocator, inner, config->text.vocab_size, &config->generation, error);
}

enum omma_status ommai_model_config_read(const struct ommai_documents *documents, bool may_assume,
                                         const struct omma_allocator *allocator, const struct ommai_family **family,
                                         struct ommai_model_config *config, struct omma_error *error) {
  char path[OMMAI_DOCUMENT_PATH_SIZE];
  json_t *root;
  OMMAI_TRY(ommai_document_require(documents, "config.json", allocator, path, &root, error));
  *config = (struct ommai_model_config){0};
  enum omma_status status = parse(root, documents, path, may_assume, allocator, family, config, error);
  json_decref(root);
  return status;
}

enum omma_status ommai_model_config_take_draft_head(struct ommai_model_config *config, struct omma_error *error) {
  struct ommai_decoder_config *text = &config->text;
  if (text->draft_offer.n_layers == 0) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "draft_head",
                            "config.json: model_type \"%s\" has no draft head here (\"mtp_num_hidden_layers\" is missing or 0)",
                            config->model_type);
  }
  if (text->draft_offer.n_layers > 1) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "draft_head",
                            "config.json: key \"mtp_num_hidden_layers\": expected 1, found %lld",
                            (long long)text->draft_offer.n_layers);
  }
  if (text->draft_offer.own_embeddings) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "draft_head",
                            "config.json: key \"mtp_use_dedicated_embeddings\": true is not supported");
  }
  text->n_draft_layers = 1;
  text->layers[text->n_layers] =
      (struct ommai_layer_config){.mixer = &ommai_grouped_attention, .ffn = text->layers[text->n_layers - 1].ffn};
  return OMMA_OK;
}
