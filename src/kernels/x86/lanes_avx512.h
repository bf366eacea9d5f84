/* Sixteen f32 lanes by AVX-512, under the names that the kernels for any vector width use; those that products need. */
#ifndef OMMAI_KERNELS_X86_LANES_AVX512_H
#define OMMAI_KERNELS_X86_LANES_AVX512_H

#include <immintrin.h>

#include "base/half.h"

#define OMMAI_INLINE static inline __attribute__((always_inline))

enum { LANES = 16 };
typedef __m512 vec;

OMMAI_INLINE vec vec_set1(float value) { return _mm512_set1_ps(value); }
OMMAI_INLINE vec vec_load(const float *at) { return _mm512_loadu_ps(at); }
OMMAI_INLINE void vec_store(float *at, vec value) { _mm512_storeu_ps(at, value); }
/* a b + c, rounded once. */
OMMAI_INLINE vec vec_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }

/* LANES pairs of bf16: the first of each, and the second. */
OMMAI_INLINE void vec_load_pairs(const ommai_bf16 *at, vec *first, vec *second) {
  __m512i pairs = _mm512_loadu_si512(at);
  *first = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
  *second = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32((int)0xffff0000u)));
}

#endif
