#include "families/gguf_names.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"

#define PATCH "v.patch_embd.weight"
#define SECOND_PATCH "v.patch_embd.weight.1"
#define FUSED "_gate_up_exps."

enum { NAME_SIZE = OMMAI_GGUF_MAX_NAME + 64 };

/* Latent keys and values, from two tensors. */
struct keys_values {
  struct ommai_gguf_rows keys, values; /* [heads * rank][n_keys], [heads * n_values][rank] */
  int64_t n_keys, n_values, rank;
};

struct ommai_gguf_tensors {
  struct omma_allocator allocator;
  int64_t capacity, n;
  struct ommai_tensor *tensors;       /* [capacity] */
  struct ommai_gguf_rows *rows;       /* [capacity], of those that are QUANTISED */
  struct ommai_stored_matrix *stored; /* likewise */
  struct keys_values *pairs;          /* [n_pairs] */
  struct ommai_gguf_view *views;      /* [capacity], of those in another order */
  char (*names)[NAME_SIZE];           /* [capacity] */
  int64_t pair_capacity, n_pairs;
  int64_t n_mergers, merger_layers[OMMAI_VISION_MAX_DEPTH];
  unsigned char *patch; /* the patch embedding, joined; NULL: it is in one piece */
  size_t patch_size;
};

/* ---- names ---- */

/* Whether `stem` is the pattern, with a number for '#'. */
static bool matches(const char *pattern, const char *stem, size_t size, int64_t *number) {
  size_t at = 0;
  for (; *pattern; pattern++) {
    if (*pattern != '#') {
      if (at >= size || stem[at++] != *pattern) return false;
      continue;
    }
    size_t begin = at;
    for (*number = 0; at < size && at - begin < 6 && stem[at] >= '0' && stem[at] <= '9'; at++) {
      *number = *number * 10 + (stem[at] - '0');
    }
    if (at == begin) return false;
  }
  return at == size;
}

static const struct ommai_gguf_name *find_name(const struct ommai_gguf_name *names, const char *stem, size_t size,
                                               int64_t *number) {
  for (; names->file; names++) {
    if (matches(names->file, stem, size, number)) return names;
  }
  return NULL;
}

/* `pattern` with the numbers, and `end` after it. */
static void write_name(char out[NAME_SIZE], const char *pattern, int64_t number, int64_t expert, const char *end) {
  size_t used = 0;
  for (; *pattern && used < NAME_SIZE; pattern++) {
    if (*pattern == '#' || *pattern == '*') {
      used += (size_t)snprintf(out + used, NAME_SIZE - used, "%lld", (long long)(*pattern == '#' ? number : expert));
    } else {
      out[used++] = *pattern;
    }
  }
  if (used < NAME_SIZE) snprintf(out + used, NAME_SIZE - used, "%s", end);
}

/* ---- one tensor ---- */

/* One tensor that is about to be shown. */
struct source {
  const struct ommai_gguf *file;
  const struct ommai_gguf_tensor *tensor;
  const struct ommai_gguf_heads *heads; /* of the language model or of the tower */
};

static enum omma_status fail(const struct source *source, const char *what, struct omma_error *error) {
  return ommai_fail(error, OMMA_ERROR_FORMAT, "%.300s: tensor \"%.160s\": %s", ommai_gguf_path(source->file),
                    source->tensor->name, what);
}

static enum omma_status fail_vector(const struct source *source, struct omma_error *error) {
  return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "%.300s: tensor \"%.160s\": a vector of type %s: expected F32, F16 or BF16",
                    ommai_gguf_path(source->file), source->tensor->name, source->tensor->format->name);
}

/* The next free entry, for a part of `source` that begins at row `first_row` and has the shape; its
 * name is written by the caller. */
