/* The tile kernels in f32 arithmetic for any vector width. The including file includes one of
 * lanes_*.h before, and defines TILE_ROWS (3, 6 or 12) and TILE_VECTORS, the rows and vectors of
 * columns whose sums stay in registers. Weights and rows are read forwards, a row's values are
 * broadcast: nothing is shuffled.
 *
 * What counts next to the multiply-adds is the number of instructions: where another thread works
 * on the same core, a thread has half of what the core takes in. */
#pragma once

#include "kernels/f32_tile.h"

enum { STRIP = TILE_VECTORS * LANES };

static void expand_bf16(const ommai_bf16 *weights, int64_t n_k, float *strip) {
  for (int64_t k = 0; k < n_k; k += 2) {
    for (int v = 0; v < TILE_VECTORS; v++) {
      vec even, odd;
      vec_load_pairs(weights + k * OMMAI_PANEL_COLUMNS + 2 * v * LANES, &even, &odd);
      vec_store(strip + k * STRIP + v * LANES, even);
      vec_store(strip + (k + 1) * STRIP + v * LANES, odd);
    }
  }
}

static void expand_f32(const float *weights, int64_t n_k, float *strip) {
  for (int64_t k = 0; k < n_k; k++) {
    for (int v = 0; v < TILE_VECTORS; v++) {
      vec_store(strip + k * STRIP + v * LANES, vec_load(weights + k * OMMAI_PANEL_COLUMNS + v * LANES));
    }
  }
}

/* One input of each row. Registers hold what is fewer, values or weights, next to the sums. */
OMMAI_INLINE void add_products(const float *weights, const float *values, const int n_rows, vec (*sum)[TILE_VECTORS]) {
  if (TILE_ROWS < TILE_VECTORS) {
    vec value[TILE_ROWS];
#pragma GCC unroll 16
    for (int row = 0; row < n_rows; row++) value[row] = vec_set1(values[row]);
#pragma GCC unroll 4
    for (int v = 0; v < TILE_VECTORS; v++) {
      vec w = vec_load(weights + v * LANES);
#pragma GCC unroll 16
      for (int row = 0; row < n_rows; row++) sum[row][v] = vec_fma(value[row], w, sum[row][v]);
    }
    return;
  }
  vec w[TILE_VECTORS];
#pragma GCC unroll 4
  for (int v = 0; v < TILE_VECTORS; v++) w[v] = vec_load(weights + v * LANES);
#pragma GCC unroll 16
  for (int row = 0; row < n_rows; row++) {
    vec value = vec_set1(values[row]);
#pragma GCC unroll 4
    for (int v = 0; v < TILE_VECTORS; v++) sum[row][v] = vec_fma(value, w[v], sum[row][v]);
  }
}

OMMAI_INLINE void rows_times_strip(const float *strip, const float *x, const int n_rows, int64_t n_k, float *sums) {
  vec sum[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 16
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 4
    for (int v = 0; v < TILE_VECTORS; v++) sum[row][v] = vec_load(sums + row * OMMAI_PANEL_COLUMNS + v * LANES);
  }
#pragma GCC unroll 2
  for (int64_t k = 0; k < n_k; k++) add_products(strip + k * STRIP, x + k * n_rows, n_rows, sum);
#pragma GCC unroll 16
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 4
    for (int v = 0; v < TILE_VECTORS; v++) vec_store(sums + row * OMMAI_PANEL_COLUMNS + v * LANES, sum[row][v]);
  }
}

static void multiply(const float *strip, const float *x, int n_rows, int64_t n_k, float *sums) {
  switch (n_rows) {
    case 1: rows_times_strip(strip, x, 1, n_k, sums); break;
    case 2: rows_times_strip(strip, x, 2, n_k, sums); break;
    case 3: rows_times_strip(strip, x, 3, n_k, sums); break;
#if TILE_ROWS > 3
    case 4: rows_times_strip(strip, x, 4, n_k, sums); break;
    case 5: rows_times_strip(strip, x, 5, n_k, sums); break;
    case 6: rows_times_strip(strip, x, 6, n_k, sums); break;
#endif
#if TILE_ROWS > 6
    case 7: rows_times_strip(strip, x, 7, n_k, sums); break;
    case 8: rows_times_strip(strip, x, 8, n_k, sums); break;
    case 9: rows_times_strip(strip, x, 9, n_k, sums); break;
    case 10: rows_times_strip(strip, x, 10, n_k, sums); break;
    case 11: rows_times_strip(strip, x, 11, n_k, sums); break;
    case 12: rows_times_strip(strip, x, 12, n_k, sums); break;
#endif
    default: break;
  }
}
