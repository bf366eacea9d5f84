#include "weights/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "weights/tensor_index.h"

#define LENGTH_BYTES 8
#define METADATA_KEY "__metadata__"
#define WHERE_SIZE 384 /* "path: tensor "name"", shortened where it is longer */

struct ommai_safetensors {
  struct omma_allocator allocator;
  char *path;
  struct ommai_file_map map;
  uint64_t data_start; /* of the data part, from the start of the file */
  uint64_t data_size;
  json_t *metadata; /* a JSON object, or NULL */
  int64_t n_tensors;
  struct ommai_tensor *tensors;       /* [n_tensors], by place in the file */
  const struct ommai_tensor **sorted; /* [n_tensors], by name */
  char *names;                        /* all names, each with its NUL */
  size_t names_size;
};

/* Writes `path: tensor "name"` into out; the end of an overlong name is cut. */
static void describe(char out[WHERE_SIZE], const struct ommai_safetensors *file, const char *name) {
  snprintf(out, WHERE_SIZE, "%.200s: tensor \"%.160s\"", file->path, name);
}

static bool starts_with(const struct ommai_file_map *map, const char *text) {
  size_t length = strlen(text);
  return map->size >= length && memcmp(map->data, text, length) == 0;
}

/* Finds the JSON header inside the map and the data part after it. */
static enum omma_status find_header(struct ommai_safetensors *file, size_t *header_size, struct omma_error *error) {
  size_t size = file->map.size;
  if (starts_with(&file->map, "version https://git-lfs")) {
    return ommai_fail(error, OMMA_ERROR_FORMAT, "%s: a Git LFS pointer, not the file itself: fetch it with git lfs pull",
                      file->path);
  }
  if (size < LENGTH_BYTES) {
    return ommai_fail(error, OMMA_ERROR_FORMAT, "%s: expected at least the 8 bytes of the header length, found %zu bytes",
                      file->path, size);
  }
  uint64_t length;
  memcpy(&length, file->map.data, sizeof length);
  if (length > size - LENGTH_BYTES) {
    return ommai_fail(error, OMMA_ERROR_FORMAT,
                      "%s: header length %" PRIu64 ", but only %zu bytes follow: truncated, or not a safetensors file",
                      file->path, length, size - LENGTH_BYTES);
  }
  if (length > OMMAI_SAFETENSORS_MAX_HEADER_BYTES) {
    return ommai_fail(error, OMMA_ERROR_LIMIT, "%s: header length %" PRIu64 ", more than the limit of %d bytes", file->path,
                      length, OMMAI_SAFETENSORS_MAX_HEADER_BYTES);
  }
  if (length == 0 || file->map.data[LENGTH_BYTES] != '{') {
    return ommai_fail(error, OMMA_ERROR_FORMAT, "%s: expected a header that starts with '{' at byte 8: not a safetensors file",
                      file->path);
  }
  *header_size = (size_t)length;
  file->data_start = LENGTH_BYTES + length;
  file->data_size = size - file->data_start;
  return OMMA_OK;
}

/* Keeps the __metadata__ object, whose values must all be strings. */
static enum omma_status read_metadata(struct ommai_safetensors *file, const json_t *header, struct omma_error *error) {
  json_t *metadata;
  OMMAI_TRY(ommai_json_object(header, file->path, METADATA_KEY, false, &metadata, error));
  if (!metadata) return OMMA_OK;
  char where[WHERE_SIZE];
  snprintf(where, sizeof where, "%.300s: " METADATA_KEY, file->path);
  const char *key;
  json_t *value;
  json_object_foreach(metadata, key, value) {
    const char *text;
    OMMAI_TRY(ommai_json_string(metadata, where, key, true, &text, error));
  }
  file->metadata = json_incref(metadata);
  return OMMA_OK;
}

/* Type and shape of one header entry, and the number of bytes they ask for. */
static enum omma_status read_shape(const json_t *entry, const char *where, struct ommai_tensor *tensor,
                                   struct omma_error *error) {
  const char *type_name;
  size_t n_dims = 0;
  OMMAI_TRY(ommai_json_string(entry, where, "dtype", true, &type_name, error));
  if (!ommai_tensor_type_parse(type_name, &tensor->type)) {
    return ommai_fail(error, OMMA_ERROR_FORMAT, "%s: unknown dtype \"%.40s\"", where, type_name);
  }
  json_t *shape;
  OMMAI_TRY(ommai_json_array(entry, where, "shape", true, &shape, error));
  OMMAI_TRY(
      ommai_json_integers(entry, where, "shape", true, 0, INT64_MAX, tensor->shape, OMMAI_TENSOR_MAX_DIMS, &n_dims, error));
  tensor->n_dims = (int)n_dims;
  if (!ommai_tensor_size(tensor->type, tensor->n_dims, tensor->shape, &tensor->n_elements, &tensor->size_bytes)) {
    char text[OMMAI_SHAPE_TEXT_SIZE];
    return ommai_fail(error, OMMA_ERROR_FORMAT, "%s: %s %s is too large or does not fill whole bytes", where, type_name,
                      ommai_shape_text(text, tensor->n_dims, tensor->shape));
  }
  return OMMA_OK;
}

