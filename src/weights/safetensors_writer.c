#include "weights/safetensors_writer.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
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

/* {"dtype", "shape", "data_offsets"} of one tensor; NULL when memory is out. */
static json_t *make_entry(const struct pending_tensor *tensor, uint64_t begin) {
  json_t *shape = json_array();
  for (int i = 0; i < tensor->n_dims; i++) {
    if (json_array_append_new(shape, json_integer(tensor->shape[i])) != 0) {
      json_decref(shape);
      return NULL;
    }
  }
  return json_pack("{s:s, s:o, s:[I, I]}", "dtype", ommai_tensor_type_name(tensor->type), "shape", shape, "data_offsets",
                   (json_int_t)begin, (json_int_t)(begin + tensor->size_bytes));
}

/* The header object of the tensors in their order; NULL when memory is out. */
static json_t *make_header(const struct ommai_safetensors_writer *writer) {
  json_t *header = json_object();
  if (json_object_size(writer->metadata) > 0 && json_object_set(header, METADATA_KEY, writer->metadata) != 0) goto failed;
  uint64_t begin = 0;
  for (size_t i = 0; i < writer->n_tensors; i++) {
    const struct pending_tensor *tensor = &writer->tensors[i];
    if (json_object_set_new(header, tensor->name, make_entry(tensor, begin)) != 0) goto failed;
    begin += tensor->size_bytes;
  }
  return header;
failed:
  json_decref(header);
  return NULL;
}

/* The bytes before the data: length field, JSON, and spaces up to a multiple of 8. Release with
 * (*size, 1). */
static enum omma_status encode_header(const struct ommai_safetensors_writer *writer, unsigned char **bytes, size_t *size,
                                      struct omma_error *error) {
  json_t *header = make_header(writer);
  size_t text_size = header ? json_dumpb(header, NULL, 0, JSON_COMPACT) : 0;
  if (text_size == 0) {
    json_decref(header);
    return ommai_fail(error, OMMA_ERROR_MEMORY, "%s: out of memory for the JSON header", writer->path);
  }
  uint64_t length = (uint64_t)ommai_round_up((int64_t)text_size, HEADER_ALIGNMENT);
  *size = LENGTH_BYTES + (size_t)length;
  *bytes = ommai_allocate(&writer->allocator, *size, 1);
  if (*bytes) {
    memset(*bytes, ' ', *size);
    memcpy(*bytes, &length, sizeof length);
    if (json_dumpb(header, (char *)*bytes + LENGTH_BYTES, text_size, JSON_COMPACT) != text_size) {
      ommai_release(&writer->allocator, *bytes, *size, 1);
      *bytes = NULL;
    }
  }
  json_decref(header);
  return *bytes ? OMMA_OK : ommai_fail_memory(error, writer->path, *size);
}

static enum omma_status write_file(const struct ommai_safetensors_writer *writer, const unsigned char *header,
                                   size_t header_size, struct omma_error *error) {
  struct ommai_part_file file;
  OMMAI_TRY(ommai_part_file_create(&file, writer->path, error));
  enum omma_status status;
  OMMAI_TRY_GOTO(ommai_part_file_write(&file, header, header_size, error), failed);
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
  unsigned char *header;
  size_t header_size = 0;
  OMMAI_TRY(encode_header(writer, &header, &header_size, error));
  enum omma_status status = write_file(writer, header, header_size, error);
  ommai_release(&writer->allocator, header, header_size, 1);
  return status;
}
