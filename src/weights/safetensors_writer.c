#include "weights/safetensors_writer.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/json_writer.h"
#include "weights/part_file.h"

#define METADATA_KEY "__metadata__"
#define LENGTH_BYTES 8
#define HEADER_ALIGNMENT 8

struct pending_tensor {
  char *name;
  enum ommai_tensor_type type;
  int n_dims;
  int64_t shape[OMMAI_TENSOR_MAX_DIMS];
  uint64_t size_bytes;
  const void *data;
};

struct ommai_safetensors_writer {
  struct omma_allocator allocator;
  char *path;
  json_t *metadata; /* an object */
  json_t *names;    /* an object whose keys are the names in use */
  struct pending_tensor *tensors;
  size_t n_tensors;
  size_t capacity;
};

enum omma_status ommai_safetensors_writer_create(const char *path, const struct omma_allocator *allocator,
                                                 struct ommai_safetensors_writer **writer, struct omma_error *error) {
  struct ommai_safetensors_writer *self = ommai_allocate(allocator, 1, sizeof *self);
  if (!self) return ommai_fail_memory(error, path, sizeof *self);
  self->allocator = *allocator;
  self->path = ommai_duplicate(allocator, path, strlen(path));
  self->metadata = json_object();
  self->names = json_object();
  if (!self->path || !self->metadata || !self->names) {
    ommai_safetensors_writer_destroy(self);
    return ommai_fail_memory(error, path, strlen(path) + 1);
  }
  *writer = self;
  return OMMA_OK;
}

void ommai_safetensors_writer_destroy(struct ommai_safetensors_writer *writer) {
  if (!writer) return;
  struct omma_allocator allocator = writer->allocator;
  for (size_t i = 0; i < writer->n_tensors; i++) {
    ommai_release(&allocator, writer->tensors[i].name, strlen(writer->tensors[i].name) + 1, 1);
  }
  ommai_release(&allocator, writer->tensors, writer->capacity, sizeof *writer->tensors);
  json_decref(writer->names);
  json_decref(writer->metadata);
  if (writer->path) ommai_release(&allocator, writer->path, strlen(writer->path) + 1, 1);
  ommai_release(&allocator, writer, 1, sizeof *writer);
}

enum omma_status ommai_safetensors_writer_metadata(struct ommai_safetensors_writer *writer, const char *key, const char *value,
                                                   struct omma_error *error) {
  if (json_object_set_new(writer->metadata, key, json_string(value)) == 0) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_ARGUMENT, "%s: " METADATA_KEY " \"%.120s\": key and value must be UTF-8 text",
                    writer->path, key);
}

/* Room for one more tensor. */
static enum omma_status grow(struct ommai_safetensors_writer *writer, struct omma_error *error) {
  if (writer->n_tensors < writer->capacity) return OMMA_OK;
  size_t capacity = writer->capacity ? writer->capacity * 2 : 16;
  struct pending_tensor *tensors = ommai_allocate(&writer->allocator, capacity, sizeof *tensors);
  if (!tensors) return ommai_fail_memory(error, writer->path, capacity * sizeof *tensors);
  if (writer->tensors) memcpy(tensors, writer->tensors, writer->n_tensors * sizeof *tensors);
  ommai_release(&writer->allocator, writer->tensors, writer->capacity, sizeof *tensors);
  writer->tensors = tensors;
  writer->capacity = capacity;
  return OMMA_OK;
}

static enum omma_status check_name(const struct ommai_safetensors_writer *writer, const char *name, struct omma_error *error) {
  const char *fault = NULL;
  if (strcmp(name, METADATA_KEY) == 0) fault = "is reserved";
  if (json_object_get(writer->names, name)) fault = "was added before";
  if (!fault) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "name", "%s: tensor name \"%.120s\" %s", writer->path, name, fault);
}

enum omma_status ommai_safetensors_writer_add(struct ommai_safetensors_writer *writer, const char *name,
                                              enum ommai_tensor_type type, int n_dims, const int64_t *shape, const void *data,
                                              struct omma_error *error) {
  struct pending_tensor tensor = {.type = type, .n_dims = n_dims, .data = data};
  int64_t n_elements;
  OMMAI_TRY(check_name(writer, name, error));
  if (!ommai_tensor_size(type, n_dims, shape, &n_elements, &tensor.size_bytes)) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "shape", "%s: tensor \"%.120s\": no size for %s with %d dimensions",
                            writer->path, name, ommai_tensor_type_name(type), n_dims);
  }
  for (int i = 0; i < n_dims; i++) tensor.shape[i] = shape[i];
  OMMAI_TRY(grow(writer, error));
  tensor.name = ommai_duplicate(&writer->allocator, name, strlen(name));
  if (!tensor.name) return ommai_fail_memory(error, writer->path, strlen(name) + 1);
  if (json_object_set_new(writer->names, name, json_true()) != 0) {
    ommai_release(&writer->allocator, tensor.name, strlen(name) + 1, 1);
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "name", "%s: a tensor name must be UTF-8 text", writer->path);
  }
  writer->tensors[writer->n_tensors++] = tensor;
  return OMMA_OK;
}