/* The place of one header entry, which must lie in the data part and have the size that type and
 * shape ask for. */
static enum omma_status read_place(const struct ommai_safetensors *file, const json_t *entry, const char *where,
                                   struct ommai_tensor *tensor, struct omma_error *error) {
  int64_t offsets[2];
  size_t n_offsets = 0;
  OMMAI_TRY(ommai_json_integers(entry, where, "data_offsets", true, 0, INT64_MAX, offsets, 2, &n_offsets, error));
  if (n_offsets != 2 || offsets[0] > offsets[1]) {
    return ommai_fail(error, OMMA_ERROR_FORMAT, "%s: data_offsets must be [begin, end] with begin <= end", where);
  }
  uint64_t begin = (uint64_t)offsets[0], end = (uint64_t)offsets[1];
  if (end > file->data_size) {
    return ommai_fail(error, OMMA_ERROR_FORMAT,
                      "%s: data_offsets [%" PRIu64 ", %" PRIu64 "] exceed the %" PRIu64 " bytes of data: truncated file", where,
                      begin, end, file->data_size);
  }
  if (end - begin != tensor->size_bytes) {
    char text[OMMAI_SHAPE_TEXT_SIZE];
    return ommai_fail(error, OMMA_ERROR_FORMAT,
                      "%s: expected %" PRIu64 " bytes for %s %s, found %" PRIu64 " in data_offsets [%" PRIu64 ", %" PRIu64 "]",
                      where, tensor->size_bytes, ommai_tensor_type_name(tensor->type),
                      ommai_shape_text(text, tensor->n_dims, tensor->shape), end - begin, begin, end);
  }
  tensor->file_offset = file->data_start + begin;
  tensor->data = file->map.data + tensor->file_offset;
  tensor->file = file;
  return OMMA_OK;
}

static enum omma_status read_entry(const struct ommai_safetensors *file, const char *name, const json_t *entry,
                                   struct ommai_tensor *tensor, struct omma_error *error) {
  char where[WHERE_SIZE];
  describe(where, file, name);
  if (!json_is_object(entry)) return ommai_fail(error, OMMA_ERROR_FORMAT, "%s: expected a JSON object", where);
  OMMAI_TRY(read_shape(entry, where, tensor, error));
  return read_place(file, entry, where, tensor, error);
}

static enum omma_status allocate_tables(struct ommai_safetensors *file, json_t *header, struct omma_error *error) {
  const char *key;
  json_t *value;
  json_object_foreach(header, key, value) {
    if (strcmp(key, METADATA_KEY) == 0) continue;
    file->n_tensors++;
    file->names_size += strlen(key) + 1;
  }
  size_t count = (size_t)file->n_tensors;
  file->tensors = ommai_allocate(&file->allocator, count, sizeof *file->tensors);
  file->sorted = ommai_allocate(&file->allocator, count, sizeof *file->sorted);
  file->names = ommai_allocate(&file->allocator, file->names_size, 1);
  if (!file->tensors || !file->sorted || !file->names) {
    size_t size = count * (sizeof *file->tensors + sizeof *file->sorted) + file->names_size;
    ommai_fail_memory(error, "the table of tensors", size);
    ommai_error_prefix(error, "%s", file->path);
    return OMMA_ERROR_MEMORY;
  }
  return OMMA_OK;
}

static enum omma_status read_entries(struct ommai_safetensors *file, json_t *header, struct omma_error *error) {
  struct ommai_tensor *tensor = file->tensors;
  char *name = file->names;
  const char *key;
  json_t *value;
  json_object_foreach(header, key, value) {
    if (strcmp(key, METADATA_KEY) == 0) continue;
    size_t length = strlen(key) + 1;
    memcpy(name, key, length);
    tensor->name = name;
    OMMAI_TRY(read_entry(file, key, value, tensor, error));
    name += length;
    tensor++;
  }
  return OMMA_OK;
}

/* Empty tensors come before the tensor that starts at the same byte; names decide between several
 * of them. */
static int compare_places(const void *a, const void *b) {
  const struct ommai_tensor *left = a, *right = b;
  if (left->file_offset != right->file_offset) return left->file_offset < right->file_offset ? -1 : 1;
  if (left->size_bytes != right->size_bytes) return left->size_bytes < right->size_bytes ? -1 : 1;
  return strcmp(left->name, right->name);
}