static enum omma_status add(struct ommai_gguf_tensors *self, const struct source *source, int64_t first_row, int n_dims,
                            const int64_t *shape, struct omma_error *error) {
  const struct ommai_gguf_tensor *from = source->tensor;
  int64_t at = self->n, row_bytes = shape[n_dims - 1] / from->format->block_size * from->format->block_bytes, n_rows = 1;
  for (int i = 0; i < n_dims - 1; i++) n_rows *= shape[i];
  struct ommai_tensor *tensor = &self->tensors[at];
  *tensor = (struct ommai_tensor){.name = self->names[at],
                                  .type = from->format->plain,
                                  .n_dims = n_dims,
                                  .n_elements = n_rows * shape[n_dims - 1],
                                  .data = from->data + first_row * row_bytes,
                                  .size_bytes = (uint64_t)(n_rows * row_bytes),
                                  .file_offset = from->file_offset + (uint64_t)(first_row * row_bytes),
                                  .gguf = source->file};
  memcpy(tensor->shape, shape, (size_t)n_dims * sizeof *shape);
  self->n++;
  if (tensor->type != OMMAI_TENSOR_QUANTISED) return OMMA_OK;
  if (n_dims == 1) return fail_vector(source, error);
  self->rows[at] = (struct ommai_gguf_rows){from->format, tensor->data, shape[n_dims - 1]};
  self->stored[at] = ommai_gguf_stored_matrix(&self->rows[at]);
  tensor->stored = &self->stored[at];
  return OMMA_OK;
}

static enum omma_status add_experts(struct ommai_gguf_tensors *self, const struct source *source,
                                    const struct ommai_gguf_name *name, int64_t number, const char *end,
                                    struct omma_error *error) {
  const struct ommai_gguf_tensor *from = source->tensor;
  if (from->n_dims != 3) return fail(source, "expected 3 dimensions, the experts first", error);
  int64_t n_parts = name->second ? 2 : 1, rows = from->shape[1] / n_parts;
  if (from->shape[1] % n_parts) return fail(source, "expected an even number of rows for each expert", error);
  for (int64_t part = 0; part < n_parts * from->shape[0]; part++) {
    write_name(self->names[self->n], part % n_parts ? name->second : name->shown, number, part / n_parts, end);
    OMMAI_TRY(add(self, source, part * rows, 2, (const int64_t[2]){rows, from->shape[2]}, error));
  }
  return OMMA_OK;
}

static enum omma_status add_grid(struct ommai_gguf_tensors *self, const struct source *source, struct omma_error *error) {
  const struct ommai_gguf_tensor *from = source->tensor;
  int64_t side = (int64_t)lround(sqrt((double)from->shape[0]));
  if (from->n_dims != 2 || side * side != from->shape[0]) return fail(source, "expected rows for a square of positions", error);
  return add(self, source, 0, 3, (const int64_t[3]){side, side, from->shape[1]}, error);
}

int64_t ommai_gguf_merger_layers(const struct ommai_gguf *mmproj, int64_t layers[OMMAI_VISION_MAX_DEPTH]) {
  int64_t n = 0;
  for (int64_t layer = 0; layer < OMMAI_VISION_MAX_DEPTH; layer++) {
    char name[NAME_SIZE];
    write_name(name, "v.deepstack.#.norm", layer, 0, ".weight");
    if (ommai_gguf_find(mmproj, name)) layers[n++] = layer;
  }
  return n;
}

/* The number of a layer's merger; of other layers one that no config asks for. */
static int64_t merger_of(const struct ommai_gguf_tensors *self, int64_t layer) {
  int64_t i = 0;
  while (i < self->n_mergers && self->merger_layers[i] != layer) i++;
  return i < self->n_mergers ? i : OMMAI_VISION_MAX_DEPTH + layer;
}

/* ---- keys and values ---- */

static void keys_values_row(const void *context, int64_t output, int64_t first, int64_t n, float *out) {
  const struct keys_values *pair = context;
  int64_t head = output / (pair->n_keys + pair->n_values), row = output % (pair->n_keys + pair->n_values);
  if (row >= pair->n_keys) {
    ommai_gguf_row_values(&pair->values, head * pair->n_values + row - pair->n_keys, first, n, out);
    return;
  }
  for (int64_t i = 0; i < n; i++) ommai_gguf_row_values(&pair->keys, head * pair->rank + first + i, row, 1, out + i);
}

