/* Few rows in f32 arithmetic by AVX2. */
#include "kernels/x86/lanes_avx2.h"

#define PREFETCH_BYTES 8192
#define FEW_SUMS 12
#include "kernels/few_rows_lanes.h"

void ommai_few_rows_panel_f32_avx2(const float *weights, const float *x, int64_t x_stride, int n_rows, int64_t n_k,
                                   float *sums) {
  few_rows(weights, false, x, x_stride, n_rows, n_k, sums);
}

void ommai_few_rows_panel_mixed_avx2(const ommai_bf16 *weights, const float *x, int64_t x_stride, int n_rows, int64_t n_k,
                                     float *sums) {
  few_rows(weights, true, x, x_stride, n_rows, n_k, sums);
}
