#include "fake_vectors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

int64_t fake_vector(enum omma_request_kind kind, const int32_t *prompt, size_t n_prompt, int64_t dimensions, int64_t raw,
                    float values[FAKE_VECTOR_WIDTH]) {
  int64_t width = kind == OMMA_REQUEST_SCORE ? 1 : dimensions ? dimensions : FAKE_VECTOR_WIDTH;
  uint32_t hash = 2166136261;
  double length = 0;
  for (size_t i = 0; i < n_prompt; i++) hash = (hash ^ (uint32_t)prompt[i]) * 16777619;
  for (int64_t i = 0; i < width; i++) {
    hash = hash * 1664525 + 1013904223;
    values[i] = (float)(hash >> 8) / (1 << 24) - (kind == OMMA_REQUEST_SCORE ? 0 : 0.5f);
    length += (double)values[i] * values[i];
  }
  for (int64_t i = 0; i < width && kind == OMMA_REQUEST_EMBED && !raw; i++) values[i] = (float)(values[i] / sqrt(length));
  return width;
}

/* The parts as one message, and the instruction before them. */
static enum omma_status create_vectors(const struct omma_model *model, enum omma_model_task task, const char *instruction,
                                       const struct omma_part *parts, size_t n_parts,
                                       const struct omma_request_options *options, struct omma_request **request,
                                       struct omma_error *error) {
  struct omma_request_options own = *options;
  struct omma_model_info info;
  omma_model_get_info(model, &info);
  const struct omma_part system = {.text = instruction, .text_size = instruction ? strlen(instruction) : 0};
  const struct omma_message messages[] = {{.role = OMMA_ROLE_SYSTEM, .parts = &system, .n_parts = 1},
                                          {.role = OMMA_ROLE_USER, .parts = parts, .n_parts = n_parts}};
  if (info.task != task) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "model", "the model has another task; Scripted-%s models have this",
                            task == OMMA_TASK_EMBED ? "Embedding" : "Reranker");
  }
  own.kind = task == OMMA_TASK_EMBED ? OMMA_REQUEST_EMBED : OMMA_REQUEST_SCORE;
  return omma_request_create(model, messages, 2, &own, request, error);
}

enum omma_status omma_request_create_embed(const struct omma_model *model, const char *instruction,
                                           const struct omma_part *parts, size_t n_parts,
                                           const struct omma_request_options *options, struct omma_request **request,
                                           struct omma_error *error) {
  return create_vectors(model, OMMA_TASK_EMBED, instruction, parts, n_parts, options, request, error);
}

enum omma_status omma_request_create_score(const struct omma_model *model, const char *instruction,
                                           const struct omma_part *query, size_t n_query, const struct omma_part *document,
                                           size_t n_document, const struct omma_request_options *options,
                                           struct omma_request **request, struct omma_error *error) {
  struct omma_part *both = calloc(n_query + n_document + 1, sizeof *both);
  for (size_t i = 0; i < n_query; i++) both[i] = query[i];
  for (size_t i = 0; i < n_document; i++) both[n_query + i] = document[i];
  enum omma_status status =
      create_vectors(model, OMMA_TASK_SCORE, instruction, both, n_query + n_document, options, request, error);
  free(both);
  return status;
}

/* One kind of input, whose text is "ask". */
const char *omma_model_input_prompt(const struct omma_model *model, const char *input_type) {
  (void)model;
  return strcmp(input_type, "query") == 0 ? "ask" : NULL;
}

const char *omma_model_input_type(const struct omma_model *model, size_t index) {
  (void)model;
  return index == 0 ? "query" : NULL;
}