/* Shown under the keys' tensor; the values' one is looked for next to it. */
static enum omma_status add_keys_values(struct ommai_gguf_tensors *self, const struct ommai_gguf_files *files,
                                        const struct source *source, int64_t number, struct omma_error *error) {
  const struct ommai_gguf_tensor *keys = source->tensor;
  char name[NAME_SIZE];
  write_name(name, "blk.#.attn_v_b.weight", number, 0, "");
  const struct ommai_gguf_tensor *values = ommai_gguf_files_find(files, name);
  if (keys->n_dims != 3 || !values || values->n_dims != 3 || values->shape[0] != keys->shape[0] ||
      values->shape[2] != keys->shape[1]) {
    return fail(source, "expected [heads, rank, keys], and attn_v_b next to it with [heads, values, rank]", error);
  }
  struct keys_values *pair = &self->pairs[self->n_pairs++];
  *pair = (struct keys_values){{keys->format, keys->data, keys->shape[2]},
                               {values->format, values->data, values->shape[2]},
                               keys->shape[2],
                               values->shape[1],
                               keys->shape[1]};
  int64_t at = self->n++;
  self->stored[at] = (struct ommai_stored_matrix){.context = pair, .values = keys_values_row};
  self->tensors[at] = (struct ommai_tensor){.name = self->names[at],
                                            .type = OMMAI_TENSOR_QUANTISED,
                                            .n_dims = 2,
                                            .shape = {keys->shape[0] * (pair->n_keys + pair->n_values), pair->rank},
                                            .n_elements = keys->n_elements + values->n_elements,
                                            .data = keys->data,
                                            .size_bytes = keys->size_bytes,
                                            .file_offset = keys->file_offset,
                                            .gguf = source->file,
                                            .stored = &self->stored[at]};
  return OMMA_OK;
}

/* ---- tensors in another order ---- */

/* Values as the checkpoint has them, where the file has them otherwise. */
static enum omma_status add_view(struct ommai_gguf_tensors *self, const struct source *source, enum ommai_gguf_showing showing,
                                 struct omma_error *error) {
  const struct ommai_gguf_tensor *from = source->tensor;
  int64_t at = self->n, shape[OMMAI_TENSOR_MAX_DIMS] = {from->shape[0], from->shape[1]};
  int n_dims = from->n_dims;
  bool changes;
  if (n_dims > 2 || !ommai_gguf_view_make(source->heads, from, showing, &self->views[at], &changes)) {
    return fail(source, "its shape does not go together with the sizes of heads", error);
  }
  if (n_dims == 1 && from->format->plain == OMMAI_TENSOR_QUANTISED) return fail_vector(source, error);
  if (showing == OMMAI_GGUF_CONVOLUTION) {
    n_dims = 3;
    shape[2] = shape[1];
    shape[1] = 1;
  }
  OMMAI_TRY(add(self, source, 0, n_dims, shape, error));
  if (!changes) return OMMA_OK;
  self->stored[at] = ommai_gguf_view_stored(&self->views[at]);
  self->tensors[at].type = OMMAI_TENSOR_QUANTISED;
  self->tensors[at].stored = &self->stored[at];
  return OMMA_OK;
}

/* ---- the patch embedding ---- */

/* Two convolutions [h, c, p, p], one for each image of a pair, as one [h, c, 2, p, p]. */
static enum omma_status add_patches(struct ommai_gguf_tensors *self, const struct source *source,
                                    const struct ommai_gguf_tensor *second, struct omma_error *error) {
  const struct ommai_gguf_tensor *first = source->tensor;
  if (first->n_dims != 4 || second->n_dims != 4 || memcmp(first->shape, second->shape, sizeof first->shape) != 0 ||
      first->type != second->type || first->format->plain == OMMAI_TENSOR_QUANTISED) {
    return fail(source, "expected 4 dimensions of F32, F16 or BF16, and the same of " SECOND_PATCH, error);
  }
  size_t plane = (size_t)(first->shape[2] * first->shape[3] * first->format->block_bytes);
  self->patch_size = 2 * (size_t)first->size_bytes;
  self->patch = ommai_allocate_uninitialised(&self->allocator, self->patch_size, 1);
  if (!self->patch) return ommai_fail_memory(error, PATCH, self->patch_size);
  for (size_t from = 0; from < first->size_bytes; from += plane) {
    memcpy(self->patch + 2 * from, first->data + from, plane);
    memcpy(self->patch + 2 * from + plane, second->data + from, plane);
  }
  self->tensors[self->n] =
      (struct ommai_tensor){.name = self->names[self->n],
                            .type = first->format->plain,
                            .n_dims = 5,
                            .shape = {first->shape[0], first->shape[1], 2, first->shape[2], first->shape[3]},
                            .n_elements = 2 * first->n_elements,
                            .data = self->patch,
                            .size_bytes = self->patch_size};
  self->n++;
  return OMMA_OK;
}

