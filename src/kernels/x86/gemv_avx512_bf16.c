/* A panel of 64 columns, two k deep, lies in four registers of bf16 pairs; up to four rows pass
 * over it at a time. */
#include <immintrin.h>
#include <string.h>

#include "kernels/gemv.h"

#define VECTORS 4
#define PREFETCH_BYTES 2048

static inline __m512bh load_pairs(const ommai_bf16 *pairs) { return (__m512bh)_mm512_loadu_si512(pairs); }

/* x[k] and x[k + 1] in every lane; a missing second one is zero. */
static inline __m512bh broadcast_pair(const ommai_bf16 *x, int n) {
  uint32_t pair = 0;
  memcpy(&pair, x, sizeof *x * (size_t)n);
  return (__m512bh)_mm512_set1_epi32((int)pair);
}

static inline __attribute__((always_inline)) void step(__m512 (*sum)[VECTORS], const ommai_bf16 *line, const ommai_bf16 *x,
                                                       int64_t x_stride, const int n_rows, const int n) {
  __m512bh w[VECTORS];
  for (int v = 0; v < VECTORS; v++) {
    w[v] = load_pairs(line + 32 * v);
    _mm_prefetch((const char *)(line + 32 * v) + PREFETCH_BYTES, _MM_HINT_T0);
  }
  for (int row = 0; row < n_rows; row++) {
    __m512bh value = broadcast_pair(x + row * x_stride, n);
    for (int v = 0; v < VECTORS; v++) sum[row][v] = _mm512_dpbf16_ps(sum[row][v], w[v], value);
  }
}

static inline __attribute__((always_inline)) void rows_times_panel(const ommai_bf16 *weights, const ommai_bf16 *x,
                                                                   int64_t x_stride, const int n_rows, int64_t n_k,
                                                                   float *sums) {
  __m512 sum[4][VECTORS];
  for (int row = 0; row < n_rows; row++) {
    for (int v = 0; v < VECTORS; v++) sum[row][v] = _mm512_loadu_ps(sums + row * OMMAI_PANEL_COLUMNS + 16 * v);
  }
  int64_t k = 0;
  for (; k + 2 <= n_k; k += 2) step(sum, weights + k * OMMAI_PANEL_COLUMNS, x + k, x_stride, n_rows, 2);
  if (k < n_k) step(sum, weights + k * OMMAI_PANEL_COLUMNS, x + k, x_stride, n_rows, 1);
  for (int row = 0; row < n_rows; row++) {
    for (int v = 0; v < VECTORS; v++) _mm512_storeu_ps(sums + row * OMMAI_PANEL_COLUMNS + 16 * v, sum[row][v]);
  }
}

static void panel_bf16(const ommai_bf16 *weights, const ommai_bf16 *x, int64_t x_stride, int n_rows, int64_t n_k, float *sums) {
  int row = 0;
  for (; row + 4 <= n_rows; row += 4) {
    rows_times_panel(weights, x + row * x_stride, x_stride, 4, n_k, sums + row * OMMAI_PANEL_COLUMNS);
  }
  x += row * x_stride;
  sums += row * OMMAI_PANEL_COLUMNS;
  switch (n_rows - row) {
    case 3: rows_times_panel(weights, x, x_stride, 3, n_k, sums); break;
    case 2: rows_times_panel(weights, x, x_stride, 2, n_k, sums); break;
    case 1: rows_times_panel(weights, x, x_stride, 1, n_k, sums); break;
    default: break;
  }
}

const struct ommai_gemv_kernels ommai_gemv_avx512_bf16 = {OMMAI_CPU_AVX512_BF16, panel_bf16, ommai_gemv_panel_f32_avx512,
                                                          ommai_gemv_panel_mixed_avx512};
