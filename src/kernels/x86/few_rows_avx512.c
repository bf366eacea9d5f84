/* A panel of 64 f32 columns lies in four registers; up to four rows pass over it at a time. */
#include <immintrin.h>

#include "kernels/few_rows.h"

#define VECTORS 4
#define PREFETCH_BYTES 2048

static inline __attribute__((always_inline)) void rows_times_panel(const float *weights, const float *x, int64_t x_stride,
                                                                   const int n_rows, int64_t n_k, float *sums) {
  __m512 sum[4][VECTORS];
  for (int row = 0; row < n_rows; row++) {
    for (int v = 0; v < VECTORS; v++) sum[row][v] = _mm512_loadu_ps(sums + row * OMMAI_PANEL_COLUMNS + 16 * v);
  }
  for (int64_t k = 0; k < n_k; k++) {
    const float *line = weights + k * OMMAI_PANEL_COLUMNS;
    __m512 w[VECTORS];
    for (int v = 0; v < VECTORS; v++) {
      w[v] = _mm512_loadu_ps(line + 16 * v);
      _mm_prefetch((const char *)(line + 16 * v) + PREFETCH_BYTES, _MM_HINT_T0);
    }
    for (int row = 0; row < n_rows; row++) {
      __m512 value = _mm512_set1_ps(x[row * x_stride + k]);
      for (int v = 0; v < VECTORS; v++) sum[row][v] = _mm512_fmadd_ps(w[v], value, sum[row][v]);
    }
  }
  for (int row = 0; row < n_rows; row++) {
    for (int v = 0; v < VECTORS; v++) _mm512_storeu_ps(sums + row * OMMAI_PANEL_COLUMNS + 16 * v, sum[row][v]);
  }
}

void ommai_few_rows_panel_f32_avx512(const float *weights, const float *x, int64_t x_stride, int n_rows, int64_t n_k,
                                     float *sums) {
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
