#include "families/token_vectors.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "families/decoder_config.h"
#include "families/family.h"

/* ---- config.json ---- */

/* Wrappers that keep vision_config and text_config at the top, and what they wrap. */
static const struct {
  const char *wrapper, *model_type;
} wrappers[] = {{"colqwen2", "qwen2_vl"}, {"colqwen2_5", "qwen2_5_vl"}, {"colqwen3", "qwen3_vl"}};

enum omma_status ommai_token_vectors_unwrap(const json_t *root, const char *path, const json_t **inner, const char **model_type,
                                            struct omma_error *error) {
  json_t *wrapped;
  char where[OMMAI_WHERE_SIZE];
  *inner = root;
  *model_type = NULL;
  OMMAI_TRY(ommai_json_string(root, path, "model_type", true, model_type, error));
  OMMAI_TRY(ommai_json_object(root, path, "vlm_config", false, &wrapped, error));
  if (wrapped) {
    *inner = wrapped;
    snprintf(where, sizeof where, "%s: vlm_config", path);
    return ommai_json_string(wrapped, where, "model_type", true, model_type, error);
  }
  for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++) {
    if (strcmp(*model_type, wrappers[i].wrapper) == 0) *model_type = wrappers[i].model_type;
  }
  return OMMA_OK;
}

/* Whether the checkpoint is of a class that gives vectors and nothing else. */
static bool gives_vectors_alone(const json_t *root) {
  const char *class = json_string_value(json_array_get(json_object_get(root, "architectures"), 0));
  return json_object_get(root, "vlm_config") || (class && strstr(class, "ColQwen"));
}

/* A checkpoint that answers too has the first key alone. */
static enum omma_status read_width(const json_t *root, const char *path, bool alone, int64_t *width, struct omma_error *error) {
  static const char *const keys[] = {"embed_dim", "embedding_dim", "dims", "dim", "projection_dim", "colbert_dim"};
  for (size_t i = 0; i < (alone ? sizeof keys / sizeof *keys : 1); i++) {
    if (!json_object_get(root, keys[i])) continue;
    return ommai_json_integer(root, path, keys[i], true, 1, OMMAI_CONFIG_MAX_WIDTH, width, error);
  }
  return OMMA_OK;
}

/* ---- prompts ---- */

static enum omma_status copy(char *out, size_t room, const char *text, size_t size, const char *key, struct omma_error *error) {
  if (size >= room) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, key, "processor_config.json: key \"%s\": at most %zu bytes are taken",
                            key, room - 1);
  }
  memcpy(out, text, size);
  out[size] = '\0';
  return OMMA_OK;
}

/* What stands around the one image token of visual_prompt_prefix. */
static enum omma_status split_page(const char *text, const char *image_token, struct ommai_token_vector_config *vectors,
                                   struct omma_error *error) {
  static const char KEY[] = "visual_prompt_prefix";
  const char *image = strstr(text, image_token);
  size_t length = strlen(image_token);
  if (!image || strstr(image + length, image_token)) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, KEY, "processor_config.json: key \"%s\": expected one %s in it", KEY,
                            image_token);
  }
  OMMAI_TRY(copy(vectors->before_image, sizeof vectors->before_image, text, (size_t)(image - text), KEY, error));
  return copy(vectors->after_image, sizeof vectors->after_image, image + length, strlen(image + length), KEY, error);
}

/* The prompts that the processor was saved with. */
static enum omma_status read_processor(const json_t *processor, const char *path, const struct ommai_family *family,
                                       struct ommai_token_vector_config *vectors, struct omma_error *error) {
  const char *query = NULL, *page = NULL;
  OMMAI_TRY(ommai_json_string(processor, path, "query_prefix", false, &query, error));
  OMMAI_TRY(ommai_json_string(processor, path, "visual_prompt_prefix", false, &page, error));
  if (query) OMMAI_TRY(copy(vectors->query_prefix, sizeof vectors->query_prefix, query, strlen(query), "query_prefix", error));
  return page ? split_page(page, family->marks->image_token, vectors, error) : OMMA_OK;
}

static enum omma_status read_prompts(const struct ommai_documents *documents, const struct omma_allocator *allocator,
                                     const struct ommai_family *family, bool wrapped, struct ommai_token_vector_config *vectors,
                                     struct omma_error *error) {
  const struct ommai_token_vector_rules *rules = family->token_vectors;
  char path[OMMAI_DOCUMENT_PATH_SIZE];
  json_t *processor;
  snprintf(vectors->before_image, sizeof vectors->before_image, "%s", rules->before_image);
  snprintf(vectors->after_image, sizeof vectors->after_image, "%s", rules->after_image);
  snprintf(vectors->query_prefix, sizeof vectors->query_prefix, "%s", wrapped ? rules->other_query_prefix : "");
  vectors->query_suffix = rules->query_suffix;
  OMMAI_TRY(ommai_document_find(documents, "processor_config.json", allocator, path, &processor, error));
  enum omma_status status = processor ? read_processor(processor, path, family, vectors, error) : OMMA_OK;
  json_decref(processor);
  return status;
}

enum omma_status ommai_token_vectors_read(const struct ommai_documents *documents, const struct omma_allocator *allocator,
                                          const struct ommai_family *family, const json_t *root, const char *path,
                                          struct ommai_model_config *config, struct omma_error *error) {
  bool alone = gives_vectors_alone(root);
  if (!family->token_vectors) {
    return alone ? ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "architectures",
                                    "%s: vectors of tokens are not known of models of type %s", path, family->model_type)
                 : OMMA_OK;
  }
  int64_t width = alone ? family->token_vectors->width : 0;
  OMMAI_TRY(read_width(root, path, alone, &width, error));
  if (width == 0) return OMMA_OK;
  config->text.projected_state = width;
  config->text.headless = config->token_vectors.alone = alone;
  return read_prompts(documents, allocator, family, json_object_get(root, "vlm_config") != NULL, &config->token_vectors, error);
}

/* ---- tensors ---- */

enum omma_status ommai_token_vectors_load(struct ommai_weight_loader *loader, struct ommai_decoder *decoder,
                                          struct omma_error *error) {
  static const char *const names[] = {"custom_text_proj", "embedding_proj_layer"};
  char probe[OMMAI_LOADER_MAX_NAME + 1];
  int64_t width = decoder->config.projected_state;
  if (!width) return OMMA_OK;
  snprintf(probe, sizeof probe, "%s.weight", names[1]);
  struct ommai_linear_part part = {.n_out = width};
  snprintf(part.prefix, sizeof part.prefix, "%s", names[ommai_loader_find(loader, probe) ? 1 : 0]);
  snprintf(probe, sizeof probe, "%.200s.bias", part.prefix);
  part.has_bias = !loader->checkpoint || ommai_loader_find(loader, probe);
  return ommai_loader_linear(loader, OMMAI_ROLE_STATE_PROJECTION, &part, 1, 2, &decoder->config.hidden_size,
                             &decoder->state_projection, error);
}
