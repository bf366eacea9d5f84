#include "weights/checkpoint.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "weights/gguf.h"
#include "weights/safetensors.h"
#include "weights/tensor_index.h"

struct ommai_checkpoint {
  struct omma_allocator allocator;
  char *directory;
  size_t n_files;
  struct ommai_safetensors **files; /* [n_files] */
  int64_t n_tensors;
  int64_t sorted_capacity;
  /* [sorted_capacity], of which n_tensors are in use, by name */
  const struct ommai_tensor **sorted;
  struct ommai_stored_layers *layers; /* NULL where none were looked for */
  uint64_t total_bytes;
};

static enum omma_status join(const struct ommai_checkpoint *self, const char *name, char path[PATH_MAX],
                             struct omma_error *error) {
  if (ommai_path_join(path, PATH_MAX, self->directory, name)) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_IO, "%.200s: the path to \"%.200s\" is too long", self->directory, name);
}

static enum omma_status fail_memory(const struct ommai_checkpoint *self, const char *what, size_t size,
                                    struct omma_error *error) {
  ommai_fail_memory(error, what, size);
  ommai_error_prefix(error, "%s", self->directory);
  return OMMA_ERROR_MEMORY;
}

static enum omma_status allocate_files(struct ommai_checkpoint *self, size_t n_files, struct omma_error *error) {
  self->files = ommai_allocate(&self->allocator, n_files, sizeof *self->files);
  if (!self->files) return fail_memory(self, "the list of shards", n_files * sizeof *self->files, error);
  self->n_files = n_files;
  return OMMA_OK;
}

static enum omma_status open_single(struct ommai_checkpoint *self, const char *path, struct omma_error *error) {
  OMMAI_TRY(allocate_files(self, 1, error));
  return ommai_safetensors_open(path, &self->allocator, &self->files[0], error);
}

/* A name that cannot lead out of the directory. */
static bool is_plain_file_name(const char *name) {
  return name[0] != '\0' && strcmp(name, ".") != 0 && !strstr(name, "..") && !strpbrk(name, "/\\");
}

static int compare_strings(const void *a, const void *b) {
  const char *const *left = a;
  const char *const *right = b;
  return strcmp(*left, *right);
}

/* The file names of the weight map into shards[n entries of the map], sorted, each once. */
static enum omma_status collect_shards(const char *index_path, json_t *weight_map, const char **shards, size_t *n_shards,
                                       struct omma_error *error) {
  size_t n_names = 0, n_unique = 0;
  const char *tensor_name;
  json_t *value;
  json_object_foreach(weight_map, tensor_name, value) {
    const char *shard = json_string_value(value);
    if (!shard || !is_plain_file_name(shard)) {
      return ommai_fail(error, OMMA_ERROR_FORMAT,
                        "%s: weight_map: tensor \"%.120s\": expected a plain file name, found %s%.120s%s", index_path,
                        tensor_name, shard ? "\"" : "", shard ? shard : "another type", shard ? "\"" : "");
    }
    shards[n_names++] = shard;
  }
  qsort(shards, n_names, sizeof *shards, compare_strings);
  for (size_t i = 0; i < n_names; i++) {
    if (n_unique == 0 || strcmp(shards[n_unique - 1], shards[i]) != 0) shards[n_unique++] = shards[i];
  }
  if (n_unique > OMMAI_CHECKPOINT_MAX_SHARDS) {
    return ommai_fail(error, OMMA_ERROR_LIMIT, "%s: %zu shards, more than the limit of %d", index_path, n_unique,
                      OMMAI_CHECKPOINT_MAX_SHARDS);
  }
  *n_shards = n_unique;
  return OMMA_OK;
}

static enum omma_status open_shards(struct ommai_checkpoint *self, const char *index_path, const char *const *shards,
                                    size_t n_shards, struct omma_error *error) {
  OMMAI_TRY(allocate_files(self, n_shards, error));
  for (size_t i = 0; i < n_shards; i++) {
    char path[PATH_MAX];
    OMMAI_TRY(join(self, shards[i], path, error));
    if (!ommai_file_exists(path)) {
      return ommai_fail(error, OMMA_ERROR_IO, "%s: shard \"%.120s\" is missing from the directory", index_path, shards[i]);
    }
    OMMAI_TRY(ommai_safetensors_open(path, &self->allocator, &self->files[i], error));
  }
  return OMMA_OK;
}

