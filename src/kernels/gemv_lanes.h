/* A few rows times a panel in f32 arithmetic, for any vector width. The including file includes
 * one of lanes_*.h before, and defines FEW_SUMS, the vectors of sums that fit its registers
 * besides the rest: 12 or 24, and PREFETCH_BYTES, how far ahead weights are asked for (as
 * measured). One row passes over the whole panel at a time, more rows over as many columns as
 * leave their sums in registers. */
#pragma once

#include <stdatomic.h>

#include "kernels/gemv.h"

#define MAX_ROWS 6

enum {
  PANEL = OMMAI_PANEL_COLUMNS,
  PANEL_VECTORS = PANEL / LANES,
  /* Vectors of columns for 2 rows and for up to MAX_ROWS: as many as leave room for the weights,
   * and a divisor of the panel's. */
  FOR_2 = FEW_SUMS / 3 < PANEL_VECTORS ? FEW_SUMS / 3 : PANEL_VECTORS,
  FOR_6 = FEW_SUMS / 6 < PANEL_VECTORS ? FEW_SUMS / 6 : PANEL_VECTORS,
};

/* A block of rows of x. */
struct rows {
  const float *x;
  int64_t stride, n_k;
};

/* Bytes of weights that a step reads: a pair of k in bf16, or one in f32. */
OMMAI_INLINE int64_t step_bytes(const int n_vectors) { return n_vectors * LANES * (int64_t)sizeof(float); }

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

/* Asks for as many weights as the step at `weights` reads. A single pass wants what follows it,
 * soon, unless the CPU's own prefetchers do that as well: then it asks for nothing. Of several
 * passes, each over its own columns, every one asks for its share of the next block, front to back:
 * `next` is where the step's share begins. */
OMMAI_INLINE void prefetch(const char *weights, const char *next, const bool asks, const int n_vectors) {
  const int64_t bytes = step_bytes(n_vectors);
#pragma GCC unroll 4
  for (int64_t at = 0; at < bytes; at += 64) {
    if (n_vectors == PANEL_VECTORS) {
      if (asks) __builtin_prefetch(weights + PREFETCH_BYTES + at, 0, 3);
    } else {
      __builtin_prefetch(next + at, 0, 2);
    }
  }
}

/* bf16 pairs from k on. With several rows each vector of pairs is loaded for the first of the pair,
 * and anew for the second: kept next to the first, the second would push sums out of registers,
 * and a fence is what stops the compiler. One sum that goes through memory holds up all others: six
 * rows then reach 97 GFLOP/s at avx2 instead of 131 (a thread of a Zen 5). */
OMMAI_INLINE void step_bf16(const struct rows *rows, const ommai_bf16 *weights, int64_t k, const int n_rows,
                            const int n_vectors, vec (*sum)[PANEL_VECTORS]) {
  vec first[PANEL_VECTORS], second[PANEL_VECTORS];
#pragma GCC unroll 16
  for (int v = 0; v < n_vectors; v++) vec_load_pairs(weights + k * PANEL + 2 * v * LANES, &first[v], &second[v]);
  if (n_rows == 1) {
    vec x0 = vec_set1(rows->x[k]), x1 = vec_set1(rows->x[k + 1]);
#pragma GCC unroll 16
    for (int v = 0; v < n_vectors; v++) sum[0][v] = vec_fma(x1, second[v], vec_fma(x0, first[v], sum[0][v]));
    return;
  }
  add_products(rows, k, first, n_rows, n_vectors, sum);
  atomic_signal_fence(memory_order_seq_cst);
#pragma GCC unroll 16
  for (int v = 0; v < n_vectors; v++) second[v] = vec_load_seconds(weights + k * PANEL + 2 * v * LANES);
  add_products(rows, k + 1, second, n_rows, n_vectors, sum);
}

/* The first of the last pair where n_k is odd. */
OMMAI_INLINE void step_half_pair(const struct rows *rows, const ommai_bf16 *weights, int64_t k, const int n_rows,
                                 const int n_vectors, vec (*sum)[PANEL_VECTORS]) {
  vec first[PANEL_VECTORS], second;
#pragma GCC unroll 16
  for (int v = 0; v < n_vectors; v++) vec_load_pairs(weights + k * PANEL + 2 * v * LANES, &first[v], &second);
  add_products(rows, k, first, n_rows, n_vectors, sum);
}