enum omma_status ommai_safetensors_writer_data(struct ommai_safetensors_writer *writer, const char *name, const void *data,
                                               struct omma_error *error) {
  for (size_t i = 0; i < writer->n_tensors; i++) {
    if (strcmp(writer->tensors[i].name, name) == 0) {
      writer->tensors[i].data = data;
      return OMMA_OK;
    }
  }
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "name", "%s: tensor \"%.120s\" was not added", writer->path, name);
}

static int compare_pending(const void *a, const void *b) {
  const struct pending_tensor *left = a, *right = b;
  int left_bits = ommai_tensor_type_bits(left->type), right_bits = ommai_tensor_type_bits(right->type);
  if (left_bits != right_bits) return left_bits > right_bits ? -1 : 1;
  return strcmp(left->name, right->name);
}

/* The header object of the tensors in their order. */
static void put_header(const struct ommai_safetensors_writer *writer, struct ommai_text *out) {
  uint64_t offset = 0;
  ommai_put_begin(out, NULL, "{");
  if (json_object_size(writer->metadata) > 0) ommai_put_value(out, METADATA_KEY, writer->metadata, 0);
  for (size_t i = 0; i < writer->n_tensors; i++) {
    const struct pending_tensor *tensor = &writer->tensors[i];
    ommai_put_begin(out, tensor->name, "{");
    ommai_put_string(out, "dtype", ommai_tensor_type_name(tensor->type));
    ommai_put_begin(out, "shape", "[");
    for (int d = 0; d < tensor->n_dims; d++) ommai_put_integer(out, NULL, tensor->shape[d]);
    ommai_put_end(out, "]");
    ommai_put_begin(out, "data_offsets", "[");
    ommai_put_integer(out, NULL, (int64_t)offset);
    ommai_put_integer(out, NULL, (int64_t)(offset += tensor->size_bytes));
    ommai_put_end(out, "]}");
  }
  ommai_put_end(out, "}");
}

/* The bytes before the data: length field, JSON, and spaces up to a multiple of 8. */
static void put_head(const struct ommai_safetensors_writer *writer, struct ommai_text *out) {
  uint64_t length = 0;
  ommai_text_append(out, (const char *)&length, LENGTH_BYTES);
  put_header(writer, out);
  while (!out->failed && out->size % HEADER_ALIGNMENT) ommai_text_add(out, " ");
  length = out->size - LENGTH_BYTES;
  if (!out->failed) memcpy(out->data, &length, LENGTH_BYTES);
}

static enum omma_status write_file(const struct ommai_safetensors_writer *writer, const struct ommai_text *head,
                                   struct omma_error *error) {
  struct ommai_part_file file;
  OMMAI_TRY(ommai_part_file_create(&file, writer->path, error));
  enum omma_status status;
  OMMAI_TRY_GOTO(ommai_part_file_write(&file, head->data, head->size, error), failed);
  for (size_t i = 0; i < writer->n_tensors; i++) {
    OMMAI_TRY_GOTO(ommai_part_file_write(&file, writer->tensors[i].data, writer->tensors[i].size_bytes, error), failed);
  }
  return ommai_part_file_commit(&file, error);
failed:
  ommai_part_file_discard(&file);
  return status;
}

enum omma_status ommai_safetensors_writer_finish(struct ommai_safetensors_writer *writer, struct omma_error *error) {
  int64_t total = 0;
  for (size_t i = 0; i < writer->n_tensors; i++) {
    const struct pending_tensor *tensor = &writer->tensors[i];
    if (!tensor->data && tensor->size_bytes > 0) {
      return ommai_fail(error, OMMA_ERROR_ARGUMENT, "%s: tensor \"%.120s\" has no data", writer->path, tensor->name);
    }
    if (!ommai_add_i64(total, (int64_t)tensor->size_bytes, &total)) {
      return ommai_fail(error, OMMA_ERROR_ARGUMENT, "%s: the tensors are too large for one file", writer->path);
    }
  }
  if (writer->n_tensors > 0) qsort(writer->tensors, writer->n_tensors, sizeof *writer->tensors, compare_pending);
  struct ommai_text head = ommai_text_of(&writer->allocator);
  put_head(writer, &head);
  enum omma_status status =
      head.failed ? ommai_fail_memory(error, writer->path, head.capacity) : write_file(writer, &head, error);
  ommai_text_free(&head);
  return status;
}
