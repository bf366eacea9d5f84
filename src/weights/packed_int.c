/* compressed-tensors' integers: "pack-quantized", fields of 4 or 8 bits in words of 32, and
 * "int-quantized", a byte each.
 *
 * pack-quantized (compressed_tensors/compressors/pack_quantized): LAYER.weight_packed I32 [n_out,
 * ceil(n_in * bits / 32)], along the inputs, lowest bits first, each field the value + 2^(bits -
 * 1); weight_scale [n_out, groups]; weight_shape I64 {n_out, n_in}; where not symmetric,
 * weight_zero_point I32 [ceil(n_out * bits / 32), groups], packed along the outputs in the same
 * way; and weight_g_idx I32 [n_in] of files that were quantised in the order of activations.
 * int-quantized (compressors/naive_quantized): LAYER.weight I8 [n_out, n_in], weight_scale,
 * weight_zero_point I8 of the same shape. */
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "weights/layer_tensors.h"

enum { WORD_BITS = 32 };

/* ---- codes and zeros ---- */

static void load_packed(const struct ommai_integer_matrix *matrix, int64_t output, int64_t first, int64_t n, uint8_t *codes) {
  const unsigned char *row = (const unsigned char *)matrix->codes->data + output * matrix->codes->shape[1] * 4;
  if (matrix->bits == 8) {
    memcpy(codes, row + first, (size_t)n);
    return;
  }
  for (int64_t i = 0; i < n; i++) codes[i] = row[(first + i) / 2] >> (first + i) % 2 * 4 & 15;
}

static int packed_zero(const struct ommai_integer_matrix *matrix, int64_t output, int64_t group) {
  int64_t bit = output * matrix->bits;
  uint32_t word;
  memcpy(&word, (const char *)matrix->zeros->data + (bit / WORD_BITS * matrix->n_groups + group) * 4, sizeof word);
  return (int)(word >> bit % WORD_BITS & ((1u << matrix->bits) - 1));
}

/* Signed bytes count from 128 up. */
static void load_bytes(const struct ommai_integer_matrix *matrix, int64_t output, int64_t first, int64_t n, uint8_t *codes) {
  const unsigned char *row = (const unsigned char *)matrix->codes->data + output * matrix->n_in + first;
  for (int64_t i = 0; i < n; i++) codes[i] = row[i] ^ 0x80;
}

static int byte_zero(const struct ommai_integer_matrix *matrix, int64_t output, int64_t group) {
  return ((const unsigned char *)matrix->zeros->data)[output * matrix->n_groups + group] ^ 0x80;
}

/* ---- the tensors of a layer ---- */

static enum omma_status read_scales(const struct ommai_layer_tensors *tensors, const struct ommai_storage *storage,
                                    int64_t n_out, int64_t n_in, struct ommai_integer_matrix *matrix,
                                    struct omma_error *error) {
  ommai_integer_matrix_size(matrix, storage->bits, n_out, n_in, storage->group);
  matrix->scale_by_output = matrix->n_groups;
  matrix->scale_by_group = 1;
  const int64_t shape[2] = {n_out, matrix->n_groups};
  OMMAI_TRY(ommai_layer_scales(tensors, ".weight_scale", 2, shape, &matrix->scales, error));
  return storage->has_zeros ? OMMA_OK
                            : ommai_layer_refuse_tensor(tensors, ".weight_zero_point",
                                                        "quantization_config calls these weights symmetric", error);
}

static enum omma_status read_shape(const struct ommai_layer_tensors *tensors, int64_t shape[2], struct omma_error *error) {
  const struct ommai_tensor *stated;
  const int64_t two = 2;
  OMMAI_TRY(ommai_layer_tensor(tensors, ".weight_shape", OMMAI_TENSOR_I64, 1, &two, &stated, error));
  memcpy(shape, stated->data, 2 * sizeof *shape);
  return ommai_layer_check_sizes(tensors, shape[0], shape[1], error);
}

enum omma_status ommai_read_packed_layer(const struct ommai_layer_tensors *tensors, const struct ommai_storage *storage,
                                         struct ommai_stored_layer *layer, struct omma_error *error) {
  struct ommai_integer_matrix *matrix = &layer->of.integers;
  int64_t shape[2];
  OMMAI_TRY(read_shape(tensors, shape, error));
  const int64_t packed[2] = {shape[0], ommai_div_up(shape[1] * storage->bits, WORD_BITS)};
  const struct ommai_tensor *codes;
  OMMAI_TRY(ommai_layer_tensor(tensors, ".weight_packed", OMMAI_TENSOR_I32, 2, packed, &codes, error));
  OMMAI_TRY(read_scales(tensors, storage, shape[0], shape[1], matrix, error));
  if (storage->has_zeros) {
    const int64_t zeros[2] = {ommai_div_up(shape[0] * storage->bits, WORD_BITS), matrix->n_groups};
    OMMAI_TRY(ommai_layer_tensor(tensors, ".weight_zero_point", OMMAI_TENSOR_I32, 2, zeros, &matrix->zeros, error));
  }
  OMMAI_TRY(ommai_layer_group_ids(tensors, ".weight_g_idx", matrix, error));
  matrix->load = load_packed;
  matrix->zero = packed_zero;
  ommai_stored_layer_of_integers(tensors, layer);
  return OMMA_OK;
}

enum omma_status ommai_read_int8_layer(const struct ommai_layer_tensors *tensors, const struct ommai_storage *storage,
                                       struct ommai_stored_layer *layer, struct omma_error *error) {
  struct ommai_integer_matrix *matrix = &layer->of.integers;
  const struct ommai_tensor *codes;
  OMMAI_TRY(ommai_layer_tensor(tensors, ".weight", OMMAI_TENSOR_I8, 2, tensors->codes->shape, &codes, error));
  OMMAI_TRY(ommai_layer_check_sizes(tensors, codes->shape[0], codes->shape[1], error));
  OMMAI_TRY(read_scales(tensors, storage, codes->shape[0], codes->shape[1], matrix, error));
  if (storage->has_zeros) {
    const int64_t zeros[2] = {codes->shape[0], matrix->n_groups};
    OMMAI_TRY(ommai_layer_tensor(tensors, ".weight_zero_point", OMMAI_TENSOR_I8, 2, zeros, &matrix->zeros, error));
  }
  matrix->load = load_bytes;
  matrix->zero = byte_zero;
  ommai_stored_layer_of_integers(tensors, layer);
  return OMMA_OK;
}
