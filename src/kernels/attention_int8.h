/* Attention whose scores are products of 8-bit integers: what all its kernels compute in the same
 * way, bit for bit.
 *
 *   Q = round(q / scale_q), of each query row by itself;   K = round((k - center) / scale_k), of
 *   each block of keys
 *   score = (Q . K) * scale_q * scale_k,   Q . K exact
 *
 * where a scale is the largest magnitude over 127. The softmax does not see what is the same for
 * all keys, so any center serves; near the keys' mean little of the eight bits goes to what they
 * have in common. Weights, sums and values are as in the other kernels. */
#pragma once

#include <math.h>

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
