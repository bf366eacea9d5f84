/* Few rows times a panel in f32 arithmetic, for any vector width. The including file includes one of lanes_*.h before, and defines
 * FEW_SUMS, the vectors of sums that fit its registers beside the rest: 12 or 24, and PREFETCH_BYTES, how far ahead
 * weights are asked for (as measured). One row passes over the whole panel at a time, more rows
 * over as many columns as leave their sums in registers. */
#ifndef OMMAI_KERNELS_FEW_ROWS_LANES_H
#define OMMAI_KERNELS_FEW_ROWS_LANES_H

#include "kernels/few_rows.h"

#define MOST_ROWS 6

enum {
  PANEL = OMMAI_PANEL_COLUMNS,
  PANEL_VECTORS = PANEL / LANES,
  /* Vectors of columns for up to 3 rows and for up to MOST_ROWS. */
  FOR_3 = FEW_SUMS / 3 < PANEL_VECTORS ? FEW_SUMS / 3 : PANEL_VECTORS,
  FOR_6 = FEW_SUMS / 6 < PANEL_VECTORS ? FEW_SUMS / 6 : PANEL_VECTORS,
};

/* A block of rows of x. */
struct rows {
  const float *x;
  int64_t stride, n_k;
};

/* sum[row][v] += x[row][k] w[v]. */
OMMAI_INLINE void add_products(const struct rows *rows, int64_t k, const vec *w, const int n_rows, const int n_vectors,
                               vec (*sum)[PANEL_VECTORS]) {
#pragma GCC unroll 16
  for (int row = 0; row < n_rows; row++) {
    vec value = vec_set1(rows->x[row * rows->stride + k]);
#pragma GCC unroll 16
    for (int v = 0; v < n_vectors; v++) sum[row][v] = vec_fma(value, w[v], sum[row][v]);
  }
}

OMMAI_INLINE void prefetch(const void *weights, const int n_vectors) {
  const size_t bytes = (size_t)n_vectors * LANES * sizeof(float);
#pragma GCC unroll 4
  for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch((const char *)weights + PREFETCH_BYTES + at);
}

/* bf16 pairs from k on; the second of a pair counts where `whole`. */
OMMAI_INLINE void step_bf16(const struct rows *rows, const ommai_bf16 *weights, int64_t k, bool whole, const int n_rows,
                            const int n_vectors, vec (*sum)[PANEL_VECTORS]) {
  vec first[PANEL_VECTORS], second[PANEL_VECTORS];
  prefetch(weights + k * PANEL, n_vectors);
#pragma GCC unroll 16
  for (int v = 0; v < n_vectors; v++) vec_load_pairs(weights + k * PANEL + 2 * v * LANES, &first[v], &second[v]);
  add_products(rows, k, first, n_rows, n_vectors, sum);
  if (whole) add_products(rows, k + 1, second, n_rows, n_vectors, sum);
}

OMMAI_INLINE void step_f32(const struct rows *rows, const float *weights, int64_t k, const int n_rows, const int n_vectors,
                           vec (*sum)[PANEL_VECTORS]) {
  vec w[PANEL_VECTORS];
  prefetch(weights + k * PANEL, n_vectors);
#pragma GCC unroll 16
  for (int v = 0; v < n_vectors; v++) w[v] = vec_load(weights + k * PANEL + v * LANES);
  add_products(rows, k, w, n_rows, n_vectors, sum);
}

/* n_rows rows times n_vectors vectors of a panel's columns. */
OMMAI_INLINE void rows_times_columns(const void *weights, const bool half, const struct rows *rows, const int n_rows,
                                     const int n_vectors, float *sums) {
  vec sum[MOST_ROWS][PANEL_VECTORS];
#pragma GCC unroll 16
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 16
    for (int v = 0; v < n_vectors; v++) sum[row][v] = vec_load(sums + row * PANEL + v * LANES);
  }
  if (half) {
    int64_t k = 0;
    for (; k + 2 <= rows->n_k; k += 2) step_bf16(rows, weights, k, true, n_rows, n_vectors, sum);
    if (k < rows->n_k) step_bf16(rows, weights, k, false, n_rows, n_vectors, sum);
  } else {
    for (int64_t k = 0; k < rows->n_k; k++) step_f32(rows, weights, k, n_rows, n_vectors, sum);
  }
#pragma GCC unroll 16
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 16
    for (int v = 0; v < n_vectors; v++) vec_store(sums + row * PANEL + v * LANES, sum[row][v]);
  }
}

OMMAI_INLINE void rows_times_panel(const void *weights, const bool half, const struct rows *rows, const int n_rows,
                                   const int n_vectors, float *sums) {
  for (int v = 0; v < PANEL_VECTORS; v += n_vectors) {
    int64_t column = v * LANES;
    const void *from = half ? (const void *)((const ommai_bf16 *)weights + 2 * column) : (const float *)weights + column;
    rows_times_columns(from, half, rows, n_rows, n_vectors, sums + column);
  }
}

OMMAI_INLINE void few_rows(const void *weights, const bool half, const float *x, int64_t x_stride, int n_rows, int64_t n_k,
                           float *sums) {
  for (int row = 0; row < n_rows; row += MOST_ROWS) {
    const struct rows rows = {x + row * x_stride, x_stride, n_k};
    float *to = sums + row * PANEL;
    switch (n_rows - row) {
      case 1: rows_times_panel(weights, half, &rows, 1, PANEL_VECTORS, to); break;
      case 2: rows_times_panel(weights, half, &rows, 2, FOR_3, to); break;
      case 3: rows_times_panel(weights, half, &rows, 3, FOR_3, to); break;
      case 4: rows_times_panel(weights, half, &rows, 4, FOR_6, to); break;
      case 5: rows_times_panel(weights, half, &rows, 5, FOR_6, to); break;
      default: rows_times_panel(weights, half, &rows, 6, FOR_6, to); break;
    }
  }
}

#endif
