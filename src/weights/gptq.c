/* GPTQ as AutoGPTQ and GPTQModel write it (gptqmodel/nn_modules/qlinear): LAYER.qweight I32 [n_in *
 * bits / 32, n_out], packed along the inputs, lowest bits first; qzeros I32 [groups, n_out * bits
 * / 32], packed along the outputs, of which the first version holds each zero less one; scales
 * [groups, n_out]; g_idx I32 [n_in], the group of each input, where they were quantised in the
 * order of activations. */
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "weights/layer_tensors.h"

enum { WORD_BITS = 32, WORD_BYTES = 4 };

static uint32_t word_at(const struct ommai_tensor *words, int64_t index) {
  uint32_t word;
  memcpy(&word, (const char *)words->data + index * WORD_BYTES, sizeof word);
  return word;
}

static uint32_t field_of(uint32_t word, int64_t field, int bits) { return word >> field * bits & ((1u << bits) - 1); }

static void load(const struct ommai_integer_matrix *matrix, int64_t output, int64_t first, int64_t n, uint8_t *codes) {
  int64_t per_word = WORD_BITS / matrix->bits;
  uint32_t word = 0;
  for (int64_t i = first; i < first + n; i++) {
    int64_t field = i % per_word;
    if (i == first || field == 0) word = word_at(matrix->codes, i / per_word * matrix->n_out + output);
    codes[i - first] = (uint8_t)field_of(word, field, matrix->bits);
  }
}

/* Zeros of the second version, and of the first, in which a field that is full stands for 0. */
static int zero(const struct ommai_integer_matrix *matrix, int64_t output, int64_t group) {
  int64_t per_word = WORD_BITS / matrix->bits, n_words = matrix->zeros->shape[1];
  return (int)field_of(word_at(matrix->zeros, group * n_words + output / per_word), output % per_word, matrix->bits);
}

static int zero_less_one(const struct ommai_integer_matrix *matrix, int64_t output, int64_t group) {
  return (zero(matrix, output, group) + 1) & ((1 << matrix->bits) - 1);
}

enum omma_status ommai_read_gptq_layer(const struct ommai_layer_tensors *tensors, const struct ommai_storage *storage,
                                       struct ommai_stored_layer *layer, struct omma_error *error) {
  struct ommai_integer_matrix *matrix = &layer->of.integers;
  const struct ommai_tensor *codes;
  OMMAI_TRY(ommai_layer_tensor(tensors, ".qweight", OMMAI_TENSOR_I32, 2, tensors->codes->shape, &codes, error));
  int64_t n_rows = codes->shape[0], n_out = codes->shape[1], per_word = WORD_BITS / storage->bits;
  OMMAI_TRY(ommai_layer_check_sizes(tensors, n_out, n_rows, error));
  ommai_integer_matrix_size(matrix, storage->bits, n_out, n_rows * per_word, storage->group);
  const int64_t scales[2] = {matrix->n_groups, n_out}, zeros[2] = {matrix->n_groups, ommai_div_up(n_out, per_word)};
  OMMAI_TRY(ommai_layer_scales(tensors, ".scales", 2, scales, &matrix->scales, error));
  OMMAI_TRY(ommai_layer_tensor(tensors, ".qzeros", OMMAI_TENSOR_I32, 2, zeros, &matrix->zeros, error));
  OMMAI_TRY(ommai_layer_group_ids(tensors, ".g_idx", matrix, error));
  matrix->scale_by_output = 1;
  matrix->scale_by_group = n_out;
  matrix->load = load;
  matrix->zero = storage->zeros_less_one ? zero_less_one : zero;
  ommai_stored_layer_of_integers(tensors, layer);
  return OMMA_OK;
}
