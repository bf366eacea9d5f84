/* Few rows in f32 arithmetic by AVX2. */
#include "kernels/x86/lanes_avx2.h"

#define PREFETCH_BYTES 8192
#define FEW_SUMS 12
#include "kernels/gemv_lanes.h"

void ommai_gemv_panel_f32_avx2(const float *weights, const float *x, int64_t x_stride, int n_rows, int64_t n_k, float *sums) {
  gemv(weights, false, x, x_stride, n_rows, n_k, sums);
}

void ommai_gemv_panel_mixed_avx2(const ommai_bf16 *weights, const float *x, int64_t x_stride, int n_rows, int64_t n_k,
                                 float *sums) {
  gemv(weights, true, x, x_stride, n_rows, n_k, sums);
}
