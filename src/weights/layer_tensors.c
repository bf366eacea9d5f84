#include "weights/layer_tensors.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "weights/safetensors.h"
#include "weights/tensor_index.h"

enum { NAME_SIZE = OMMAI_LAYER_MAX_NAME + 32, WHERE_SIZE = NAME_SIZE + 240, MAX_SIZE = 1 << 24 };

static void tensor_name(const struct ommai_layer_tensors *tensors, const char *suffix, char name[NAME_SIZE]) {
  snprintf(name, NAME_SIZE, "%.*s%s", tensors->name_size, tensors->name, suffix);
}

/* FILE: tensor "NAME", of the file that the layer was found in. */
static void describe(const struct ommai_layer_tensors *tensors, const char *suffix, char where[WHERE_SIZE]) {
  snprintf(where, WHERE_SIZE, "%.200s: tensor \"%.*s%s\"", ommai_safetensors_path(tensors->codes->file), tensors->name_size,
           tensors->name, suffix);
}

const struct ommai_tensor *ommai_layer_tensor_find(const struct ommai_layer_tensors *tensors, const char *suffix) {
  char name[NAME_SIZE];
  tensor_name(tensors, suffix, name);
  int64_t position = ommai_tensor_index_position(tensors->sorted, tensors->count, name);
  if (position < 0) return NULL;
  tensors->used[position] = true;
  return tensors->sorted[position];
}

static enum omma_status find_required(const struct ommai_layer_tensors *tensors, const char *suffix,
                                      const struct ommai_tensor **out, struct omma_error *error) {
  char where[WHERE_SIZE];
  *out = ommai_layer_tensor_find(tensors, suffix);
  if (*out) return OMMA_OK;
  describe(tensors, suffix, where);
  return ommai_fail(error, OMMA_ERROR_FORMAT, "%s is missing, which belongs to \"%.200s\"", where, tensors->codes->name);
}

static enum omma_status fail_shape(const struct ommai_layer_tensors *tensors, const char *suffix, int n_dims,
                                   const int64_t *shape, const struct ommai_tensor *found, struct omma_error *error) {
  char where[WHERE_SIZE], expected_text[OMMAI_SHAPE_TEXT_SIZE], found_text[OMMAI_SHAPE_TEXT_SIZE];
  describe(tensors, suffix, where);
  return ommai_fail(error, OMMA_ERROR_FORMAT, "%s: expected shape %s, found %s", where,
                    ommai_shape_text(expected_text, n_dims, shape), ommai_shape_text(found_text, found->n_dims, found->shape));
}

enum omma_status ommai_layer_tensor(const struct ommai_layer_tensors *tensors, const char *suffix, enum ommai_tensor_type type,
                                    int n_dims, const int64_t *shape, const struct ommai_tensor **out,
                                    struct omma_error *error) {
  OMMAI_TRY(find_required(tensors, suffix, out, error));
  if ((*out)->type != type) {
    char where[WHERE_SIZE];
    describe(tensors, suffix, where);
    return ommai_fail(error, OMMA_ERROR_FORMAT, "%s: expected type %s, found %s", where, ommai_tensor_type_name(type),
                      ommai_tensor_type_name((*out)->type));
  }
  if (!ommai_tensor_has_shape(*out, n_dims, shape)) return fail_shape(tensors, suffix, n_dims, shape, *out, error);
  return OMMA_OK;
}

/* The same lengths where those of 1 are left out: a scale for each output is [n], [n, 1] or [1, n],
 * depending on the writer. */
static bool is_shape_but_ones(const struct ommai_tensor *tensor, int n_dims, const int64_t *shape) {
  int at = 0;
  for (int i = 0; i < n_dims; i++) {
    if (shape[i] == 1) continue;
    while (at < tensor->n_dims && tensor->shape[at] == 1) at++;
    if (at == tensor->n_dims || tensor->shape[at++] != shape[i]) return false;
  }
  while (at < tensor->n_dims && tensor->shape[at] == 1) at++;
  return at == tensor->n_dims;
}

