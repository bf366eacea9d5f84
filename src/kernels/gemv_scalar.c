/* The readable form of the few-row micro-kernels; see gemv.h for their contract. */
#include "kernels/gemv.h"

void ommai_gemv_panel_bf16_scalar(const ommai_bf16 *weights, const ommai_bf16 *x, int64_t x_stride, int n_rows, int64_t n_k,
                                  float *sums) {
  for (int row = 0; row < n_rows; row++) {
    float *sum = sums + row * OMMAI_PANEL_COLUMNS;
    for (int64_t k = 0; k < n_k; k++) {
      const ommai_bf16 *pair = weights + k / 2 * (2 * OMMAI_PANEL_COLUMNS) + k % 2;
      float value = ommai_bf16_to_f32(x[row * x_stride + k]);
      for (int c = 0; c < OMMAI_PANEL_COLUMNS; c++) sum[c] += value * ommai_bf16_to_f32(pair[2 * c]);
    }
  }
}

static void panel_f32(const float *weights, const float *x, int64_t x_stride, int n_rows, int64_t n_k, float *sums) {
  for (int row = 0; row < n_rows; row++) {
    float *sum = sums + row * OMMAI_PANEL_COLUMNS;
    for (int64_t k = 0; k < n_k; k++) {
      float value = x[row * x_stride + k];
      for (int c = 0; c < OMMAI_PANEL_COLUMNS; c++) sum[c] += value * weights[k * OMMAI_PANEL_COLUMNS + c];
    }
  }
}

static void panel_mixed(const ommai_bf16 *weights, const float *x, int64_t x_stride, int n_rows, int64_t n_k, float *sums) {
  for (int row = 0; row < n_rows; row++) {
    float *sum = sums + row * OMMAI_PANEL_COLUMNS;
    for (int64_t k = 0; k < n_k; k++) {
      const ommai_bf16 *pair = weights + k / 2 * (2 * OMMAI_PANEL_COLUMNS) + k % 2;
      float value = x[row * x_stride + k];
      for (int c = 0; c < OMMAI_PANEL_COLUMNS; c++) sum[c] += value * ommai_bf16_to_f32(pair[2 * c]);
    }
  }
}

const struct ommai_gemv_kernels ommai_gemv_scalar = {
    .level = OMMAI_CPU_SCALAR, .panel_bf16 = ommai_gemv_panel_bf16_scalar, .panel_f32 = panel_f32, .panel_mixed = panel_mixed};
