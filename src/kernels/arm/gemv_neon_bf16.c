/* Few rows in products of bf16 by BFDOT: four columns and a pair of inputs a register of packed
 * weights, as they lie; a register of a row holds four pairs, of which a product takes one. Two
 * such products in turn are what BFMMLA computes, so that tiles of rows have the same bits. */
#include "base/checked.h"
#include "kernels/arm/squares_neon.h"
#include "kernels/gemv.h"
#include "kernels/row_groups.h"

enum { PANEL = OMMAI_PANEL_COLUMNS, PANEL_VECTORS = PANEL / LANES, MAX_ROWS = 4, STEP_K = 8, PREFETCH_BYTES = 2048 };

/* sum + the products of the columns' pairs with pair `pair` of the row's four. */
OMMAI_INLINE vec dot_pair(vec sum, bfloat16x8_t w, bfloat16x8_t x, const int pair) {
  switch (pair) {
    case 0: return vbfdotq_laneq_f32(sum, w, x, 0);
    case 1: return vbfdotq_laneq_f32(sum, w, x, 1);
    case 2: return vbfdotq_laneq_f32(sum, w, x, 2);
    default: return vbfdotq_laneq_f32(sum, w, x, 3);
  }
}

/* A line of weights, of one pair of inputs; a single pass asks for those that follow soon. */
OMMAI_INLINE void add_line(const ommai_bf16 *line, const bfloat16x8_t x[MAX_ROWS], const int pair, const int n_rows,
                           const int n_vectors, vec (*sum)[PANEL_VECTORS]) {
#pragma GCC unroll 16
  for (int v = 0; v < n_vectors; v++) {
    bfloat16x8_t w = vreinterpretq_bf16_u16(vld1q_u16(line + 2 * LANES * v));
    if (v % 4 == 0) __builtin_prefetch((const char *)(line + 2 * LANES * v) + PREFETCH_BYTES);
#pragma GCC unroll 4
    for (int row = 0; row < n_rows; row++) sum[row][v] = dot_pair(sum[row][v], w, x[row], pair);
  }
}

OMMAI_INLINE void take_rows(const ommai_bf16 *x, int64_t x_stride, int64_t n_k, const int n_rows, bfloat16x8_t out[MAX_ROWS]) {
#pragma GCC unroll 4
  for (int row = 0; row < n_rows; row++) out[row] = vreinterpretq_bf16_u16(load_eight(x + row * x_stride, n_k));
}

/* n_rows rows times n_vectors vectors of columns. */
OMMAI_INLINE void columns(const ommai_bf16 *weights, const ommai_bf16 *x, int64_t x_stride, int64_t n_k, const int n_rows,
                          const int n_vectors, float *sums) {
  vec sum[MAX_ROWS][PANEL_VECTORS];
  bfloat16x8_t pairs[MAX_ROWS];
#pragma GCC unroll 4
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 16
    for (int v = 0; v < n_vectors; v++) sum[row][v] = vec_load(sums + row * PANEL + v * LANES);
  }
  int64_t k = 0;
  for (; k + STEP_K <= n_k; k += STEP_K, weights += STEP_K * PANEL) {
    take_rows(x + k, x_stride, STEP_K, n_rows, pairs);
#pragma GCC unroll 4
    for (int pair = 0; pair < STEP_K / 2; pair++) {
      add_line(weights + pair * 2 * PANEL, pairs, pair, n_rows, n_vectors, sum);
    }
  }
  for (; k < n_k; k += 2, weights += 2 * PANEL) {
    take_rows(x + k, x_stride, ommai_min_i64(2, n_k - k), n_rows, pairs);
    add_line(weights, pairs, 0, n_rows, n_vectors, sum);
  }
#pragma GCC unroll 4
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 16
    for (int v = 0; v < n_vectors; v++) vec_store(sums + row * PANEL + v * LANES, sum[row][v]);
  }
}

OMMAI_INLINE void some_rows(const ommai_bf16 *weights, const ommai_bf16 *x, int64_t x_stride, int64_t n_k, const int n_rows,
                            const int n_vectors, float *sums) {
  for (int v = 0; v < PANEL_VECTORS; v += n_vectors) {
    columns(weights + 2 * LANES * v, x, x_stride, n_k, n_rows, n_vectors, sums + LANES * v);
  }
}

static void panel_bf16(const ommai_bf16 *weights, const ommai_bf16 *x, int64_t x_stride, int n_rows, int64_t n_k, float *sums) {
  for (int row = 0, n; row < n_rows; row += n) {
    const ommai_bf16 *from = x + row * x_stride;
    float *to = sums + row * PANEL;
    n = ommai_next_rows(n_rows - row, MAX_ROWS);
    switch (n) {
      case 1: some_rows(weights, from, x_stride, n_k, 1, 16, to); break;
      case 2: some_rows(weights, from, x_stride, n_k, 2, 8, to); break;
      case 3: some_rows(weights, from, x_stride, n_k, 3, 4, to); break;
      default: some_rows(weights, from, x_stride, n_k, 4, 4, to); break;
    }
  }
}

const struct ommai_gemv_kernels ommai_gemv_neon_bf16 = {.level = OMMAI_CPU_NEON_BF16,
                                                        .panel_bf16 = panel_bf16,
                                                        .panel_f32 = ommai_gemv_panel_f32_neon,
                                                        .panel_mixed = ommai_gemv_panel_mixed_neon};
