/* What the tile kernels with VDPBF16PS give attention_parts_avx512.h: two dimensions of a result,
 * two keys of a value, per unit. */
#pragma once

#include "kernels/attention_element.h"
#include "kernels/attention_kernels.h"
#include "kernels/x86/attention_avx512.h"

enum { UNIT_DIMS = 2, UNIT_KEYS = 2, STEP_BLOCKS = 4 };
#define SIGN_BITS 0x80008000u

OMMAI_INLINE uint32_t first_elements(int64_t count) { return count >= 32 ? 0xffffffffu : (1u << count) - 1; }

OMMAI_INLINE __m512i load_units(const void *row, int64_t at, uint32_t mask, enum omma_dtype dtype) {
  (void)dtype;
  return _mm512_maskz_loadu_epi16(mask, (const uint16_t *)row + 2 * at);
}

/* 16 integers of the row of a key times its scale, which is read where the mask is not empty. */
OMMAI_INLINE __m512 load_scaled(const void *row, int64_t at, __mmask16 mask, const float *scales, int64_t key) {
  if (!mask) return _mm512_setzero_ps();
  return _mm512_mul_ps(ommai_avx512_load(row, at, mask, OMMA_INT8), _mm512_set1_ps(scales[key]));
}

/* 16 elements of a row of values in bf16. */
OMMAI_INLINE __m256i load_value(const void *row, int64_t at, __mmask16 mask, const float *scales, int64_t key,
                                enum omma_dtype dtype) {
  if (dtype == OMMA_INT8) return (__m256i)_mm512_cvtneps_pbh(load_scaled(row, at, mask, scales, key));
  return _mm256_maskz_loadu_epi16(mask, (const uint16_t *)row + at);
}

OMMAI_INLINE __m512i load_kept(const void *row, int64_t at, uint32_t mask, const float *scales, int64_t key,
                               struct ommai_attention_types types) {
  if (types.kv != OMMA_INT8) return load_units(row, at, mask, types.kv);
  __m512 low = load_scaled(row, 2 * at, (__mmask16)mask, scales, key);
  __m512 high = load_scaled(row, 2 * at + 16, (__mmask16)(mask >> 16), scales, key);
  return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

/* Two vectors of f32 to bf16, element by element side by side. */
OMMAI_INLINE __m512i make_unit(__m512 first, __m512 last) {
  const __m512i pairs = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20,
                                         4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(pairs, (__m512i)_mm512_cvtne2ps_pbh(last, first));
}

OMMAI_INLINE void store_units(void *row, int64_t at, uint32_t mask, __m512i units, enum omma_dtype dtype) {
  (void)dtype;
  _mm512_mask_storeu_epi16((uint16_t *)row + at, mask, units);
}

OMMAI_INLINE __m512 multiply_add(__m512 sum, __m512i a, __m512i b) {
#ifdef OMMAI_BF16_MODEL
  return _mm512_dpbf16_ps(sum, a, b);
#else
  /* not the intrinsic: around that GCC 12 keeps copies of sums in memory */
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  return sum;
#endif
}

/* Two rows of values, interleaved, to [v_head_dim / 8][BLOCK / 2][8][2]. */
OMMAI_INLINE void pack_values(const struct ommai_attention_pack *job, uint32_t *out, struct ommai_attention_types types) {
  enum { GROUP_UNITS = OMMAI_ATTENTION_BLOCK / 2 * 8 };
  int64_t stride = job->v_stride * (int64_t)ommai_attention_element_size(types.kv);
  for (int64_t pair = 0; pair < OMMAI_ATTENTION_BLOCK / 2; pair++) {
    const unsigned char *row = (const unsigned char *)job->v + 2 * pair * stride;
    for (int64_t at = 0; at < job->v_head_dim; at += 16) {
      for (int64_t ahead = OMMAI_AVX512_ROWS_AHEAD; at % 32 == 0 && ahead < OMMAI_AVX512_ROWS_AHEAD + 2; ahead++) {
        ommai_avx512_prefetch(row, ahead * stride + at * (int64_t)ommai_attention_element_size(types.kv));
      }
      __mmask16 mask = ommai_avx512_first(job->v_head_dim - at);
      __m256i a = load_value(row, at, 2 * pair < job->n_keys ? mask : (__mmask16)0, job->v_scales, 2 * pair, types.kv);
      __m256i b =
          load_value(row + stride, at, 2 * pair + 1 < job->n_keys ? mask : (__mmask16)0, job->v_scales, 2 * pair + 1, types.kv);
      __m512i units = _mm512_or_si512(_mm512_cvtepu16_epi32(a), _mm512_slli_epi32(_mm512_cvtepu16_epi32(b), 16));
      uint32_t *first = out + at / 8 * GROUP_UNITS + pair * 8;
      _mm256_storeu_si256((__m256i *)(void *)first, _mm512_castsi512_si256(units));
      if (job->v_head_dim - at > 8) {
        _mm256_storeu_si256((__m256i *)(void *)(first + GROUP_UNITS), _mm512_extracti64x4_epi64(units, 1));
      }
    }
  }
}

/* Weights 2^(score * scale - max) of one register of rows, two keys to a unit. The sum is that of
 * the rounded weights: with that before rounding, the error of a weight that outweighs the others
 * would stay in the result. */
OMMAI_INLINE __m512 weigh(const float *scores, uint32_t *weights, int64_t n_keys, int64_t stride, __m512 scale, __m512 max) {
  const __m512i ones = _mm512_set1_epi32(0x3f803f80);
  __m512 sum = _mm512_setzero_ps();
  for (int64_t key = 0; key < n_keys; key += 2) {
    __m512 a = ommai_avx512_exp2_cubic(_mm512_fmsub_ps(_mm512_load_ps(scores + key * stride), scale, max));
    __m512 b = ommai_avx512_exp2_cubic(_mm512_fmsub_ps(_mm512_load_ps(scores + (key + 1) * stride), scale, max));
    __m512i unit = make_unit(a, b);
    sum = multiply_add(sum, unit, ones);
    _mm512_store_si512(weights + key / 2 * stride, unit);
  }
  return sum;
}