/* Each tensor of the map must be in its shard. `shards` has the order of self->files. */
static enum omma_status check_listed(const struct ommai_checkpoint *self, const char *index_path, json_t *weight_map,
                                     const char *const *shards, struct omma_error *error) {
  const char *tensor_name;
  json_t *value;
  json_object_foreach(weight_map, tensor_name, value) {
    const char *shard = json_string_value(value);
    const char *const *found = bsearch(&shard, shards, self->n_files, sizeof *shards, compare_strings);
    if (!ommai_safetensors_find(self->files[found - shards], tensor_name)) {
      return ommai_fail(error, OMMA_ERROR_FORMAT, "%s: tensor \"%.120s\" is listed for shard \"%.120s\", which lacks it",
                        index_path, tensor_name, shard);
    }
  }
  return OMMA_OK;
}

static enum omma_status open_sharded(struct ommai_checkpoint *self, const char *index_path, struct omma_error *error) {
  json_t *index, *weight_map;
  const char **shards = NULL;
  size_t n_names = 0, n_shards = 0;
  OMMAI_TRY(ommai_json_load_file(index_path, OMMAI_CHECKPOINT_MAX_INDEX_BYTES, &self->allocator, &index, error));
  enum omma_status status;
  OMMAI_TRY_GOTO(ommai_json_object(index, index_path, "weight_map", true, &weight_map, error), done);
  n_names = json_object_size(weight_map);
  shards = ommai_allocate(&self->allocator, n_names, sizeof *shards);
  if (!shards) {
    status = fail_memory(self, "the list of shards", n_names * sizeof *shards, error);
    goto done;
  }
  OMMAI_TRY_GOTO(collect_shards(index_path, weight_map, shards, &n_shards, error), done);
  OMMAI_TRY_GOTO(open_shards(self, index_path, shards, n_shards, error), done);
  OMMAI_TRY_GOTO(check_listed(self, index_path, weight_map, shards, error), done);
done:
  ommai_release(&self->allocator, shards, n_names, sizeof *shards);
  json_decref(index);
  return status;
}

static enum omma_status open_files(struct ommai_checkpoint *self, struct omma_error *error) {
  char path[PATH_MAX];
  bool found;
  OMMAI_TRY(join(self, OMMAI_CHECKPOINT_INDEX, path, error)); /* the longer name */
  OMMAI_TRY(ommai_file_find(path, sizeof path, self->directory, OMMAI_CHECKPOINT_FILE, &found, error));
  if (found) return open_single(self, path, error);
  OMMAI_TRY(ommai_file_find(path, sizeof path, self->directory, OMMAI_CHECKPOINT_INDEX, &found, error));
  if (found) return open_sharded(self, path, error);
  return ommai_fail(error, OMMA_ERROR_IO, "%s: found neither %s nor %s", self->directory, OMMAI_CHECKPOINT_FILE,
                    OMMAI_CHECKPOINT_INDEX);
}

/* The file that a tensor lies in, for messages. */
static const char *file_path(const struct ommai_checkpoint *self, const struct ommai_tensor *tensor) {
  if (tensor->file) return ommai_safetensors_path(tensor->file);
  return tensor->gguf ? ommai_gguf_path(tensor->gguf) : self->directory;
}

static enum omma_status allocate_index(struct ommai_checkpoint *self, int64_t n_tensors, struct omma_error *error) {
  self->sorted = ommai_allocate(&self->allocator, (size_t)n_tensors, sizeof *self->sorted);
  if (!self->sorted) return fail_memory(self, "the table of tensors", (size_t)n_tensors * sizeof *self->sorted, error);
  self->n_tensors = self->sorted_capacity = n_tensors;
  return OMMA_OK;
}

/* A name that is there twice is refused. */
static enum omma_status sort_index(struct ommai_checkpoint *self, struct omma_error *error) {
  ommai_tensor_index_sort(self->sorted, self->n_tensors);
  int64_t twice = ommai_tensor_index_duplicate(self->sorted, self->n_tensors);
  if (twice < 0) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_FORMAT, "tensor \"%.120s\" lies in two shards: %.160s and %.160s",
                    self->sorted[twice]->name, file_path(self, self->sorted[twice]), file_path(self, self->sorted[twice + 1]));
}

