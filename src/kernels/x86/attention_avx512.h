/* Pieces of the AVX-512 attention kernels: rows of any of the operator's types in and out,
 * transpositions of 32-bit units. */
#pragma once

#include <immintrin.h>
#include <omma/attention.h>
#include <stdint.h>

#define OMMAI_INLINE static inline __attribute__((always_inline))

/* The first `count` of 16 lanes; none for counts below 1. */
OMMAI_INLINE __mmask16 ommai_avx512_first(int64_t count) {
  return count >= 16 ? (__mmask16)0xffff : count <= 0 ? (__mmask16)0 : (__mmask16)((1u << count) - 1);
}

/* Rows that packing asks for ahead of the one that it reads. */
#define OMMAI_AVX512_ROWS_AHEAD 16

/* Asks for a line at that many bytes from a row on; where there is none, no harm is done. */
OMMAI_INLINE void ommai_avx512_prefetch(const void *row, int64_t bytes) {
  _mm_prefetch((const char *)((uintptr_t)row + (uintptr_t)bytes), _MM_HINT_T0);
}

/* bf16 bits in the low half of each lane to f32. */
OMMAI_INLINE __m512 ommai_avx512_widen_bf16(__m256i bits) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

/* f32 rounded to the nearest bf16, ties to even, as f32; NaN stays NaN. */
OMMAI_INLINE __m512i ommai_avx512_round_bf16_bits(__m512 value) {
  __m512i bits = _mm512_castps_si512(value);
  __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
}

/* Elements [at, at + 16) of a row as f32; those outside of the mask are zeros and are not read. */
OMMAI_INLINE __m512 ommai_avx512_load(const void *row, int64_t at, __mmask16 mask, enum omma_dtype dtype) {
  if (dtype == OMMA_F32) return _mm512_maskz_loadu_ps(mask, (const float *)row + at);
  if (dtype == OMMA_INT8) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask, (const int8_t *)row + at)));
  }
  __m256i bits = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)row + at);
  return dtype == OMMA_BF16 ? ommai_avx512_widen_bf16(bits) : _mm512_cvtph_ps(bits);
}

OMMAI_INLINE void ommai_avx512_store(void *row, int64_t at, __mmask16 mask, __m512 value, enum omma_dtype dtype) {
  if (dtype == OMMA_F32) {
    _mm512_mask_storeu_ps((float *)row + at, mask, value);
  } else if (dtype == OMMA_F16) {
    _mm256_mask_storeu_epi16((uint16_t *)row + at, mask, _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  } else {
    __m256i bits = _mm512_cvtepi32_epi16(_mm512_srli_epi32(ommai_avx512_round_bf16_bits(value), 16));
    _mm256_mask_storeu_epi16((uint16_t *)row + at, mask, bits);
  }
}

/* 2^x: a polynomial for the fraction, and the whole part goes into the exponent. 2^0 is exactly 1,
 * 2^-inf is 0. The coefficients are minimax fits of the relative error on [0, 1) with the constant
 * fixed at 1: 9e-5 (degree 3) and 2e-9 (degree 6). */
OMMAI_INLINE __m512 ommai_avx512_exp2_cubic(__m512 x) {
  __m512 f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  __m512 p = _mm512_fmadd_ps(f, _mm512_set1_ps(0.077067196f), _mm512_set1_ps(0.22764482f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.69511682f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, x);
}

OMMAI_INLINE __m512 ommai_avx512_exp2(__m512 x) {
  __m512 f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  __m512 p = _mm512_fmadd_ps(f, _mm512_set1_ps(2.1612917e-4f), _mm512_set1_ps(1.2467846e-3f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(9.6754516e-3f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.055485282f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.24022931f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.69314706f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, x);
}

/* How far a score is below the maximum, in units of log2: exactly 0 for the maximum itself. */
OMMAI_INLINE __m512 ommai_avx512_below(__m512 score, __m512 maximum, __m512 scale) {
  return _mm512_mul_ps(_mm512_sub_ps(score, maximum), scale);
}

/* Four rows of 16 units to four vectors whose 128-bit lane L holds unit 4 L + j of the rows, for j
 * = 0 .. 3. */
OMMAI_INLINE void ommai_avx512_interleave4(const __m512i r[4], __m512i out[4]) {
  __m512i a = _mm512_unpacklo_epi32(r[0], r[1]), b = _mm512_unpackhi_epi32(r[0], r[1]);
  __m512i c = _mm512_unpacklo_epi32(r[2], r[3]), d = _mm512_unpackhi_epi32(r[2], r[3]);
  out[0] = _mm512_unpacklo_epi64(a, c);
  out[1] = _mm512_unpackhi_epi64(a, c);
  out[2] = _mm512_unpacklo_epi64(b, d);
  out[3] = _mm512_unpackhi_epi64(b, d);
}

/* out[L] = lane L of each of the four, for the 128-bit lanes. */
OMMAI_INLINE void ommai_avx512_lanes4(__m512i w0, __m512i w1, __m512i w2, __m512i w3, __m512i out[4]) {
  __m512i a = _mm512_shuffle_i32x4(w0, w1, 0x44), b = _mm512_shuffle_i32x4(w0, w1, 0xee);
  __m512i c = _mm512_shuffle_i32x4(w2, w3, 0x44), d = _mm512_shuffle_i32x4(w2, w3, 0xee);
  out[0] = _mm512_shuffle_i32x4(a, c, 0x88);
  out[1] = _mm512_shuffle_i32x4(a, c, 0xdd);
  out[2] = _mm512_shuffle_i32x4(b, d, 0x88);
  out[3] = _mm512_shuffle_i32x4(b, d, 0xdd);
}

OMMAI_INLINE __m512 ommai_avx512_larger(__m512 a, __m512 b) { return _mm512_max_ps(a, b); }
OMMAI_INLINE __m512 ommai_avx512_sum(__m512 a, __m512 b) { return _mm512_add_ps(a, b); }

/* Of each of four registers the lanes of 128 bits joined, by one of the two above: that of register
 * r in lane r of the 128. */
OMMAI_INLINE __m512 ommai_avx512_join4(const __m512 x[4], __m512 (*join)(__m512, __m512)) {
  __m512 low = join(_mm512_unpacklo_ps(x[0], x[1]), _mm512_unpackhi_ps(x[0], x[1]));
  __m512 high = join(_mm512_unpacklo_ps(x[2], x[3]), _mm512_unpackhi_ps(x[2], x[3]));
  return join(_mm512_shuffle_ps(low, high, 0x44), _mm512_shuffle_ps(low, high, 0xee));
}

/* Rows [8][16] to [16][8], two units of the eight rows per vector. */
OMMAI_INLINE void ommai_avx512_transpose_8x16(const __m512i r[8], __m512i out[8]) {
  __m512i a[4], b[4], low[4], high[4];
  ommai_avx512_interleave4(r, a);
  ommai_avx512_interleave4(r + 4, b);
  ommai_avx512_lanes4(a[0], b[0], a[1], b[1], low);
  ommai_avx512_lanes4(a[2], b[2], a[3], b[3], high);
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    out[2 * i] = low[i];
    out[2 * i + 1] = high[i];
  }
}

OMMAI_INLINE void ommai_avx512_transpose_16x16(const __m512i r[16], __m512i out[16]) {
  __m512i q[4][4], lanes[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) ommai_avx512_interleave4(r + 4 * i, q[i]);
#pragma GCC unroll 4
  for (int j = 0; j < 4; j++) {
    ommai_avx512_lanes4(q[0][j], q[1][j], q[2][j], q[3][j], lanes);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) out[4 * i + j] = lanes[i];
  }
}
