/* F8_E4M3 weights with scales to multiply by: LAYER.weight [n_out, n_in] with weight_scale_inv (the
 * "fp8" of released checkpoints; the name notwithstanding it is the factor) or weight_scale
 * (compressed-tensors' "float-quantized", and "fp8" of whole tensors); or all experts of a layer in
 * one parameter [experts, rows, columns] with NAME_scale_inv. A scale for each block, for each
 * output, or for a whole matrix. */
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "weights/layer_tensors.h"

/* The name of the scales that the checkpoint has; where it has none, the one to miss. */
static const char *scale_suffix(const struct ommai_layer_tensors *tensors) {
  static const char *const suffixes[2][2] = {{".weight_scale_inv", ".weight_scale"}, {"_scale_inv", "_scale"}};
  const char *const *choice = suffixes[tensors->is_parameter];
  return choice[!ommai_layer_tensor_find(tensors, choice[0]) && ommai_layer_tensor_find(tensors, choice[1])];
}

/* Without blocks it is the number of scales that distinguishes one for each output from one for
 * each matrix. */
static void choose_blocks(const struct ommai_storage *storage, int64_t n_matrices, const struct ommai_tensor *scales,
                          struct ommai_float8_matrix *matrix) {
  bool by_matrix = !scales || scales->n_elements == n_matrices;
  matrix->block_rows = storage->block[0] ? storage->block[0] : by_matrix ? matrix->n_rows : 1;
  matrix->block_inputs = storage->block[1] ? storage->block[1] : matrix->n_in;
  matrix->scale_rows = ommai_div_up(matrix->n_rows, matrix->block_rows);
  matrix->scale_columns = ommai_div_up(matrix->n_in, matrix->block_inputs);
}

enum omma_status ommai_read_float8_layer(const struct ommai_layer_tensors *tensors, const struct ommai_storage *storage,
                                         struct ommai_stored_layer *layer, struct omma_error *error) {
  struct ommai_float8_matrix *matrix = &layer->of.float8;
  const struct ommai_tensor *codes;
  const char *suffix = scale_suffix(tensors);
  int n_dims = tensors->is_parameter ? 3 : 2;
  OMMAI_TRY(ommai_layer_tensor(tensors, tensors->is_parameter ? "" : ".weight", OMMAI_TENSOR_F8_E4M3, n_dims,
                               tensors->codes->shape, &codes, error));
  int64_t n_matrices = tensors->is_parameter ? codes->shape[0] : 1;
  matrix->codes = codes;
  matrix->n_rows = codes->shape[n_dims - 2];
  matrix->n_in = codes->shape[n_dims - 1];
  OMMAI_TRY(ommai_layer_check_sizes(tensors, matrix->n_rows, matrix->n_in, error));
  OMMAI_TRY(ommai_layer_check_sizes(tensors, n_matrices, 1, error));
  choose_blocks(storage, n_matrices, ommai_layer_tensor_find(tensors, suffix), matrix);
  const int64_t scales[3] = {n_matrices, matrix->scale_rows, matrix->scale_columns};
  OMMAI_TRY(ommai_layer_scales(tensors, suffix, 3, scales, &matrix->scales, error));
  layer->matrix = ommai_float8_matrix_stored(matrix);
  layer->tensor.n_dims = n_dims;
  memcpy(layer->tensor.shape, codes->shape, sizeof layer->tensor.shape);
  return OMMA_OK;
}
