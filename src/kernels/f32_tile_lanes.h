/* The tile kernels in f32 arithmetic for any vector width. The including file includes one of
 * lanes_*.h before, and defines TILE_ROWS (3, 6 or 12) and TILE_VECTORS, the rows and vectors of
 * columns whose sums stay in registers, and TILE_K, the inputs of a block. Weights and rows are
 * read forwards, a row's values are broadcast: nothing is shuffled.
 *
 * What counts next to the multiply-adds is the number of instructions: where another thread works
 * on the same core, a thread has half of what the core decodes. */
#pragma once

#include "kernels/f32_tile.h"
#include "kernels/row_groups.h"

enum { STRIP = TILE_VECTORS * LANES, PANEL = OMMAI_PANEL_COLUMNS };

static void expand_bf16(const ommai_bf16 *weights, int64_t n_k, float *strip) {
  for (int64_t k = 0; k < n_k; k += 2) {
    for (int v = 0; v < TILE_VECTORS; v++) {
      vec even, odd;
      vec_load_pairs(weights + k * PANEL + 2 * v * LANES, &even, &odd);
      vec_store(strip + k * STRIP + v * LANES, even);
      vec_store(strip + (k + 1) * STRIP + v * LANES, odd);
    }
  }
}

static void expand_f32(const float *weights, int64_t n_k, float *strip) {
  for (int64_t k = 0; k < n_k; k++) {
    for (int v = 0; v < TILE_VECTORS; v++) {
      vec_store(strip + k * STRIP + v * LANES, vec_load(weights + k * PANEL + v * LANES));
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
    for (int v = 0; v < TILE_VECTORS; v++) sum[row][v] = vec_load(sums + row * PANEL + v * LANES);
  }
#pragma GCC unroll 4
  for (int64_t k = 0; k < n_k; k++) {
    add_products(strip + k * STRIP, x + k * n_rows, n_rows, sum);
  }
#pragma GCC unroll 16
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 4
    for (int v = 0; v < TILE_VECTORS; v++) vec_store(sums + row * PANEL + v * LANES, sum[row][v]);
  }
}

static void multiply(const float *strip, const float *x, int64_t n_rows, int64_t n_k, float *sums) {
  for (int64_t row = 0, n; row < n_rows; row += n) {
    const float *rows = x + row * n_k;
    float *to = sums + row * PANEL;
    n = ommai_next_rows(n_rows - row, TILE_ROWS);
    switch (n) {
      case 1: rows_times_strip(strip, rows, 1, n_k, to); break;
      case 2: rows_times_strip(strip, rows, 2, n_k, to); break;
      case 3: rows_times_strip(strip, rows, 3, n_k, to); break;
#if TILE_ROWS > 3
      case 4: rows_times_strip(strip, rows, 4, n_k, to); break;
      case 5: rows_times_strip(strip, rows, 5, n_k, to); break;
      case 6: rows_times_strip(strip, rows, 6, n_k, to); break;
#endif
#if TILE_ROWS > 6
      case 7: rows_times_strip(strip, rows, 7, n_k, to); break;
      case 8: rows_times_strip(strip, rows, 8, n_k, to); break;
      case 9: rows_times_strip(strip, rows, 9, n_k, to); break;
      case 10: rows_times_strip(strip, rows, 10, n_k, to); break;
      case 11: rows_times_strip(strip, rows, 11, n_k, to); break;
      case 12: rows_times_strip(strip, rows, 12, n_k, to); break;
#endif
      default: break;
    }
  }
}
