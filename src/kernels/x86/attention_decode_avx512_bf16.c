/* The decode kernel for bf16 with VDPBF16PS for the scores. */
#include "kernels/attention_kernels.h"
#include "kernels/x86/attention_avx512.h"

enum { ELEMENTS = 32 };

OMMAI_INLINE __mmask32 first_elements(int64_t count) { return count >= 32 ? 0xffffffffu : (1u << count) - 1; }

OMMAI_INLINE void multiply_add(__m512 sums[4], const void *q, const void *const rows[4], int64_t at, __mmask32 mask,
                               struct ommai_attention_types types) {
  (void)types;
  __m512bh a = (__m512bh)_mm512_maskz_loadu_epi16(mask, (const uint16_t *)q + at);
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    sums[i] = _mm512_dpbf16_ps(sums[i], a, (__m512bh)_mm512_maskz_loadu_epi16(mask, (const uint16_t *)rows[i] + at));
  }
}

#include "kernels/x86/attention_decode_avx512.h"

DECODE_KERNEL(bf16, BF16, BF16, AVX512_BF16, avx512_bf16);