/* ---- all of a file ---- */

static enum omma_status add_tensor(struct ommai_gguf_tensors *self, const struct ommai_gguf_files *files,
                                   const struct source *source, const struct ommai_gguf_name *names, struct omma_error *error) {
  const struct ommai_gguf_tensor *from = source->tensor, *second = ommai_gguf_find(source->file, SECOND_PATCH);
  int64_t number = 0;
  const char *end = strrchr(from->name, '.');
  if (second == from && ommai_gguf_find(source->file, PATCH)) return OMMA_OK;
  const struct ommai_gguf_name *name = end ? find_name(names, from->name, (size_t)(end - from->name), &number) : NULL;
  if (!name) {
    end = "";
    name = find_name(names, from->name, strlen(from->name), &number);
  }
  char *shown = self->names[self->n];
  if (!name) {
    snprintf(shown, NAME_SIZE, "%s", from->name);
    return add(self, source, 0, from->n_dims, from->shape, error);
  }
  if (!name->shown) return OMMA_OK;
  if (name->showing == OMMAI_GGUF_EXPERTS || name->showing == OMMAI_GGUF_FUSED_EXPERTS) {
    return add_experts(self, source, name, number, end, error);
  }
  if (name->showing == OMMAI_GGUF_MERGER) number = merger_of(self, number);
  write_name(shown, name->shown, number, 0, end);
  if (name->showing == OMMAI_GGUF_GRID) return add_grid(self, source, error);
  if (name->showing == OMMAI_GGUF_KEYS_VALUES) return add_keys_values(self, files, source, number, error);
  if (name->showing >= OMMAI_GGUF_NORM) return add_view(self, source, name->showing, error);
  if (second && strcmp(from->name, PATCH) == 0) return add_patches(self, source, second, error);
  return add(self, source, 0, from->n_dims, from->shape, error);
}

static enum omma_status add_file(struct ommai_gguf_tensors *self, const struct ommai_gguf_files *files,
                                 const struct ommai_gguf *file, const struct ommai_gguf_heads *heads,
                                 const struct ommai_gguf_name *names, struct omma_error *error) {
  for (int64_t i = 0; i < ommai_gguf_count(file); i++) {
    const struct source source = {file, ommai_gguf_at(file, i), heads};
    OMMAI_TRY(add_tensor(self, files, &source, names, error));
  }
  return OMMA_OK;
}

/* Room for every tensor of a file, for every matrix of those with three dimensions, and for their
 * pairs. */
static enum omma_status count_file(struct ommai_gguf_tensors *self, const struct ommai_gguf *file, struct omma_error *error) {
  for (int64_t i = 0; i < ommai_gguf_count(file); i++) {
    const struct ommai_gguf_tensor *tensor = ommai_gguf_at(file, i);
    int64_t shown = tensor->n_dims == 3 ? tensor->shape[0] : 1;
    if (strstr(tensor->name, FUSED)) shown *= 2;
    self->pair_capacity += tensor->n_dims == 3;
    self->capacity += ommai_min_i64(shown, OMMAI_GGUF_MAX_SHOWN);
    if (self->capacity > OMMAI_GGUF_MAX_SHOWN) {
      return ommai_fail(error, OMMA_ERROR_LIMIT, "%.300s: more than %d tensors and experts", ommai_gguf_path(file),
                        OMMAI_GGUF_MAX_SHOWN);
    }
  }
  return OMMA_OK;
}

