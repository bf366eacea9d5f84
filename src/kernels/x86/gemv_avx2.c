/* Few rows in f32 arithmetic by AVX2. */
#include "kernels/x86/lanes_avx2.h"

#define PREFETCH_BYTES 8192
#define FEW_SUMS 12
#include "kernels/gemv_lanes.h"

static void panel_f32(const float *weights, const float *x, int64_t x_stride, int n_rows, int64_t n_k, float *sums) {
  gemv(weights, false, true, x, x_stride, n_rows, n_k, sums);
}

static void panel_mixed(const ommai_bf16 *weights, const float *x, int64_t x_stride, int n_rows, int64_t n_k, float *sums) {
  gemv(weights, true, true, x, x_stride, n_rows, n_k, sums);
}

static void panel_f32_small_l1(const float *weights, const float *x, int64_t x_stride, int n_rows, int64_t n_k, float *sums) {
  gemv(weights, false, false, x, x_stride, n_rows, n_k, sums);
}

static void panel_mixed_small_l1(const ommai_bf16 *weights, const float *x, int64_t x_stride, int n_rows, int64_t n_k,
                                 float *sums) {
  gemv(weights, true, false, x, x_stride, n_rows, n_k, sums);
}

static const struct ommai_gemv_kernels small_l1 = {.level = OMMAI_CPU_AVX2,
                                                   .panel_bf16 = ommai_gemv_panel_bf16_scalar,
                                                   .panel_f32 = panel_f32_small_l1,
                                                   .panel_mixed = panel_mixed_small_l1};

const struct ommai_gemv_kernels ommai_gemv_avx2 = {.level = OMMAI_CPU_AVX2,
                                                   .panel_bf16 = ommai_gemv_panel_bf16_scalar,
                                                   .panel_f32 = panel_f32,
                                                   .panel_mixed = panel_mixed,
                                                   .small_l1 = &small_l1};
