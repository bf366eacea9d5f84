/* 8-bit values. Weights are symmetric: w = scale * q, scale = max|w| / 127. Inputs have a zero
 * point, so that a row from an activation with next to no negative values loses no bit: x = scale *
 * (q - zero), q and zero in -128 .. 127, scale = (max - min) / 255 with 0 counted among the values,
 * which makes 0 exact. All rounding is to nearest even. */
#pragma once

#include <float.h>
#include <stdint.h>

#include "base/half.h"

#define OMMAI_INT8_MAX 127
/* Steps from -128 to 127. */
#define OMMAI_INT8_STEPS 255

/* How a row of inputs was brought to 8 bits. */
struct ommai_int8_row {
  float scale;
  int32_t zero;
};

/* Bits of |value|. They order as the magnitudes do, and NaN comes last, so that the greatest of a
 * vector with NaN is NaN. */
static inline int32_t ommai_magnitude_bits(float value) { return (int32_t)(ommai_bits_from_f32(value) & 0x7fffffffu); }

/* `levels` / range; 0 where that is not finite, so that values of a range below 1e-36 count as
 * 0. */
static inline float ommai_int8_inverse(float range, int levels) {
  float inverse = (float)levels / range;
  return inverse <= FLT_MAX ? inverse : 0.0f;
}

/* The integer nearest to a value of at most 2^21, from the bits of value + 1.5 * 2^23; without a
 * conversion, which would be undefined for NaN. Some integer for other values. */
static inline int32_t ommai_round_whole(float value) {
  return (int32_t)(ommai_bits_from_f32(value + 12582912.0f) & 0x7fffffu) - 0x400000;
}
