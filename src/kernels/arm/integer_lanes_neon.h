/* Four 32-bit lanes under the names that the integer kernels of any vector width use. */
#pragma once

#include "kernels/arm/lanes_neon.h"

typedef int32x4_t ivec;
typedef vec fvec;

OMMAI_INLINE ivec ivec_load(const void *at) { return vld1q_s32(at); }
OMMAI_INLINE void ivec_store(void *at, ivec a) { vst1q_s32(at, a); }
OMMAI_INLINE ivec ivec_set1(int32_t value) { return vdupq_n_s32(value); }
OMMAI_INLINE ivec ivec_add(ivec a, ivec b) { return vaddq_s32(a, b); }
OMMAI_INLINE ivec ivec_sub(ivec a, ivec b) { return vsubq_s32(a, b); }
OMMAI_INLINE ivec ivec_mul(ivec a, ivec b) { return vmulq_s32(a, b); }

OMMAI_INLINE fvec fvec_load(const float *at) { return vec_load(at); }
OMMAI_INLINE void fvec_store(float *at, fvec a) { vec_store(at, a); }
OMMAI_INLINE fvec fvec_zero(void) { return vec_zero(); }
OMMAI_INLINE fvec fvec_of(ivec a) { return vcvtq_f32_s32(a); }
OMMAI_INLINE fvec fvec_fma(fvec a, fvec b, fvec c) { return vec_fma(a, b, c); }
OMMAI_INLINE fvec fvec_less_product(fvec a, fvec b, fvec c) { return vfmsq_f32(c, a, b); }
