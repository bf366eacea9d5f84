/* Eight 32-bit lanes, and the bytes and 16-bit halves in them, under the names that the integer
 * kernels without VNNI use. */
#ifndef OMMAI_KERNELS_X86_INTEGER_LANES_AVX2_H
#define OMMAI_KERNELS_X86_INTEGER_LANES_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#define OMMAI_INLINE static inline __attribute__((always_inline))

enum { LANES = 8 };
typedef __m256i ivec;
typedef __m256 fvec;

OMMAI_INLINE ivec ivec_load(const void *at) { return _mm256_loadu_si256(at); }
OMMAI_INLINE void ivec_store(void *at, ivec a) { _mm256_storeu_si256(at, a); }
OMMAI_INLINE ivec ivec_zero(void) { return _mm256_setzero_si256(); }
OMMAI_INLINE ivec ivec_set1(int32_t value) { return _mm256_set1_epi32(value); }
OMMAI_INLINE ivec ivec_add(ivec a, ivec b) { return _mm256_add_epi32(a, b); }
OMMAI_INLINE ivec ivec_sub(ivec a, ivec b) { return _mm256_sub_epi32(a, b); }
OMMAI_INLINE ivec ivec_mul(ivec a, ivec b) { return _mm256_mullo_epi32(a, b); }
OMMAI_INLINE ivec ivec_and(ivec a, ivec b) { return _mm256_and_si256(a, b); }
/* Halves. */
OMMAI_INLINE ivec ivec_add_halves(ivec a, ivec b) { return _mm256_add_epi16(a, b); }
OMMAI_INLINE ivec ivec_down(ivec a, const int bits) { return _mm256_srli_epi16(a, bits); }
OMMAI_INLINE ivec ivec_low_bytes(ivec a) { return _mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8); }
OMMAI_INLINE ivec ivec_high_bytes(ivec a) { return _mm256_srai_epi16(a, 8); }
/* In each lane the sum of two products of halves. */
OMMAI_INLINE ivec ivec_products(ivec a, ivec b) { return _mm256_madd_epi16(a, b); }
/* In each half the sum of two products of bytes, a's unsigned, b's signed; for sums below 2^15. */
OMMAI_INLINE ivec ivec_byte_products(ivec a, ivec b) { return _mm256_maddubs_epi16(a, b); }

OMMAI_INLINE fvec fvec_load(const float *at) { return _mm256_loadu_ps(at); }
OMMAI_INLINE void fvec_store(float *at, fvec a) { _mm256_storeu_ps(at, a); }
OMMAI_INLINE fvec fvec_zero(void) { return _mm256_setzero_ps(); }
OMMAI_INLINE fvec fvec_of(ivec a) { return _mm256_cvtepi32_ps(a); }
OMMAI_INLINE fvec fvec_fma(fvec a, fvec b, fvec c) { return _mm256_fmadd_ps(a, b, c); }
OMMAI_INLINE fvec fvec_less_product(fvec a, fvec b, fvec c) { return _mm256_fnmadd_ps(a, b, c); }

/* 16 bytes as halves, of each four a0 a1 a2 a3 in the order a0 a2 a1 a3. */
OMMAI_INLINE void halves_in_pairs(const int8_t *from, int16_t *to) {
  const __m128i order = _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
  _mm256_storeu_si256((void *)to, _mm256_cvtepi8_epi16(_mm_shuffle_epi8(_mm_loadu_si128((const void *)from), order)));
}

#endif
