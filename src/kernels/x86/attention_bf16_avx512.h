/* What the tile kernels with VDPBF16PS give attention_parts_avx512.h: two dimensions of a result,
 * two keys of a value, per unit. */
#ifndef OMMAI_KERNELS_X86_ATTENTION_BF16_AVX512_H
#define OMMAI_KERNELS_X86_ATTENTION_BF16_AVX512_H

#include "kernels/attention_kernels.h"
#include "kernels/x86/attention_avx512.h"

enum { UNIT_DIMS = 2, UNIT_KEYS = 2, STEP_BLOCKS = 4 };
#define SIGN_BITS 0x80008000u

OMMAI_INLINE uint32_t first_elements(int64_t count) { return count >= 32 ? 0xffffffffu : (1u << count) - 1; }

OMMAI_INLINE __m512i load_units(const void *row, int64_t at, uint32_t mask, enum omma_dtype dtype) {
  (void)dtype;
  return _mm512_maskz_loadu_epi16(mask, (const uint16_t *)row + 2 * at);
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

/* Not the intrinsic: around that GCC 12 keeps copies of sums in memory. */
OMMAI_INLINE __m512 multiply_add(__m512 sum, __m512i a, __m512i b) {
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  return sum;
}

/* Two rows of values, interleaved, to [v_head_dim / 8][BLOCK / 2][8][2]. */
OMMAI_INLINE void pack_values(const struct ommai_attention_pack *job, uint32_t *out, enum omma_dtype dtype) {
  (void)dtype;
  enum { GROUP_UNITS = OMMAI_ATTENTION_BLOCK / 2 * 8 };
  for (int64_t pair = 0; pair < OMMAI_ATTENTION_BLOCK / 2; pair++) {
    const uint16_t *row = (const uint16_t *)job->v + 2 * pair * job->v_stride;
    for (int64_t at = 0; at < job->v_head_dim; at += 16) {
      for (int64_t ahead = OMMAI_AVX512_ROWS_AHEAD; at % 32 == 0 && ahead < OMMAI_AVX512_ROWS_AHEAD + 2; ahead++) {
        ommai_avx512_prefetch(row, (ahead * job->v_stride + at) * 2);
      }
      __mmask16 mask = ommai_avx512_first(job->v_head_dim - at);
      __m256i a = _mm256_maskz_loadu_epi16(2 * pair < job->n_keys ? mask : (__mmask16)0, row + at);
      __m256i b = _mm256_maskz_loadu_epi16(2 * pair + 1 < job->n_keys ? mask : (__mmask16)0, row + job->v_stride + at);
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

#endif
