/* A panel of 64 columns, two k deep, lies in four registers of bf16 pairs, a line of 256 bytes; up
 * to six rows pass over it at a time. */
#include <immintrin.h>
#include <string.h>

#include "kernels/gemv.h"
#include "kernels/row_groups.h"

#define INLINE static inline __attribute__((always_inline))

enum { VECTORS = 4, MAX_ROWS = 6, LINE = 64 * VECTORS, PREFETCH_BYTES = 4096 };

/* Weights to come: where several passes share a block, each asks for its share of the next one,
 * line by line, so that memory works all the time. The second level of cache can wait for more
 * lines at a time than the first. */
struct coming {
  const char *at;
  int64_t step; /* bytes for each line of this pass */
};

/* pieces: of 64 bytes. */
INLINE void ask_for(struct coming *coming, const int pieces) {
#pragma GCC unroll 8
  for (int i = 0; i < pieces; i++) {
    if (pieces == VECTORS) {
      _mm_prefetch(coming->at + 64 * i, _MM_HINT_T0);
    } else {
      _mm_prefetch(coming->at + 64 * i, _MM_HINT_T1);
    }
  }
  coming->at += coming->step;
}

/* x[k] and x[k + 1] in every lane; a missing second one is zero. */
INLINE __m512bh broadcast_pair(const ommai_bf16 *x, int n) {
  uint32_t pair = 0;
  memcpy(&pair, x, sizeof *x * (size_t)n);
  return (__m512bh)_mm512_set1_epi32((int)pair);
}

INLINE void step(__m512 (*sum)[VECTORS], const ommai_bf16 *line, const ommai_bf16 *x, int64_t x_stride, const int n_rows,
                 const int n) {
  __m512bh w[VECTORS];
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS; v++) w[v] = (__m512bh)_mm512_loadu_si512(line + 32 * v);
#pragma GCC unroll 8
  for (int row = 0; row < n_rows; row++) {
    __m512bh value = broadcast_pair(x + row * x_stride, n);
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++) sum[row][v] = _mm512_dpbf16_ps(sum[row][v], w[v], value);
  }
}

INLINE void rows_times_panel(const ommai_bf16 *weights, struct coming coming, const int pieces, const ommai_bf16 *x,
                             int64_t x_stride, const int n_rows, int64_t n_k, float *sums) {
  __m512 sum[MAX_ROWS][VECTORS];
#pragma GCC unroll 8
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++) sum[row][v] = _mm512_loadu_ps(sums + row * OMMAI_PANEL_COLUMNS + 16 * v);
  }
  int64_t k = 0;
  for (; k + 2 <= n_k; k += 2) {
    ask_for(&coming, pieces);
    step(sum, weights + k * OMMAI_PANEL_COLUMNS, x + k, x_stride, n_rows, 2);
  }
  if (k < n_k) step(sum, weights + k * OMMAI_PANEL_COLUMNS, x + k, x_stride, n_rows, 1);
#pragma GCC unroll 8
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++) _mm512_storeu_ps(sums + row * OMMAI_PANEL_COLUMNS + 16 * v, sum[row][v]);
  }
}

INLINE void all_rows(const ommai_bf16 *weights, const ommai_bf16 *x, int64_t x_stride, int n_rows, int64_t n_k, float *sums,
                     const int pieces) {
  const int passes = (n_rows + MAX_ROWS - 1) / MAX_ROWS;
  const int64_t bytes = n_k * (int64_t)sizeof *weights * OMMAI_PANEL_COLUMNS;
  struct coming coming = {(const char *)weights + (passes > 1 ? bytes : PREFETCH_BYTES), LINE / passes};
  for (int row = 0, n; row < n_rows; row += n, coming.at += bytes / passes) {
    n = ommai_next_rows(n_rows - row, MAX_ROWS);
    const ommai_bf16 *from = x + row * x_stride;
    float *to = sums + row * OMMAI_PANEL_COLUMNS;
    switch (n) {
      case 1: rows_times_panel(weights, coming, pieces, from, x_stride, 1, n_k, to); break;
      case 2: rows_times_panel(weights, coming, pieces, from, x_stride, 2, n_k, to); break;
      case 3: rows_times_panel(weights, coming, pieces, from, x_stride, 3, n_k, to); break;
      case 4: rows_times_panel(weights, coming, pieces, from, x_stride, 4, n_k, to); break;
      case 5: rows_times_panel(weights, coming, pieces, from, x_stride, 5, n_k, to); break;
      default: rows_times_panel(weights, coming, pieces, from, x_stride, 6, n_k, to); break;
    }
  }
}

static void panel_bf16(const ommai_bf16 *weights, const ommai_bf16 *x, int64_t x_stride, int n_rows, int64_t n_k, float *sums) {
  if (n_rows <= MAX_ROWS) {
    all_rows(weights, x, x_stride, n_rows, n_k, sums, VECTORS);
  } else {
    all_rows(weights, x, x_stride, n_rows, n_k, sums, VECTORS / 2);
  }
}

const struct ommai_gemv_kernels ommai_gemv_avx512_bf16 = {OMMAI_CPU_AVX512_BF16, panel_bf16, ommai_gemv_panel_f32_avx512,
                                                          ommai_gemv_panel_mixed_avx512};
