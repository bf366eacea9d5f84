/* Attention whose products are of 8-bit integers: what all its kernels compute in the same way.
 *
 *   Q = round(q / step_q), of each query row by itself;   K = round((k - center) / step_k), of
 *   each block of 64 keys
 *   score = (Q . K) * step_q * step_k,   Q . K exact
 *   V = round((v - v_center) / v_spread / step_v), of each block of 64 keys; v_center and v_spread
 *   of each dimension
 *
 * where a step is the largest magnitude over 127. The softmax does not see what is the same for all
 * keys, so any center serves; near the keys' mean little of the eight bits goes to what they have
 * in common. Weights w = 2^(score - maximum) are rounded in steps of 256 keys:
 *
 *   unit = the largest w * step_v of the step over 255, of each row by itself
 *   W = round(w * step_v / unit), 0 to 255
 *   out = v_center + v_spread * (sum over steps of unit * (W . V)) / (sum of w),   W . V exact
 *
 * So w * step_v is off by half a unit at most, besides the error of 2^x. What is lost of the many
 * keys whose weights round to zero counts as if their values were v_center: the sum of w is that
 * before rounding, as with the rounded ones those keys would be left out. */
#pragma once

#include <math.h>

/* Keys whose weights share a unit: a row's step begins at a multiple of it. */
#define OMMAI_ATTENTION_INT8_STEP 256
#define OMMAI_ATTENTION_INT8_LARGEST_WEIGHT 255.0f
/* So that weights and values of next to nothing divide nothing by zero. */
#define OMMAI_ATTENTION_INT8_LEAST_UNIT 0x1p-100f

/* One step of the integers, and its inverse. */
struct ommai_attention_int8_scale {
  float step, inverse;
};

/* For values up to `largest`. Where these are next to nothing all integers are 0. */
static inline struct ommai_attention_int8_scale ommai_attention_int8_scale(float largest) {
  if (!(largest > 0x1p-100f)) return (struct ommai_attention_int8_scale){0x1p-100f, 0.0f};
  return (struct ommai_attention_int8_scale){largest / 127.0f, 127.0f / largest};
}

/* 0 for values that are not finite. */
static inline float ommai_attention_to_int8(float value, float inverse) {
  float scaled = value * inverse;
  return fabsf(scaled) < 128.0f ? rintf(scaled) : 0.0f;
}
