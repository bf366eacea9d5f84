#include "families/gguf_model.h"

#include <stdio.h>

#include "base/allocator.h"
#include "base/error.h"
#include "families/gguf_config.h"
#include "families/gguf_tokens.h"

struct ommai_gguf_model {
  struct omma_allocator allocator;
  struct ommai_gguf_files files;
  struct ommai_gguf_tensors *tensors;
  struct ommai_documents documents;
  char description[320]; /* "": nothing is quantised */
};

enum { MAX_TYPES = 64 };

/* Counts matrices by their type's number. */
static void count_types(const struct ommai_gguf *file, int64_t counts[MAX_TYPES]) {
  for (int64_t i = 0; i < ommai_gguf_count(file); i++) {
    const struct ommai_gguf_tensor *tensor = ommai_gguf_at(file, i);
    if (tensor->n_dims > 1 && tensor->type < MAX_TYPES) counts[tensor->type]++;
  }
}

/* The most frequent type first. */
static void describe(struct ommai_gguf_model *self) {
  int64_t counts[MAX_TYPES] = {0};
  bool quantised = false;
  size_t used = (size_t)snprintf(self->description, sizeof self->description, "gguf:");
  for (int64_t i = 0; i < self->files.n_parts; i++) count_types(self->files.parts[i], counts);
  for (;;) {
    uint32_t commonest = 0;
    for (uint32_t type = 1; type < MAX_TYPES; type++) commonest = counts[type] > counts[commonest] ? type : commonest;
    if (counts[commonest] == 0 || used >= sizeof self->description) break;
    quantised |= ommai_gguf_format(commonest)->plain == OMMAI_TENSOR_QUANTISED;
    used += (size_t)snprintf(self->description + used, sizeof self->description - used, "%s %lld %s", used > 5 ? "," : "",
                             (long long)counts[commonest], ommai_gguf_type_name(commonest));
    counts[commonest] = 0;
  }
  if (!quantised) self->description[0] = '\0';
}

static enum omma_status open_all(struct ommai_gguf_model *self, const char *path, const char *mmproj,
                                 struct omma_error *error) {
  const struct ommai_gguf_architecture *architecture;
  OMMAI_TRY(ommai_gguf_files_open(path, mmproj, &self->allocator, &self->files, error));
  OMMAI_TRY(ommai_gguf_architecture_find(&self->files, &architecture, error));
  self->documents.directory = ommai_gguf_path(self->files.parts[0]);
  describe(self);
  OMMAI_TRY(ommai_gguf_documents_make(&self->files, architecture, &self->documents.made, error));
  return ommai_gguf_tensors_create(&self->files, architecture->text, architecture->tower, &self->allocator, &self->tensors,
                                   error);
}

enum omma_status ommai_gguf_model_open(const char *path, const char *mmproj, const struct omma_allocator *allocator,
                                       struct ommai_gguf_model **model, struct omma_error *error) {
  struct ommai_gguf_model *self = ommai_allocate(allocator, 1, sizeof *self);
  if (!self) return ommai_fail_memory(error, path, sizeof *self);
  self->allocator = *allocator;
  enum omma_status status = open_all(self, path, mmproj, error);
  if (status == OMMA_OK) {
    *model = self;
  } else {
    ommai_gguf_model_close(self);
  }
  return status;
}

void ommai_gguf_model_close(struct ommai_gguf_model *model) {
  if (!model) return;
  struct omma_allocator allocator = model->allocator;
  ommai_gguf_tensors_destroy(model->tensors);
  json_decref(model->documents.made);
  ommai_gguf_files_close(&model->files);
  ommai_release(&allocator, model, 1, sizeof *model);
}

const struct ommai_documents *ommai_gguf_model_documents(const struct ommai_gguf_model *model) { return &model->documents; }

const char *ommai_gguf_model_description(const struct ommai_gguf_model *model) {
  return model->description[0] ? model->description : NULL;
}

enum omma_status ommai_gguf_model_checkpoint(const struct ommai_gguf_model *model, struct ommai_checkpoint **checkpoint,
                                             struct omma_error *error) {
  int64_t count;
  const struct ommai_tensor *tensors = ommai_gguf_tensors_list(model->tensors, &count);
  return ommai_checkpoint_gather(model->documents.directory, tensors, count, &model->allocator, checkpoint, error);
}

enum omma_status ommai_gguf_model_tokenizer(const struct ommai_gguf_model *model, struct ommai_tokenizer **tokenizer,
                                            struct omma_error *error) {
  return ommai_gguf_tokens_load(model->files.parts[0], &model->allocator, tokenizer, error);
}
