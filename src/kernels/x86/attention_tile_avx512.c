/* Tile kernels in f32 for AVX-512: f32, bf16 and f16 widened while packing, and integers multiplied
 * by their scales. */
#include "kernels/x86/attention_avx512.h"

#include "kernels/attention_element.h"
#include "kernels/attention_kernels.h"

enum { UNIT_DIMS = 1, UNIT_KEYS = 1, STEP_BLOCKS = 1, SUM_PARTS = 2, SUM_UNITS = 24 };
#define SIGN_BITS 0x80000000u

OMMAI_INLINE uint32_t first_elements(int64_t count) { return ommai_avx512_first(count); }

OMMAI_INLINE __m512i load_units(const void *row, int64_t at, uint32_t mask, enum omma_dtype dtype) {
  return _mm512_castps_si512(ommai_avx512_load(row, at, (__mmask16)mask, dtype));
}

OMMAI_INLINE __m512i load_kept(const void *row, int64_t at, uint32_t mask, const float *scales, int64_t key,
                               struct ommai_attention_types types) {
  if (types.kv != OMMA_INT8 || !mask) return load_units(row, at, mask, types.kv);
  __m512 units = _mm512_mul_ps(ommai_avx512_load(row, at, (__mmask16)mask, OMMA_INT8), _mm512_set1_ps(scales[key]));
  if (types.q == OMMA_F32) return _mm512_castps_si512(units);
  return _mm512_and_si512(ommai_avx512_round_bf16_bits(units), _mm512_set1_epi32((int)0xffff0000u));
}

OMMAI_INLINE __m512 multiply_add(__m512 sum, __m512i a, __m512i b) {
  return _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), sum);
}

OMMAI_INLINE __m512i make_unit(__m512 first, __m512 last) {
  (void)last;
  return _mm512_castps_si512(first);
}

OMMAI_INLINE void store_units(void *row, int64_t at, uint32_t mask, __m512i units, enum omma_dtype dtype) {
  ommai_avx512_store(row, at, (__mmask16)mask, _mm512_castsi512_ps(units), dtype);
}

/* Rows of values, eight dimensions at a time, to [v_head_dim / 8][BLOCK][8]. */
OMMAI_INLINE void pack_values(const struct ommai_attention_pack *job, uint32_t *out, struct ommai_attention_types types) {
  enum { GROUP_UNITS = OMMAI_ATTENTION_BLOCK * 8 };
  int64_t stride = job->v_stride * (int64_t)ommai_attention_element_size(types.kv);
  for (int64_t key = 0; key < OMMAI_ATTENTION_BLOCK; key++) {
    const unsigned char *row = (const unsigned char *)job->v + key * stride;
    for (int64_t at = 0; at < job->v_head_dim; at += 16) {
      __mmask16 mask = key < job->n_keys ? ommai_avx512_first(job->v_head_dim - at) : (__mmask16)0;
      __m512i units = load_kept(row, at, mask, job->v_scales, key, types);
      uint32_t *first = out + at / 8 * GROUP_UNITS + key * 8;
      _mm256_storeu_si256((__m256i *)(void *)first, _mm512_castsi512_si256(units));
      if (job->v_head_dim - at > 8) {
        _mm256_storeu_si256((__m256i *)(void *)(first + GROUP_UNITS), _mm512_extracti64x4_epi64(units, 1));
      }
    }
  }
}

/* Weights of one register of rows, and their sum as rounded. */
OMMAI_INLINE __m512 make_weights(const float *scores, uint32_t *weights, int64_t n_keys, int64_t stride, __m512 scale,
                                 __m512 maximum, enum omma_dtype dtype) {
  __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
  const __m512i kept = _mm512_set1_epi32((int)0xffff0000u);
  for (int64_t key = 0; key < n_keys; key += 2) {
    __m512 a = ommai_avx512_exp2(ommai_avx512_below(_mm512_load_ps(scores + key * stride), maximum, scale));
    __m512 b = ommai_avx512_exp2(ommai_avx512_below(_mm512_load_ps(scores + (key + 1) * stride), maximum, scale));
    if (dtype == OMMA_BF16) {
      a = _mm512_castsi512_ps(_mm512_and_si512(ommai_avx512_round_bf16_bits(a), kept));
      b = _mm512_castsi512_ps(_mm512_and_si512(ommai_avx512_round_bf16_bits(b), kept));
    }
    even = _mm512_add_ps(even, a);
    odd = _mm512_add_ps(odd, b);
    _mm512_store_ps(weights + key * stride, a);
    _mm512_store_ps(weights + (key + 1) * stride, b);
  }
  return _mm512_add_ps(even, odd);
}

#include "kernels/x86/attention_tile_avx512.h"

TILE_KERNEL(f32, F32, AVX512, avx512);
TILE_KERNEL(bf16, BF16, AVX512, avx512);
TILE_KERNEL(f16, F16, AVX512, avx512);
TILE_KERNEL_F32_BF16(AVX512, avx512);
TILE_KERNEL_KV8(f32, F32, AVX512, avx512);
TILE_KERNEL_KV8(bf16, BF16, AVX512, avx512);