/* The tensors, sorted by place, must cover the data part: each starts where the one before it
 * ends. */
static enum omma_status check_coverage(const struct ommai_safetensors *file, struct omma_error *error) {
  uint64_t end = file->data_start;
  for (int64_t i = 0; i < file->n_tensors; i++) {
    const struct ommai_tensor *tensor = &file->tensors[i];
    if (tensor->file_offset != end) {
      char where[WHERE_SIZE];
      describe(where, file, tensor->name);
      return ommai_fail(error, OMMA_ERROR_FORMAT,
                        "%s: %s: its data starts at %" PRIu64 ", expected %" PRIu64 ", the end of the tensor before it", where,
                        tensor->file_offset < end ? "overlap" : "hole", tensor->file_offset - file->data_start,
                        end - file->data_start);
    }
    end += tensor->size_bytes;
  }
  if (end != file->map.size) {
    return ommai_fail(error, OMMA_ERROR_FORMAT, "%s: the last %" PRIu64 " bytes belong to no tensor", file->path,
                      file->map.size - end);
  }
  return OMMA_OK;
}

static enum omma_status read_header(struct ommai_safetensors *file, struct omma_error *error) {
  size_t header_size = 0;
  OMMAI_TRY(find_header(file, &header_size, error));
  json_t *header;
  OMMAI_TRY(ommai_json_load(file->path, (const char *)file->map.data + LENGTH_BYTES, header_size, &header, error));
  enum omma_status status;
  OMMAI_TRY_GOTO(read_metadata(file, header, error), done);
  OMMAI_TRY_GOTO(allocate_tables(file, header, error), done);
  OMMAI_TRY_GOTO(read_entries(file, header, error), done);
  qsort(file->tensors, (size_t)file->n_tensors, sizeof *file->tensors, compare_places);
  OMMAI_TRY_GOTO(check_coverage(file, error), done);
  for (int64_t i = 0; i < file->n_tensors; i++) file->sorted[i] = &file->tensors[i];
  ommai_tensor_index_sort(file->sorted, file->n_tensors);
done:
  json_decref(header);
  return status;
}

enum omma_status ommai_safetensors_open(const char *path, const struct omma_allocator *allocator,
                                        struct ommai_safetensors **file, struct omma_error *error) {
  enum omma_status status;
  struct ommai_safetensors *self = ommai_allocate(allocator, 1, sizeof *self);
  if (!self) return ommai_fail_memory(error, path, sizeof *self);
  self->allocator = *allocator;
  self->path = ommai_duplicate(allocator, path, strlen(path));
  if (!self->path) {
    status = ommai_fail_memory(error, path, strlen(path) + 1);
    goto failed;
  }
  OMMAI_TRY_GOTO(ommai_file_map_open(path, &self->map, error), failed);
  OMMAI_TRY_GOTO(read_header(self, error), failed);
  *file = self;
  return OMMA_OK;
failed:
  ommai_safetensors_close(self);
  return status;
}

void ommai_safetensors_close(struct ommai_safetensors *file) {
  if (!file) return;
  struct omma_allocator allocator = file->allocator;
  ommai_release(&allocator, file->names, file->names_size, 1);
  ommai_release(&allocator, file->sorted, (size_t)file->n_tensors, sizeof *file->sorted);
  ommai_release(&allocator, file->tensors, (size_t)file->n_tensors, sizeof *file->tensors);
  json_decref(file->metadata);
  ommai_file_map_close(&file->map);
  if (file->path) ommai_release(&allocator, file->path, strlen(file->path) + 1, 1);
  ommai_release(&allocator, file, 1, sizeof *file);
}

const char *ommai_safetensors_path(const struct ommai_safetensors *file) { return file->path; }

int64_t ommai_safetensors_count(const struct ommai_safetensors *file) { return file->n_tensors; }

const struct ommai_tensor *ommai_safetensors_at(const struct ommai_safetensors *file, int64_t index) {
  return &file->tensors[index];
}

const struct ommai_tensor *ommai_safetensors_find(const struct ommai_safetensors *file, const char *name) {
  return ommai_tensor_index_find(file->sorted, file->n_tensors, name);
}

const char *ommai_safetensors_metadata(const struct ommai_safetensors *file, const char *key) {
  return json_string_value(json_object_get(file->metadata, key));
}

void ommai_safetensors_release(const struct ommai_tensor *tensor) {
  ommai_file_map_release_pages(&tensor->file->map, (size_t)tensor->file_offset, (size_t)tensor->size_bytes);
}
