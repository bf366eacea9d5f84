/* AVX512-BF16 in AVX-512: the instructions that kernels of the levels avx512_bf16 and amx use, bit
 * for bit, for CPUs without them. For tests alone: included before a kernel's source, it takes the
 * place of the intrinsics. */
#pragma once

#define OMMAI_BF16_MODEL
#define OMMAI_VDPBF16PS "vfmadd231ps" /* for the loop that measures the peak */
#include <immintrin.h>

#define BF16_MODEL static inline __attribute__((always_inline, unused))

/* fma(a[0], b[0], fma(a[1], b[1], sum)), each to nearest even, denormals as zeros. */
BF16_MODEL __m512 bf16_model_multiply_add(__m512 sum, __m512i a, __m512i b) {
  static const unsigned flushing = 0x1f80 | 0x8040;
  const __m512i second = _mm512_set1_epi32((int)0xffff0000u);
  __m512i a0 = _mm512_slli_epi32(a, 16), a1 = _mm512_and_si512(a, second);
  __m512i b0 = _mm512_slli_epi32(b, 16), b1 = _mm512_and_si512(b, second);
  unsigned before;
  __asm__(
      "stmxcsr %[before]\n\tldmxcsr %[flushing]\n\t"
      "vfmadd231ps %[b1], %[a1], %[sum]\n\tvfmadd231ps %[b0], %[a0], %[sum]\n\tldmxcsr %[before]"
      : [sum] "+v"(sum), [before] "=m"(before)
      : [flushing] "m"(flushing), [a0] "v"(a0), [a1] "v"(a1), [b0] "v"(b0), [b1] "v"(b1));
  return sum;
}

/* The nearest bf16, ties to even; NaN stays NaN, denormals become zeros. */
BF16_MODEL __m256i bf16_model_round(__m512 value) {
  __m512i bits = _mm512_castps_si512(value);
  __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  __mmask16 tiny = _mm512_testn_epi32_mask(bits, _mm512_set1_epi32(0x7f800000));
  rounded = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
  rounded = _mm512_mask_and_epi32(rounded, tiny, bits, _mm512_set1_epi32((int)0x80000000u));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}

BF16_MODEL __m512i bf16_model_round2(__m512 high, __m512 low) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(bf16_model_round(low)), bf16_model_round(high), 1);
}

#define _mm512_dpbf16_ps(sum, a, b) bf16_model_multiply_add(sum, (__m512i)(a), (__m512i)(b))
#define _mm256_dpbf16_ps(sum, a, b)                                                                                 \
  _mm512_castps512_ps256(bf16_model_multiply_add(_mm512_castps256_ps512(sum), _mm512_castsi256_si512((__m256i)(a)), \
                                                 _mm512_castsi256_si512((__m256i)(b))))
#define _mm512_cvtneps_pbh(value) ((__m256bh)bf16_model_round(value))
#define _mm512_cvtne2ps_pbh(high, low) ((__m512bh)bf16_model_round2(high, low))