enum omma_status ommai_layer_scales(const struct ommai_layer_tensors *tensors, const char *suffix, int n_dims,
                                    const int64_t *shape, const struct ommai_tensor **out, struct omma_error *error) {
  char where[WHERE_SIZE];
  OMMAI_TRY(find_required(tensors, suffix, out, error));
  describe(tensors, suffix, where);
  enum ommai_tensor_type type = (*out)->type;
  if (type != OMMAI_TENSOR_F32 && type != OMMAI_TENSOR_BF16 && type != OMMAI_TENSOR_F16) {
    return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "%s: expected scales of type F32, BF16 or F16, found %s", where,
                      ommai_tensor_type_name(type));
  }
  if (!is_shape_but_ones(*out, n_dims, shape)) return fail_shape(tensors, suffix, n_dims, shape, *out, error);
  int64_t broken = ommai_tensor_count_nonfinite(*out);
  if (broken == 0) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_FORMAT, "%s: %lld of its scales are NaN or infinite", where, (long long)broken);
}

enum omma_status ommai_layer_refuse_tensor(const struct ommai_layer_tensors *tensors, const char *suffix, const char *why,
                                           struct omma_error *error) {
  char where[WHERE_SIZE];
  if (!ommai_layer_tensor_find(tensors, suffix)) return OMMA_OK;
  describe(tensors, suffix, where);
  return ommai_fail(error, OMMA_ERROR_FORMAT, "%s: %s", where, why);
}

enum omma_status ommai_layer_check_sizes(const struct ommai_layer_tensors *tensors, int64_t n_out, int64_t n_in,
                                         struct omma_error *error) {
  if (n_out >= 1 && n_in >= 1 && n_out <= MAX_SIZE && n_in <= MAX_SIZE) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_FORMAT,
                    "%.200s: layer \"%.*s\": expected a matrix of 1 to %d outputs and inputs, found [%lld, %lld]",
                    ommai_safetensors_path(tensors->codes->file), tensors->name_size, tensors->name, MAX_SIZE, (long long)n_out,
                    (long long)n_in);
}

static int32_t id_at(const struct ommai_tensor *ids, int64_t input) {
  int32_t id;
  memcpy(&id, (const char *)ids->data + input * 4, sizeof id);
  return id;
}

enum omma_status ommai_layer_group_ids(const struct ommai_layer_tensors *tensors, const char *suffix,
                                       struct ommai_integer_matrix *matrix, struct omma_error *error) {
  const struct ommai_tensor *ids;
  bool by_place = true, unset = true;
  if (!ommai_layer_tensor_find(tensors, suffix)) return OMMA_OK;
  OMMAI_TRY(ommai_layer_tensor(tensors, suffix, OMMAI_TENSOR_I32, 1, &matrix->n_in, &ids, error));
  for (int64_t i = 0; i < matrix->n_in; i++) {
    int32_t id = id_at(ids, i);
    by_place = by_place && id == i / matrix->group;
    unset = unset && id == -1;
    if (unset || (id >= 0 && id < matrix->n_groups)) continue;
    char where[WHERE_SIZE];
    describe(tensors, suffix, where);
    return ommai_fail(error, OMMA_ERROR_FORMAT, "%s: input %lld: expected a group of 0 to %lld, found %ld", where, (long long)i,
                      (long long)matrix->n_groups - 1, (long)id);
  }
  if (!by_place && !unset) matrix->group_ids = ids;
  return OMMA_OK;
}

void ommai_stored_layer_of_integers(const struct ommai_layer_tensors *tensors, struct ommai_stored_layer *layer) {
  struct ommai_integer_matrix *matrix = &layer->of.integers;
  matrix->codes = tensors->codes;
  layer->matrix = ommai_integer_matrix_stored(matrix);
  layer->tensor.n_dims = 2;
  layer->tensor.shape[0] = matrix->n_out;
  layer->tensor.shape[1] = matrix->n_in;
}
