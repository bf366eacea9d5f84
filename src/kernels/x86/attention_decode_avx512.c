/* Decode kernels in f32 for AVX-512: f32 and bf16, which is widened when loaded, and f32 queries beside bf16 keys. */
#include "kernels/attention_kernels.h"
#include "kernels/x86/attention_avx512.h"

enum { ELEMENTS = 16 };

OMMAI_INLINE __mmask16 first_elements(int64_t count) { return ommai_avx512_first(count); }

OMMAI_INLINE void multiply_add(__m512 sums[4], const void *q, const void *const rows[4], int64_t at, __mmask16 mask,
                               struct ommai_attention_types types) {
  __m512 a = ommai_avx512_load(q, at, mask, types.q);
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) sums[i] = _mm512_fmadd_ps(a, ommai_avx512_load(rows[i], at, mask, types.kv), sums[i]);
}

#include "kernels/x86/attention_decode_avx512.h"

DECODE_KERNEL(f32, F32, F32, AVX512, avx512);
DECODE_KERNEL(f32_bf16, F32, BF16, AVX512, avx512);
DECODE_KERNEL(bf16, BF16, BF16, AVX512, avx512);
