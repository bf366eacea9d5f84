/* Eight 32-bit lanes, and the bytes and 16-bit halves in them, under the names that the integer
 * kernels without VNNI use. */
#pragma once

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#define OMMAI_INLINE static inline __attribute__((always_inline))

enum { LANES = 8 };
typedef __m256i ivec;
typedef __m256 fvec;

OMMAI_INLINE ivec ivec_load(const void *at) { return _mm256_loadu_si256(at); }
OMMAI_INLINE void ivec_store(void *at, ivec a) { _mm256_storeu_si256(at, a); }
OMMAI_INLINE ivec ivec_zero(void) { return _mm256_setzero_si256(); }
OMMAI_INLINE ivec ivec_set1(int32_t value) { return _mm256_set1_epi32(value); }
/* Four bytes in all lanes. Not the intrinsic: GCC 12 may load them into a general register first,
 * three instructions instead of one. */
OMMAI_INLINE ivec ivec_broadcast4(const void *x) {
  typedef int32_t four_bytes __attribute__((may_alias, aligned(1)));
  ivec all;
  __asm__("vpbroadcastd %1, %0" : "=x"(all) : "m"(*(const four_bytes *)x));
  return all;
}
OMMAI_INLINE ivec ivec_add(ivec a, ivec b) { return _mm256_add_epi32(a, b); }
OMMAI_INLINE ivec ivec_sub(ivec a, ivec b) { return _mm256_sub_epi32(a, b); }
OMMAI_INLINE ivec ivec_mul(ivec a, ivec b) { return _mm256_mullo_epi32(a, b); }
OMMAI_INLINE ivec ivec_and(ivec a, ivec b) { return _mm256_and_si256(a, b); }
OMMAI_INLINE ivec ivec_xor(ivec a, ivec b) { return _mm256_xor_si256(a, b); }
/* Of bytes; -128 gives 128. */
OMMAI_INLINE ivec ivec_magnitudes(ivec a) { return _mm256_abs_epi8(a); }
/* Halves. */
OMMAI_INLINE ivec ivec_add_halves(ivec a, ivec b) { return _mm256_add_epi16(a, b); }
/* *sum += a. Not the intrinsic: GCC 12 adds in another order then and moves sums between
 * registers. */
OMMAI_INLINE void ivec_add_halves_to(ivec *sum, ivec a) { __asm__("vpaddw %1, %0, %0" : "+x"(*sum) : "x"(a)); }
OMMAI_INLINE ivec ivec_down(ivec a, const int bits) { return _mm256_srli_epi16(a, bits); }
OMMAI_INLINE bool ivec_any_half_above(ivec a, int16_t value) {
  return _mm256_movemask_epi8(_mm256_cmpgt_epi16(a, _mm256_set1_epi16(value))) != 0;
}
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