/* One index over the tensors of all files. */
static enum omma_status index_tensors(struct ommai_checkpoint *self, struct omma_error *error) {
  int64_t n_tensors = 0, n = 0;
  for (size_t i = 0; i < self->n_files; i++) n_tensors += ommai_safetensors_count(self->files[i]);
  OMMAI_TRY(allocate_index(self, n_tensors, error));
  for (size_t i = 0; i < self->n_files; i++) {
    for (int64_t k = 0; k < ommai_safetensors_count(self->files[i]); k++) {
      self->sorted[n] = ommai_safetensors_at(self->files[i], k);
      self->total_bytes += self->sorted[n++]->size_bytes;
    }
  }
  return sort_index(self, error);
}

static enum omma_status create(const char *name, const struct omma_allocator *allocator, struct ommai_checkpoint **out,
                               struct omma_error *error) {
  struct ommai_checkpoint *self = ommai_allocate(allocator, 1, sizeof *self);
  if (!self) return ommai_fail_memory(error, name, sizeof *self);
  self->allocator = *allocator;
  self->directory = ommai_duplicate(allocator, name, strlen(name));
  *out = self;
  if (self->directory) return OMMA_OK;
  ommai_checkpoint_close(self);
  return ommai_fail_memory(error, name, strlen(name) + 1);
}

enum omma_status ommai_checkpoint_gather(const char *name, const struct ommai_tensor *tensors, int64_t n_tensors,
                                         const struct omma_allocator *allocator, struct ommai_checkpoint **checkpoint,
                                         struct omma_error *error) {
  enum omma_status status;
  struct ommai_checkpoint *self;
  OMMAI_TRY(create(name, allocator, &self, error));
  OMMAI_TRY_GOTO(allocate_index(self, n_tensors, error), failed);
  for (int64_t i = 0; i < n_tensors; i++) {
    self->sorted[i] = &tensors[i];
    self->total_bytes += tensors[i].size_bytes;
  }
  OMMAI_TRY_GOTO(sort_index(self, error), failed);
  *checkpoint = self;
  return OMMA_OK;
failed:
  ommai_checkpoint_close(self);
  return status;
}

enum omma_status ommai_checkpoint_open(const char *directory, const struct omma_allocator *allocator,
                                       struct ommai_checkpoint **checkpoint, struct omma_error *error) {
  enum omma_status status;
  struct ommai_checkpoint *self;
  OMMAI_TRY(create(directory, allocator, &self, error));
  OMMAI_TRY_GOTO(open_files(self, error), failed);
  OMMAI_TRY_GOTO(index_tensors(self, error), failed);
  *checkpoint = self;
  return OMMA_OK;
failed:
  ommai_checkpoint_close(self);
  return status;
}

/* Keeps the tensors that are not of quantised layers and adds those that stand for layers, of which
 * each has a part at least. */
static void list_layers(struct ommai_checkpoint *self, const bool *used) {
  int64_t n = 0;
  for (int64_t i = 0; i < self->n_tensors; i++) {
    if (!used[i]) self->sorted[n++] = self->sorted[i];
  }
  for (int64_t i = 0; i < ommai_stored_layers_count(self->layers); i++) {
    self->sorted[n++] = ommai_stored_layers_at(self->layers, i);
  }
  self->n_tensors = n;
  ommai_tensor_index_sort(self->sorted, n);
}

enum omma_status ommai_checkpoint_read_quantised(struct ommai_checkpoint *checkpoint, ommai_storage_lookup lookup,
                                                 void *context, struct omma_error *error) {
  size_t count = (size_t)checkpoint->n_tensors;
  bool *used = ommai_allocate(&checkpoint->allocator, count, sizeof *used);
  if (!used) return fail_memory(checkpoint, "the table of quantised layers", count, error);
  enum omma_status status = ommai_stored_layers_create(checkpoint->sorted, checkpoint->n_tensors, used, lookup, context,
                                                       &checkpoint->allocator, &checkpoint->layers, error);
  if (status == OMMA_OK) list_layers(checkpoint, used);
  ommai_release(&checkpoint->allocator, used, count, sizeof *used);
  return status;
}

