#include "model/input_prompts.h"

#include "base/error.h"

static enum omma_status read_member(const struct ommai_documents *documents, const char *name, const char *key,
                                    const struct omma_allocator *allocator, json_t *prompts, struct omma_error *error) {
  char path[OMMAI_DOCUMENT_PATH_SIZE];
  const char *input_type;
  json_t *root, *text;
  bool failed = false;
  OMMAI_TRY(ommai_document_find(documents, name, allocator, path, &root, error));
  json_object_foreach(json_object_get(root, key), input_type, text) {
    if (json_is_string(text)) failed |= json_object_set(prompts, input_type, text) != 0;
  }
  json_decref(root);
  return failed ? ommai_fail_memory(error, path, 1) : OMMA_OK;
}

/* Those of config.json count alone where it has any, as in vLLM. */
enum omma_status ommai_input_prompts_read(const struct ommai_documents *documents, const struct omma_allocator *allocator,
                                          json_t **prompts, struct omma_error *error) {
  json_t *found = json_object();
  *prompts = NULL;
  if (!found) return ommai_fail_memory(error, "prompts of inputs", 1);
  enum omma_status status = read_member(documents, "config.json", "task_instructions", allocator, found, error);
  if (status == OMMA_OK && json_object_size(found) == 0) {
    status = read_member(documents, "config_sentence_transformers.json", "prompts", allocator, found, error);
  }
  if (status == OMMA_OK && json_object_size(found)) *prompts = json_incref(found);
  json_decref(found);
  return status;
}
