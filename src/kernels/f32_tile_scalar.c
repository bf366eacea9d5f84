/* The readable form of the tile kernels in f32 arithmetic, and the choice among levels. */
#include "kernels/f32_tile.h"

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

static void multiply(const float *strip, const float *x, int n_rows, int64_t n_k, float *sums) {
  for (int row = 0; row < n_rows; row++) {
    float *sum = sums + row * OMMAI_PANEL_COLUMNS, chains[COLUMNS];
    for (int c = 0; c < COLUMNS; c++) chains[c] = sum[c];
    for (int64_t k = 0; k < n_k; k++) {
      float value = x[k * n_rows + row];
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