void ommai_checkpoint_close(struct ommai_checkpoint *checkpoint) {
  if (!checkpoint) return;
  struct omma_allocator allocator = checkpoint->allocator;
  ommai_stored_layers_destroy(checkpoint->layers);
  ommai_release(&allocator, checkpoint->sorted, (size_t)checkpoint->sorted_capacity, sizeof *checkpoint->sorted);
  for (size_t i = 0; i < checkpoint->n_files; i++) ommai_safetensors_close(checkpoint->files[i]);
  ommai_release(&allocator, checkpoint->files, checkpoint->n_files, sizeof *checkpoint->files);
  if (checkpoint->directory) ommai_release(&allocator, checkpoint->directory, strlen(checkpoint->directory) + 1, 1);
  ommai_release(&allocator, checkpoint, 1, sizeof *checkpoint);
}

const char *ommai_checkpoint_directory(const struct ommai_checkpoint *checkpoint) { return checkpoint->directory; }

int64_t ommai_checkpoint_count(const struct ommai_checkpoint *checkpoint) { return checkpoint->n_tensors; }

const struct ommai_tensor *ommai_checkpoint_at(const struct ommai_checkpoint *checkpoint, int64_t index) {
  return checkpoint->sorted[index];
}

uint64_t ommai_checkpoint_total_bytes(const struct ommai_checkpoint *checkpoint) { return checkpoint->total_bytes; }

int64_t ommai_checkpoint_position(const struct ommai_checkpoint *checkpoint, const char *name) {
  return ommai_tensor_index_position(checkpoint->sorted, checkpoint->n_tensors, name);
}

const struct ommai_tensor *ommai_checkpoint_find(const struct ommai_checkpoint *checkpoint, const char *name) {
  return ommai_tensor_index_find(checkpoint->sorted, checkpoint->n_tensors, name);
}

static enum omma_status fail_missing(const struct ommai_checkpoint *checkpoint, const char *name, struct omma_error *error) {
  const struct ommai_tensor *nearest = ommai_tensor_index_nearest(checkpoint->sorted, checkpoint->n_tensors, name);
  if (!nearest) {
    return ommai_fail(error, OMMA_ERROR_FORMAT, "%.200s: tensor \"%.120s\" is missing (there are %lld others)",
                      checkpoint->directory, name, (long long)checkpoint->n_tensors);
  }
  return ommai_fail(error, OMMA_ERROR_FORMAT, "%.200s: tensor \"%.120s\" is missing; the most similar is \"%.120s\"",
                    checkpoint->directory, name, nearest->name);
}

static bool is_weight_type(enum ommai_tensor_type type) {
  return type == OMMAI_TENSOR_F32 || type == OMMAI_TENSOR_BF16 || type == OMMAI_TENSOR_F16 || type == OMMAI_TENSOR_QUANTISED;
}

enum omma_status ommai_checkpoint_require(const struct ommai_checkpoint *checkpoint, const char *name, int n_dims,
                                          const int64_t *shape, const struct ommai_tensor **tensor, struct omma_error *error) {
  const struct ommai_tensor *found = ommai_checkpoint_find(checkpoint, name);
  if (!found) return fail_missing(checkpoint, name, error);
  const char *path = file_path(checkpoint, found);
  if (!ommai_tensor_has_shape(found, n_dims, shape)) {
    char expected_text[OMMAI_SHAPE_TEXT_SIZE], found_text[OMMAI_SHAPE_TEXT_SIZE];
    return ommai_fail(error, OMMA_ERROR_FORMAT, "%.200s: tensor \"%.120s\": expected shape %s, found %s", path, name,
                      ommai_shape_text(expected_text, n_dims, shape),
                      ommai_shape_text(found_text, found->n_dims, found->shape));
  }
  if (!is_weight_type(found->type)) {
    return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "%.200s: tensor \"%.120s\": expected type F32, BF16 or F16, found %s",
                      path, name, ommai_tensor_type_name(found->type));
  }
  *tensor = found;
  return OMMA_OK;
}

void ommai_checkpoint_release(const struct ommai_checkpoint *checkpoint, const struct ommai_tensor *tensor) {
  (void)checkpoint;
  if (tensor->file) ommai_safetensors_release(tensor);
  if (tensor->gguf) ommai_gguf_release(tensor->gguf, tensor->file_offset, tensor->size_bytes);
}
