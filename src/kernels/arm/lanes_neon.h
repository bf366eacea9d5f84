/* Four f32 lanes by NEON, under the names that the kernels for any vector width use
 * (attention_lanes.h). */
#pragma once

#include <arm_neon.h>

#include "kernels/attention_element.h"

#define OMMAI_INLINE static inline __attribute__((always_inline))

/* Sums of the decode kernels that are held in registers, and spans of a row at a time. */
enum { LANES = 4, MAX_SUMS = 16, MAX_SPANS = 4 };
typedef float32x4_t vec;

OMMAI_INLINE vec vec_zero(void) { return vdupq_n_f32(0.0f); }
OMMAI_INLINE vec vec_set1(float value) { return vdupq_n_f32(value); }
OMMAI_INLINE vec vec_indices(void) { return (vec){0, 1, 2, 3}; }
OMMAI_INLINE vec vec_load(const float *at) { return vld1q_f32(at); }
OMMAI_INLINE void vec_store(float *at, vec value) { vst1q_f32(at, value); }
OMMAI_INLINE vec vec_add(vec a, vec b) { return vaddq_f32(a, b); }
OMMAI_INLINE vec vec_sub(vec a, vec b) { return vsubq_f32(a, b); }
OMMAI_INLINE vec vec_mul(vec a, vec b) { return vmulq_f32(a, b); }
OMMAI_INLINE vec vec_div(vec a, vec b) { return vdivq_f32(a, b); }
OMMAI_INLINE vec vec_max(vec a, vec b) { return vmaxq_f32(a, b); }
OMMAI_INLINE vec vec_floor(vec a) { return vrndmq_f32(a); }
/* a b + c, rounded once. */
OMMAI_INLINE vec vec_fma(vec a, vec b, vec c) { return vfmaq_f32(c, a, b); }

/* Lanes of ones where a > b. */
OMMAI_INLINE vec vec_greater(vec a, vec b) { return vreinterpretq_f32_u32(vcgtq_f32(a, b)); }
OMMAI_INLINE vec vec_select(vec mask, vec yes, vec no) { return vbslq_f32(vreinterpretq_u32_f32(mask), yes, no); }
OMMAI_INLINE bool vec_any(vec mask) { return vmaxvq_u32(vreinterpretq_u32_f32(mask)) != 0; }

/* p 2^n for p in [1, 2] and whole n of at most 127; 0 for x below the exponent of the smallest
 * normal number, where n = floor(x). NaN stays NaN. */
OMMAI_INLINE vec vec_raise(vec p, vec n, vec x) {
  int32x4_t exponent = vshlq_n_s32(vcvtq_s32_f32(n), 23);
  uint32x4_t raised = vreinterpretq_u32_s32(vaddq_s32(vreinterpretq_s32_f32(p), exponent));
  return vreinterpretq_f32_u32(vbicq_u32(raised, vcltq_f32(x, vdupq_n_f32(-126.0f))));
}

/* The nearest bf16, ties to even, in the high halves of the lanes; the low halves are not zero.
 * Infinities and NaN that came from bf16 stay what they are: the low half of their bits is
 * empty. */
OMMAI_INLINE uint32x4_t vec_bf16_bits(vec value) {
  uint32x4_t bits = vreinterpretq_u32_f32(value);
  uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
  return vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
}
OMMAI_INLINE vec vec_round_bf16(vec value) {
  return vreinterpretq_f32_u32(vandq_u32(vec_bf16_bits(value), vdupq_n_u32(0xffff0000u)));
}

/* Elements [at, at + LANES) of a row. */
OMMAI_INLINE vec vec_load_row(const void *row, int64_t at, enum omma_dtype dtype) {
  if (dtype == OMMA_F32) return vld1q_f32((const float *)row + at);
  if (dtype == OMMA_INT8) {
    uint32_t four;
    memcpy(&four, (const int8_t *)row + at, sizeof four);
    int8x8_t bytes = vreinterpret_s8_u32(vdup_n_u32(four));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes))));
  }
  uint16x4_t bits = vld1_u16((const uint16_t *)row + at);
  if (dtype == OMMA_F16) return vcvt_f32_f16(vreinterpret_f16_u16(bits));
  return vreinterpretq_f32_u32(vshll_n_u16(bits, 16));
}
OMMAI_INLINE void vec_store_row(void *row, int64_t at, vec value, enum omma_dtype dtype) {
  if (dtype == OMMA_F32) {
    vst1q_f32((float *)row + at, value);
  } else if (dtype == OMMA_F16) {
    vst1_u16((uint16_t *)row + at, vreinterpret_u16_f16(vcvt_f16_f32(value)));
  } else {
    vst1_u16((uint16_t *)row + at, vshrn_n_u32(vec_bf16_bits(value), 16));
  }
}

/* LANES pairs of bf16: the first of each, and the second. */
OMMAI_INLINE void vec_load_pairs(const ommai_bf16 *at, vec *first, vec *second) {
  uint32x4_t pairs = vreinterpretq_u32_u16(vld1q_u16(at));
  *first = vreinterpretq_f32_u32(vshlq_n_u32(pairs, 16));
  *second = vreinterpretq_f32_u32(vandq_u32(pairs, vdupq_n_u32(0xffff0000u)));
}
OMMAI_INLINE vec vec_load_seconds(const ommai_bf16 *at) {
  vec first, second;
  vec_load_pairs(at, &first, &second);
  return second;
}

/* Even and odd elements to two registers in order, and the other way. */
OMMAI_INLINE void vec_zip(vec span[2]) {
  float32x4x2_t zipped = vzipq_f32(span[0], span[1]);
  span[0] = zipped.val[0];
  span[1] = zipped.val[1];
}
OMMAI_INLINE void vec_unzip(vec span[2]) {
  float32x4x2_t unzipped = vuzpq_f32(span[0], span[1]);
  span[0] = unzipped.val[0];
  span[1] = unzipped.val[1];
}

OMMAI_INLINE void vec_transpose(vec r[LANES]) {
  float32x4x2_t a = vtrnq_f32(r[0], r[1]), b = vtrnq_f32(r[2], r[3]);
  r[0] = vcombine_f32(vget_low_f32(a.val[0]), vget_low_f32(b.val[0]));
  r[1] = vcombine_f32(vget_low_f32(a.val[1]), vget_low_f32(b.val[1]));
  r[2] = vcombine_f32(vget_high_f32(a.val[0]), vget_high_f32(b.val[0]));
  r[3] = vcombine_f32(vget_high_f32(a.val[1]), vget_high_f32(b.val[1]));
}

/* Sum and maximum over the lanes, and the sums of four registers, times a factor. */
OMMAI_INLINE float vec_sum(vec a) { return vaddvq_f32(a); }
OMMAI_INLINE float vec_largest(vec a) { return vmaxvq_f32(a); }
OMMAI_INLINE void vec_store_sums4(float *out, const vec x[4], float factor) {
  float32x4_t sums = vpaddq_f32(vpaddq_f32(x[0], x[1]), vpaddq_f32(x[2], x[3]));
  vst1q_f32(out, vmulq_n_f32(sums, factor));
}
