#include "families/vector_rules.h"

#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "families/family.h"

/* Whether a part of a name of n bytes is the word, in any case. */
static bool names(const char *name, size_t n, const char *word) {
  size_t length = strlen(word);
  for (size_t i = 0; i + length <= n; i++) {
    if (strncasecmp(name + i, word, length) == 0) return true;
  }
  return false;
}

static enum omma_model_task task_named(const char *name, size_t n) {
  if (names(name, n, "reranker")) return OMMA_TASK_SCORE;
  return names(name, n, "embedding") ? OMMA_TASK_EMBED : OMMA_TASK_AUTO;
}

/* By the model's own name in its path: the last part, or that of a hub's cache
 * (models--NAME/snapshots/HASH). */
static enum omma_model_task task_of_path(const char *path) {
  const char *hub = strstr(path, "models--");
  size_t end = strlen(path);
  if (hub && strstr(hub, "/snapshots/")) return task_named(hub, strcspn(hub, "/"));
  while (end > 0 && path[end - 1] == '/') end--;
  size_t begin = end;
  while (begin > 0 && path[begin - 1] != '/') begin--;
  return task_named(path + begin, end - begin);
}

/* By the class that config.json names, or by how a GGUF file says that rows are pooled. */
static enum omma_model_task task_of_config(const json_t *root) {
  enum { LAST = 3, RANK = 4 }; /* of llama.cpp's pooling types */
  const char *class = json_string_value(json_array_get(json_object_get(root, "architectures"), 0));
  json_int_t pooling = json_integer_value(json_object_get(root, "pooling_type"));
  if (pooling == RANK || (class && strstr(class, "ForSequenceClassification"))) return OMMA_TASK_SCORE;
  if (pooling == LAST) return OMMA_TASK_EMBED;
  return class ? task_named(class, strlen(class)) : OMMA_TASK_AUTO;
}

static enum omma_status find_task(const struct ommai_documents *documents, const struct omma_allocator *allocator,
                                  enum omma_model_task *task, struct omma_error *error) {
  char path[OMMAI_DOCUMENT_PATH_SIZE];
  json_t *root;
  OMMAI_TRY(ommai_document_find(documents, "config.json", allocator, path, &root, error));
  *task = task_of_config(root);
  json_decref(root);
  if (*task == OMMA_TASK_AUTO) *task = task_of_path(documents->directory);
  if (*task != OMMA_TASK_AUTO) return OMMA_OK;
  OMMAI_TRY(ommai_document_find(documents, "config_sentence_transformers.json", allocator, path, &root, error));
  *task = root ? OMMA_TASK_EMBED : OMMA_TASK_GENERATE;
  json_decref(root);
  return OMMA_OK;
}

enum omma_status ommai_task_choose(const struct ommai_family *family, const struct ommai_documents *documents,
                                   enum omma_model_task wanted, const struct omma_allocator *allocator,
                                   struct ommai_model_config *config, enum omma_model_task *task, struct omma_error *error) {
  const struct ommai_vector_rules *rules = family->vectors;
  if (wanted < OMMA_TASK_AUTO || wanted > OMMA_TASK_POOLING) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "task", "task: no such task: %d", (int)wanted);
  }
  *task = wanted;
  /* Scores are made of its vectors. Images are of the processor's sizes. */
  if (config->text.projected_state && (config->token_vectors.alone || wanted > OMMA_TASK_GENERATE)) {
    *task = OMMA_TASK_EMBED;
    if (wanted != OMMA_TASK_GENERATE) return OMMA_OK;
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "task", "task: this model gives vectors alone (embed)");
  }
  if (wanted == OMMA_TASK_AUTO || wanted == OMMA_TASK_POOLING) {
    *task = OMMA_TASK_GENERATE;
    if (rules) OMMAI_TRY(find_task(documents, allocator, task, error));
    if (wanted == OMMA_TASK_POOLING && *task == OMMA_TASK_GENERATE) *task = OMMA_TASK_EMBED;
  }
  if (*task == OMMA_TASK_GENERATE) return OMMA_OK;
  if (!rules) {
    char of_inputs[100], of_tokens[100];
    ommai_vector_family_lists(of_inputs, of_tokens, sizeof of_inputs);
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "task",
                            "task: a model of type %s gives no vectors and scores; those of these types do: %s, and with a "
                            "layer for a vector of each token: %s",
                            config->model_type, of_inputs, of_tokens);
  }
  config->image.sizing = OMMAI_SIZING_WHOLE_BLOCKS;
  config->image.min_pixels = rules->min_pixels;
  config->image.max_pixels = *task == OMMA_TASK_EMBED ? rules->max_pixels : rules->score_max_pixels;
  config->image.resize_rule = rules->resize_rule;
  config->video.area_of_all_frames = false;
  config->video.min_pixels = rules->frame_min_pixels;
  config->video.max_pixels = rules->frame_max_pixels;
  config->video.shared_pixels = 2 * (*task == OMMA_TASK_EMBED ? rules->video_pixels : rules->score_video_pixels);
  return OMMA_OK;
}
