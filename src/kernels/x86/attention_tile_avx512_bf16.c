/* The tile kernel for bf16 with VDPBF16PS: two dimensions of a key, then two keys of a value, per
 * unit. */
#include "kernels/x86/attention_bf16_avx512.h"

enum { SUM_PARTS = 1, SUM_UNITS = OMMA_ATTENTION_MAX_HEAD_DIM };

OMMAI_INLINE __m512 make_weights(const float *scores, uint32_t *weights, int64_t n_keys, int64_t stride, __m512 scale,
                                 __m512 maximum, enum omma_dtype dtype) {
  (void)dtype;
  return weigh(scores, weights, n_keys, stride, scale, _mm512_mul_ps(maximum, scale));
}

#include "kernels/x86/attention_tile_avx512.h"

TILE_KERNEL(bf16, BF16, AVX512_BF16, avx512_bf16);
TILE_KERNEL_KV8(bf16, BF16, AVX512_BF16, avx512_bf16);