static enum omma_status allocate_tables(struct ommai_gguf_tensors *self, const char *path, struct omma_error *error) {
  size_t n = (size_t)self->capacity, n_pairs = (size_t)self->pair_capacity;
  self->tensors = ommai_allocate(&self->allocator, n, sizeof *self->tensors);
  self->rows = ommai_allocate(&self->allocator, n, sizeof *self->rows);
  self->stored = ommai_allocate(&self->allocator, n, sizeof *self->stored);
  self->names = ommai_allocate_uninitialised(&self->allocator, n, sizeof *self->names);
  self->pairs = ommai_allocate(&self->allocator, n_pairs, sizeof *self->pairs);
  self->views = ommai_allocate(&self->allocator, n, sizeof *self->views);
  if (self->tensors && self->rows && self->stored && self->names && self->pairs && self->views) return OMMA_OK;
  return ommai_fail_memory(error, path, n * (sizeof *self->tensors + sizeof *self->rows + sizeof *self->stored + NAME_SIZE));
}

enum omma_status ommai_gguf_tensors_create(const struct ommai_gguf_files *files, const struct ommai_gguf_name *text,
                                           const struct ommai_gguf_name *tower, const struct omma_allocator *allocator,
                                           struct ommai_gguf_tensors **tensors, struct omma_error *error) {
  enum omma_status status;
  struct ommai_gguf_heads heads, tower_heads;
  const char *path = ommai_gguf_path(files->parts[0]);
  struct ommai_gguf_tensors *self = ommai_allocate(allocator, 1, sizeof *self);
  if (!self) return ommai_fail_memory(error, path, sizeof *self);
  self->allocator = *allocator;
  for (int64_t i = 0; i < files->n_parts; i++) OMMAI_TRY_GOTO(count_file(self, files->parts[i], error), failed);
  OMMAI_TRY_GOTO(count_file(self, files->mmproj, error), failed);
  OMMAI_TRY_GOTO(allocate_tables(self, path, error), failed);
  OMMAI_TRY_GOTO(ommai_gguf_heads_read(files->parts[0], &heads, error), failed);
  OMMAI_TRY_GOTO(ommai_gguf_tower_heads_read(files->mmproj, &tower_heads, error), failed);
  self->n_mergers = ommai_gguf_merger_layers(files->mmproj, self->merger_layers);
  for (int64_t i = 0; i < files->n_parts; i++) {
    OMMAI_TRY_GOTO(add_file(self, files, files->parts[i], &heads, text, error), failed);
  }
  OMMAI_TRY_GOTO(add_file(self, files, files->mmproj, &tower_heads, tower, error), failed);
  *tensors = self;
  return OMMA_OK;
failed:
  ommai_gguf_tensors_destroy(self);
  return status;
}

void ommai_gguf_tensors_destroy(struct ommai_gguf_tensors *tensors) {
  if (!tensors) return;
  struct omma_allocator allocator = tensors->allocator;
  size_t n = (size_t)tensors->capacity;
  ommai_release(&allocator, tensors->tensors, n, sizeof *tensors->tensors);
  ommai_release(&allocator, tensors->rows, n, sizeof *tensors->rows);
  ommai_release(&allocator, tensors->stored, n, sizeof *tensors->stored);
  ommai_release(&allocator, tensors->names, n, sizeof *tensors->names);
  ommai_release(&allocator, tensors->views, n, sizeof *tensors->views);
  ommai_release(&allocator, tensors->pairs, (size_t)tensors->pair_capacity, sizeof *tensors->pairs);
  ommai_release(&allocator, tensors->patch, tensors->patch_size, 1);
  ommai_release(&allocator, tensors, 1, sizeof *tensors);
}

const struct ommai_tensor *ommai_gguf_tensors_list(const struct ommai_gguf_tensors *tensors, int64_t *count) {
  *count = tensors->n;
  return tensors->tensors;
}