OMMAI_INLINE void step_f32(const struct rows *rows, const float *weights, int64_t k, const int n_rows, const int n_vectors,
                           vec (*sum)[PANEL_VECTORS]) {
  vec w[PANEL_VECTORS];
#pragma GCC unroll 16
  for (int v = 0; v < n_vectors; v++) w[v] = vec_load(weights + k * PANEL + v * LANES);
  add_products(rows, k, w, n_rows, n_vectors, sum);
}

/* n_rows rows times n_vectors vectors of a panel's columns. */
OMMAI_INLINE void rows_times_columns(const void *weights, const bool half, const bool asks, const struct rows *rows,
                                     const int n_rows, const int n_vectors, const char *next, float *sums) {
  vec sum[MAX_ROWS][PANEL_VECTORS];
#pragma GCC unroll 16
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 16
    for (int v = 0; v < n_vectors; v++) sum[row][v] = vec_load(sums + row * PANEL + v * LANES);
  }
  if (half) {
    int64_t k = 0;
    for (; k + 2 <= rows->n_k; k += 2) {
      prefetch((const char *)weights + k * PANEL * 2, next + k / 2 * step_bytes(n_vectors), asks, n_vectors);
      step_bf16(rows, weights, k, n_rows, n_vectors, sum);
    }
    if (k < rows->n_k) step_half_pair(rows, weights, k, n_rows, n_vectors, sum);
  } else {
    for (int64_t k = 0; k < rows->n_k; k++) {
      prefetch((const char *)weights + k * PANEL * 4, next + k * step_bytes(n_vectors), asks, n_vectors);
      step_f32(rows, weights, k, n_rows, n_vectors, sum);
    }
  }
#pragma GCC unroll 16
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 16
    for (int v = 0; v < n_vectors; v++) vec_store(sums + row * PANEL + v * LANES, sum[row][v]);
  }
}

OMMAI_INLINE void rows_times_panel(const void *weights, const bool half, const bool asks, const struct rows *rows,
                                   const int n_rows, const int n_vectors, float *sums) {
  const int64_t pass_bytes = (half ? (rows->n_k + 1) / 2 : rows->n_k) * step_bytes(n_vectors);
  const char *next = (const char *)weights + PANEL_VECTORS / n_vectors * pass_bytes;
  for (int v = 0; v < PANEL_VECTORS; v += n_vectors, next += pass_bytes) {
    int64_t column = v * LANES;
    const void *from = half ? (const void *)((const ommai_bf16 *)weights + 2 * column) : (const float *)weights + column;
    rows_times_columns(from, half, asks, rows, n_rows, n_vectors, next, sums + column);
  }
}

/* Of n rows, those of the next pass: passes as even as can be. But where registers are few, the
 * sums of four rows are too few, as each waits for the one before it: then six rows, and one or two
 * more, are faster. */
OMMAI_INLINE int next_rows(int n) {
  int n_passes = (n + MAX_ROWS - 1) / MAX_ROWS, last = n - (n_passes - 1) * MAX_ROWS;
  return FEW_SUMS < 24 && n_passes > 1 && last <= 2 ? MAX_ROWS : (n + n_passes - 1) / n_passes;
}

OMMAI_INLINE void gemv(const void *weights, const bool half, const bool asks, const float *x, int64_t x_stride, int n_rows,
                       int64_t n_k, float *sums) {
  for (int row = 0, group; row < n_rows; row += group) {
    const struct rows rows = {x + row * x_stride, x_stride, n_k};
    float *to = sums + row * PANEL;
    group = next_rows(n_rows - row);
    switch (group) {
      case 1: rows_times_panel(weights, half, asks, &rows, 1, PANEL_VECTORS, to); break;
      case 2: rows_times_panel(weights, half, asks, &rows, 2, FOR_2, to); break;
      case 3: rows_times_panel(weights, half, asks, &rows, 3, FOR_6, to); break;
      case 4: rows_times_panel(weights, half, asks, &rows, 4, FOR_6, to); break;
      case 5: rows_times_panel(weights, half, asks, &rows, 5, FOR_6, to); break;
      default: rows_times_panel(weights, half, asks, &rows, 6, FOR_6, to); break;
    }
  }
}
