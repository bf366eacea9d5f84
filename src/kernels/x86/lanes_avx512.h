/* Sixteen f32 lanes by AVX-512, under the names that the kernels for any vector width use; those
 * that products and decoding need. */
#pragma once

#include <immintrin.h>

#include "kernels/attention_element.h"

#define OMMAI_INLINE static inline __attribute__((always_inline))

/* Sums of the decode kernels that are held in registers, and spans of a row at a time. */
enum { LANES = 16, MAX_SUMS = 16, MAX_SPANS = 4 };
typedef __m512 vec;

OMMAI_INLINE vec vec_zero(void) { return _mm512_setzero_ps(); }
OMMAI_INLINE vec vec_set1(float value) { return _mm512_set1_ps(value); }
OMMAI_INLINE vec vec_load(const float *at) { return _mm512_loadu_ps(at); }
OMMAI_INLINE void vec_store(float *at, vec value) { _mm512_storeu_ps(at, value); }
OMMAI_INLINE vec vec_add(vec a, vec b) { return _mm512_add_ps(a, b); }
OMMAI_INLINE vec vec_sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
OMMAI_INLINE vec vec_mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
OMMAI_INLINE vec vec_max(vec a, vec b) { return _mm512_max_ps(a, b); }
OMMAI_INLINE vec vec_floor(vec a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
/* a b + c, rounded once. */
OMMAI_INLINE vec vec_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }

/* p 2^n for p in [1, 2] and whole n of at most 127, which x is rounded down to. NaN stays NaN. */
OMMAI_INLINE vec vec_raise(vec p, vec n, vec x) {
  (void)x;
  return _mm512_scalef_ps(p, n);
}

/* The nearest bf16, ties to even. Infinities and NaN that came from bf16 stay what they are: the
 * low half of their bits is empty. */
OMMAI_INLINE vec vec_round_bf16(vec value) {
  __m512i bits = _mm512_castps_si512(value);
  __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  bits = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  return _mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32((int)0xffff0000u)));
}

/* Elements [at, at + LANES) of a row. */
OMMAI_INLINE vec vec_load_row(const void *row, int64_t at, enum omma_dtype dtype) {
  if (dtype == OMMA_F32) return _mm512_loadu_ps((const float *)row + at);
  if (dtype == OMMA_INT8) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)((const int8_t *)row + at))));
  }
  __m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)((const uint16_t *)row + at));
  if (dtype == OMMA_F16) return _mm512_cvtph_ps(bits);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

OMMAI_INLINE void vec_store_row(void *row, int64_t at, vec value, enum omma_dtype dtype) {
  if (dtype == OMMA_F32) {
    _mm512_storeu_ps((float *)row + at, value);
    return;
  }
  __m256i bits = _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(vec_round_bf16(value)), 16));
  if (dtype == OMMA_F16) bits = _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  _mm256_storeu_si256((__m256i *)(void *)((uint16_t *)row + at), bits);
}

/* LANES pairs of bf16: the first of each, and the second. */
OMMAI_INLINE void vec_load_pairs(const ommai_bf16 *at, vec *first, vec *second) {
  __m512i pairs = _mm512_loadu_si512(at);
  *first = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
  *second = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32((int)0xffff0000u)));
}
OMMAI_INLINE vec vec_load_seconds(const ommai_bf16 *at) {
  vec first, second;
  vec_load_pairs(at, &first, &second);
  return second;
}

/* Even and odd elements to two registers in order, and the other way. */
OMMAI_INLINE void vec_zip(vec span[2]) {
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  vec even = span[0], odd = span[1];
  span[0] = _mm512_permutex2var_ps(even, low, odd);
  span[1] = _mm512_permutex2var_ps(even, _mm512_add_epi32(low, _mm512_set1_epi32(8)), odd);
}
OMMAI_INLINE void vec_unzip(vec span[2]) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  vec low = span[0], high = span[1];
  span[0] = _mm512_permutex2var_ps(low, even, high);
  span[1] = _mm512_permutex2var_ps(low, _mm512_add_epi32(even, _mm512_set1_epi32(1)), high);
}

/* Sum and maximum over the lanes, and the sums of four registers, times a factor. */
OMMAI_INLINE float vec_sum(vec a) { return _mm512_reduce_add_ps(a); }
OMMAI_INLINE float vec_largest(vec a) { return _mm512_reduce_max_ps(a); }
OMMAI_INLINE void vec_store_sums4(float *out, const vec x[4], float factor) {
  __m512 low = _mm512_add_ps(_mm512_unpacklo_ps(x[0], x[1]), _mm512_unpackhi_ps(x[0], x[1]));
  __m512 high = _mm512_add_ps(_mm512_unpacklo_ps(x[2], x[3]), _mm512_unpackhi_ps(x[2], x[3]));
  __m512 fours = _mm512_add_ps(_mm512_shuffle_ps(low, high, 0x44), _mm512_shuffle_ps(low, high, 0xee));
  __m256 twos = _mm256_add_ps(_mm512_castps512_ps256(fours), _mm512_extractf32x8_ps(fours, 1));
  __m128 sums = _mm_add_ps(_mm256_castps256_ps128(twos), _mm256_extractf128_ps(twos, 1));
  _mm_storeu_ps(out, _mm_mul_ps(sums, _mm_set1_ps(factor)));
}
