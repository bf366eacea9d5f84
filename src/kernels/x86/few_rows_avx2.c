/* Scalar products of rows for CPUs where the weights stay row-major: four chains of eight lanes. */
#include <immintrin.h>

#include "kernels/few_rows.h"

static inline float add_lanes(__m256 a, __m256 b, __m256 c, __m256 d) {
  __m256 sum = _mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d));
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  half = _mm_add_ss(half, _mm_movehdup_ps(half));
  return _mm_cvtss_f32(half);
}

static inline __m256 expand(const ommai_bf16 *x) {
  __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)x));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

float ommai_few_rows_dot_f32_avx2(const float *weights, const float *x, int64_t n_k) {
  __m256 sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  int64_t k = 0;
  for (; k + 32 <= n_k; k += 32) {
    for (int i = 0; i < 4; i++) {
      sum[i] = _mm256_fmadd_ps(_mm256_loadu_ps(weights + k + 8 * i), _mm256_loadu_ps(x + k + 8 * i), sum[i]);
    }
  }
  float rest = 0;
  for (; k < n_k; k++) rest += weights[k] * x[k];
  return add_lanes(sum[0], sum[1], sum[2], sum[3]) + rest;
}

float ommai_few_rows_dot_bf16_avx2(const float *weights, const ommai_bf16 *x, int64_t n_k) {
  __m256 sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  int64_t k = 0;
  for (; k + 32 <= n_k; k += 32) {
    for (int i = 0; i < 4; i++) {
      sum[i] = _mm256_fmadd_ps(_mm256_loadu_ps(weights + k + 8 * i), expand(x + k + 8 * i), sum[i]);
    }
  }
  float rest = 0;
  for (; k < n_k; k++) rest += weights[k] * ommai_bf16_to_f32(x[k]);
  return add_lanes(sum[0], sum[1], sum[2], sum[3]) + rest;
}
