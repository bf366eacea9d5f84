/* The readable form of the tile kernels in f32 arithmetic, and the choice among levels. */
#include "kernels/f32_tile.h"

#include "kernels/dtype.h"
#include "kernels/row_groups.h"

#define COLUMNS 16

static void expand_bf16(const ommai_bf16 *weights, int64_t n_k, float *strip) {
  for (int64_t k = 0; k < n_k; k++) {
    const ommai_bf16 *pair = weights + k / 2 * (2 * OMMAI_PANEL_COLUMNS) + k % 2;
    for (int c = 0; c < COLUMNS; c++) strip[k * COLUMNS + c] = ommai_bf16_to_f32(pair[2 * c]);
  }
}

static void expand_f32(const float *weights, int64_t n_k, float *strip) {
  for (int64_t k = 0; k < n_k; k++) {
    for (int c = 0; c < COLUMNS; c++) strip[k * COLUMNS + c] = weights[k * OMMAI_PANEL_COLUMNS + c];
  }
}

static void multiply(const float *strip, const float *x, int64_t n_rows, int64_t n_k, float *sums) {
  for (int64_t row = 0; row < n_rows; row++) {
    float *sum = sums + row * OMMAI_PANEL_COLUMNS, chains[COLUMNS];
    for (int c = 0; c < COLUMNS; c++) chains[c] = sum[c];
    for (int64_t k = 0; k < n_k; k++) {
      float value = x[row * n_k + k];
      for (int c = 0; c < COLUMNS; c++) chains[c] += value * strip[k * COLUMNS + c];
    }
    for (int c = 0; c < COLUMNS; c++) sum[c] = chains[c];
  }
}

const struct ommai_f32_tile_kernels ommai_f32_tile_scalar = {
    OMMAI_CPU_SCALAR, COLUMNS, 1, OMMAI_TILE_K, expand_bf16, expand_f32, multiply};

#define F32_TILE_ENTRY(level) &ommai_f32_tile_##level,
const struct ommai_f32_tile_kernels *const ommai_f32_tile_kernels[] = {OMMAI_F32_TILE_KERNELS(F32_TILE_ENTRY) NULL};

OMMAI_CHOOSE_BY_LEVEL(ommai_f32_tile_select, ommai_f32_tile_kernels, ommai_f32_tile_kernels)

/* A group of n rows; n is a constant where this is called, so that compilers make vectors of it. */
static inline __attribute__((always_inline)) void group_rows(const void *x, enum omma_dtype type, int64_t x_stride, const int64_t n, int64_t n_k, float *to) {
  if (type == OMMA_F32) {
    const float *from = x;
    for (int64_t k = 0; k < n_k; k++) {
      for (int64_t row = 0; row < n; row++) to[k * n + row] = from[row * x_stride + k];
    }
  } else {
    const ommai_bf16 *from = x;
    for (int64_t k = 0; k < n_k; k++) {
      for (int64_t row = 0; row < n; row++) to[k * n + row] = ommai_bf16_to_f32(from[row * x_stride + k]);
    }
  }
}

void ommai_f32_tile_rows(const struct ommai_f32_tile_kernels *kernels, const void *x, enum omma_dtype type, int64_t x_stride,
                         int64_t n_rows, int64_t n_k, float *to) {
  for (int64_t row = 0, n; row < n_rows; row += n, to += n * n_k) {
    const void *from = (const char *)x + (size_t)(row * x_stride) * ommai_dtype_size(type);
    n = ommai_next_rows(n_rows - row, kernels->n_rows);
    switch (n) {
      case 1: group_rows(from, type, x_stride, 1, n_k, to); break;
      case 3: group_rows(from, type, x_stride, 3, n_k, to); break;
      case 6: group_rows(from, type, x_stride, 6, n_k, to); break;
      case 12: group_rows(from, type, x_stride, 12, n_k, to); break;
      default: group_rows(from, type, x_stride, n, n_k, to); break;
    }
  }
}
