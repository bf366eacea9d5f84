/* Eight f32 lanes by AVX2, FMA and F16C, under the names that the kernels for any vector width use
 * (attention_lanes.h). */
#pragma once

#include <immintrin.h>

#include "kernels/attention_element.h"

#define OMMAI_INLINE static inline __attribute__((always_inline))

/* Sums of the decode kernels that are held in registers, and spans of a row at a time. */
enum { LANES = 8, MAX_SUMS = 8, MAX_SPANS = 4 };
typedef __m256 vec;

OMMAI_INLINE vec vec_zero(void) { return _mm256_setzero_ps(); }
OMMAI_INLINE vec vec_set1(float value) { return _mm256_set1_ps(value); }
OMMAI_INLINE vec vec_indices(void) { return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7); }
OMMAI_INLINE vec vec_load(const float *at) { return _mm256_loadu_ps(at); }
OMMAI_INLINE void vec_store(float *at, vec value) { _mm256_storeu_ps(at, value); }
OMMAI_INLINE vec vec_add(vec a, vec b) { return _mm256_add_ps(a, b); }
OMMAI_INLINE vec vec_sub(vec a, vec b) { return _mm256_sub_ps(a, b); }
OMMAI_INLINE vec vec_mul(vec a, vec b) { return _mm256_mul_ps(a, b); }
OMMAI_INLINE vec vec_div(vec a, vec b) { return _mm256_div_ps(a, b); }
OMMAI_INLINE vec vec_max(vec a, vec b) { return _mm256_max_ps(a, b); }
OMMAI_INLINE vec vec_floor(vec a) { return _mm256_floor_ps(a); }
/* a b + c, rounded once. */
OMMAI_INLINE vec vec_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }

/* Lanes of ones where a > b. */
OMMAI_INLINE vec vec_greater(vec a, vec b) { return _mm256_cmp_ps(a, b, _CMP_GT_OQ); }
OMMAI_INLINE vec vec_select(vec mask, vec yes, vec no) { return _mm256_blendv_ps(no, yes, mask); }
OMMAI_INLINE bool vec_any(vec mask) { return _mm256_movemask_ps(mask) != 0; }

/* p 2^n for p in [1, 2] and whole n of at most 127; 0 for x below the exponent of the smallest
 * normal number, where n = floor(x). NaN stays NaN. */
OMMAI_INLINE vec vec_raise(vec p, vec n, vec x) {
  __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
  __m256 raised = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
  return _mm256_and_ps(raised, _mm256_cmp_ps(x, _mm256_set1_ps(-126.0f), _CMP_NLT_UQ));
}

/* The nearest bf16, ties to even, in the high halves of the lanes; the low halves are not zero.
 * Infinities and NaN that came from bf16 stay what they are: the low half of their bits is
 * empty. */
OMMAI_INLINE __m256i vec_bf16_bits(vec value) {
  __m256i bits = _mm256_castps_si256(value);
  __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
}
OMMAI_INLINE vec vec_round_bf16(vec value) {
  return _mm256_castsi256_ps(_mm256_and_si256(vec_bf16_bits(value), _mm256_set1_epi32((int)0xffff0000u)));
}

/* Elements [at, at + LANES) of a row. */
OMMAI_INLINE vec vec_load_row(const void *row, int64_t at, enum omma_dtype dtype) {
  if (dtype == OMMA_F32) return _mm256_loadu_ps((const float *)row + at);
  if (dtype == OMMA_INT8) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)((const int8_t *)row + at))));
  }
  __m128i bits = _mm_loadu_si128((const __m128i *)(const void *)((const uint16_t *)row + at));
  if (dtype == OMMA_F16) return _mm256_cvtph_ps(bits);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
OMMAI_INLINE void vec_store_row(void *row, int64_t at, vec value, enum omma_dtype dtype) {
  if (dtype == OMMA_F32) {
    _mm256_storeu_ps((float *)row + at, value);
    return;
  }
  __m128i bits;
  if (dtype == OMMA_F16) {
    bits = _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  } else {
    __m256i halves = _mm256_srli_epi32(vec_bf16_bits(value), 16);
    bits = _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32(halves, halves), 0x08));
  }
  _mm_storeu_si128((__m128i *)(void *)((uint16_t *)row + at), bits);
}

/* LANES pairs of bf16: the first of each, and the second. */
OMMAI_INLINE void vec_load_pairs(const ommai_bf16 *at, vec *first, vec *second) {
  __m256i pairs = _mm256_loadu_si256((const __m256i *)(const void *)at);
  *first = _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
  *second = _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32((int)0xffff0000u)));
}

/* The second of each alone, without the mask: it would take one of few registers. */
OMMAI_INLINE vec vec_load_seconds(const ommai_bf16 *at) {
  __m256i pairs = _mm256_loadu_si256((const __m256i *)(const void *)at);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_srli_epi32(pairs, 16), 16));
}

/* Even and odd elements to two registers in order, and the other way. */
OMMAI_INLINE void vec_zip(vec span[2]) {
  vec low = _mm256_unpacklo_ps(span[0], span[1]), high = _mm256_unpackhi_ps(span[0], span[1]);
  span[0] = _mm256_permute2f128_ps(low, high, 0x20);
  span[1] = _mm256_permute2f128_ps(low, high, 0x31);
}
OMMAI_INLINE void vec_unzip(vec span[2]) {
  vec low = _mm256_permute2f128_ps(span[0], span[1], 0x20), high = _mm256_permute2f128_ps(span[0], span[1], 0x31);
  span[0] = _mm256_shuffle_ps(low, high, 0x88);
  span[1] = _mm256_shuffle_ps(low, high, 0xdd);
}

OMMAI_INLINE void vec_transpose(vec r[LANES]) {
  __m256 pairs[8], fours[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
    fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    r[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
    r[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
  }
}

/* Sum and maximum over the lanes, and the sums of four registers, times a factor. */
OMMAI_INLINE float vec_sum(vec a) {
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
OMMAI_INLINE float vec_largest(vec a) {
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
OMMAI_INLINE void vec_store_sums4(float *out, const vec x[4], float factor) {
  __m256 low = _mm256_add_ps(_mm256_unpacklo_ps(x[0], x[1]), _mm256_unpackhi_ps(x[0], x[1]));
  __m256 high = _mm256_add_ps(_mm256_unpacklo_ps(x[2], x[3]), _mm256_unpackhi_ps(x[2], x[3]));
  __m256 fours = _mm256_add_ps(_mm256_shuffle_ps(low, high, 0x44), _mm256_shuffle_ps(low, high, 0xee));
  __m128 sums = _mm_add_ps(_mm256_castps256_ps128(fours), _mm256_extractf128_ps(fours, 1));
  _mm_storeu_ps(out, _mm_mul_ps(sums, _mm_set1_ps(factor)));
}
