#include "weights/float8_matrix.h"

#include "base/checked.h"
#include "base/half.h"

static void values(const void *context, int64_t output, int64_t first, int64_t n, float *out) {
  const struct ommai_float8_matrix *matrix = context;
  const unsigned char *codes = (const unsigned char *)matrix->codes->data + output * matrix->n_in + first;
  int64_t scale_row = output / matrix->n_rows * matrix->scale_rows + output % matrix->n_rows / matrix->block_rows;
  for (int64_t done = 0, step; done < n; done += step) {
    int64_t input = first + done;
    float scale = 0;
    step = ommai_min_i64(n - done, matrix->block_inputs - input % matrix->block_inputs);
    ommai_tensor_to_f32(matrix->scales, scale_row * matrix->scale_columns + input / matrix->block_inputs, 1, &scale);
    for (int64_t i = 0; i < step; i++) out[done + i] = ommai_e4m3_to_f32(codes[done + i]) * scale;
  }
}

struct ommai_stored_matrix ommai_float8_matrix_stored(const struct ommai_float8_matrix *matrix) {
  return (struct ommai_stored_matrix){.context = matrix, .values = values};
}
