/* AutoAWQ's "gemm" (awq/modules/linear/gemm.py, awq/utils/packing_utils.py): LAYER.qweight I32
 * [n_in, n_out / 8], eight outputs of 4 bits in a word; qzeros I32 [groups, n_out / 8] in the same
 * order; scales [groups, n_out]. The order in a word is 0, 2, 4, 6, 1, 3, 5, 7. */
#include "base/error.h"
#include "weights/layer_tensors.h"

enum { PER_WORD = 8, WORD_BYTES = 4 };

/* The field of a row's words that output o lies in, counted in half bytes. */
static int64_t field_of(int64_t output) {
  static const int fields[PER_WORD] = {0, 4, 1, 5, 2, 6, 3, 7};
  return output / PER_WORD * PER_WORD + fields[output % PER_WORD];
}

static int field_at(const unsigned char *row, int64_t field) { return row[field / 2] >> field % 2 * 4 & 15; }

static void load(const struct ommai_integer_matrix *matrix, int64_t output, int64_t first, int64_t n, uint8_t *codes) {
  int64_t row_bytes = matrix->n_out / PER_WORD * WORD_BYTES, field = field_of(output);
  const unsigned char *row = (const unsigned char *)matrix->codes->data + first * row_bytes;
  for (int64_t i = 0; i < n; i++, row += row_bytes) codes[i] = (uint8_t)field_at(row, field);
}

static int zero(const struct ommai_integer_matrix *matrix, int64_t output, int64_t group) {
  int64_t row_bytes = matrix->n_out / PER_WORD * WORD_BYTES;
  return field_at((const unsigned char *)matrix->zeros->data + group * row_bytes, field_of(output));
}

enum omma_status ommai_read_awq_layer(const struct ommai_layer_tensors *tensors, const struct ommai_storage *storage,
                                      struct ommai_stored_layer *layer, struct omma_error *error) {
  struct ommai_integer_matrix *matrix = &layer->of.integers;
  const struct ommai_tensor *codes;
  OMMAI_TRY(ommai_layer_tensor(tensors, ".qweight", OMMAI_TENSOR_I32, 2, tensors->codes->shape, &codes, error));
  int64_t n_in = codes->shape[0], n_words = codes->shape[1];
  OMMAI_TRY(ommai_layer_check_sizes(tensors, n_words, n_in, error));
  ommai_integer_matrix_size(matrix, storage->bits, n_words * PER_WORD, n_in, storage->group);
  const int64_t scales[2] = {matrix->n_groups, matrix->n_out}, zeros[2] = {matrix->n_groups, n_words};
  OMMAI_TRY(ommai_layer_scales(tensors, ".scales", 2, scales, &matrix->scales, error));
  if (storage->has_zeros) {
    OMMAI_TRY(ommai_layer_tensor(tensors, ".qzeros", OMMAI_TENSOR_I32, 2, zeros, &matrix->zeros, error));
  } else {
    OMMAI_TRY(ommai_layer_refuse_tensor(tensors, ".qzeros", "quantization_config calls these weights symmetric", error));
  }
  matrix->scale_by_output = 1;
  matrix->scale_by_group = matrix->n_out;
  matrix->load = load;
  matrix->zero = zero;
  ommai_stored_layer_of_integers(tensors, layer);
  return OMMA_OK;
}
