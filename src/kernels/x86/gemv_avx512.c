/* Few rows in f32 arithmetic by AVX-512. */
#include "kernels/x86/lanes_avx512.h"

#define PREFETCH_BYTES 2048
#define FEW_SUMS 24
#include "kernels/gemv_lanes.h"

void ommai_gemv_panel_f32_avx512(const float *weights, const float *x, int64_t x_stride, int n_rows, int64_t n_k, float *sums) {
  gemv(weights, false, true, x, x_stride, n_rows, n_k, sums);
}

void ommai_gemv_panel_mixed_avx512(const ommai_bf16 *weights, const float *x, int64_t x_stride, int n_rows, int64_t n_k,
                                   float *sums) {
  gemv(weights, true, true, x, x_stride, n_rows, n_k, sums);
}

const struct ommai_gemv_kernels ommai_gemv_avx512 = {.level = OMMAI_CPU_AVX512,
                                                     .panel_bf16 = ommai_gemv_panel_bf16_scalar,
                                                     .panel_f32 = ommai_gemv_panel_f32_avx512,
                                                     .panel_mixed = ommai_gemv_panel_mixed_avx512};
