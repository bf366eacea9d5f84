/* The decode kernel for bf16 with VDPBF16PS for the scores. */
#include "kernels/x86/attention_avx512.h"

OMMAI_INLINE __m512 multiply_row(__m512 sum, const void *q, const void *k, int32_t count, enum omma_dtype dtype) {
  (void)dtype;
  for (int64_t at = 0; at < count; at += 32) {
    __mmask32 mask = count - at >= 32 ? 0xffffffffu : (__mmask32)((1u << (count - at)) - 1);
    __m512i a = _mm512_maskz_loadu_epi16(mask, (const uint16_t *)q + at);
    __m512i b = _mm512_maskz_loadu_epi16(mask, (const uint16_t *)k + at);
    sum = _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
  }
  return sum;
}

#include "kernels/x86/attention_decode_avx512.h"

DECODE_KERNEL(bf16, BF16, AVX512_BF16, avx512_bf16);
