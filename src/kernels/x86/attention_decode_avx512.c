/* Decode kernels in f32 for AVX-512: f32, and bf16 widened when loaded. */
#include "kernels/x86/attention_avx512.h"

OMMAI_INLINE __m512 multiply_row(__m512 sum, const void *q, const void *k, int32_t count, enum omma_dtype dtype) {
  __m512 other = _mm512_setzero_ps();
  for (int64_t at = 0; at < count; at += 32) {
    __mmask16 low = ommai_avx512_first(count - at), high = ommai_avx512_first(count - at - 16);
    sum = _mm512_fmadd_ps(ommai_avx512_load(q, at, low, dtype), ommai_avx512_load(k, at, low, dtype), sum);
    other = _mm512_fmadd_ps(ommai_avx512_load(q, at + 16, high, dtype), ommai_avx512_load(k, at + 16, high, dtype), other);
  }
  return _mm512_add_ps(sum, other);
}

#include "kernels/x86/attention_decode_avx512.h"

DECODE_KERNEL(f32, F32, AVX512, avx512);
DECODE_KERNEL(bf16, BF16, AVX512, avx512);
