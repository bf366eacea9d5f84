/* bfloat16 and IEEE half to f32 and back, one value at a time: round to nearest even, NaN stays
 * NaN. And 8-bit floats to f32. */
#pragma once

#include <stdint.h>
#include <string.h>

typedef uint16_t ommai_bf16;
typedef uint16_t ommai_f16;

static inline __attribute__((always_inline)) float ommai_f32_from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline __attribute__((always_inline)) uint32_t ommai_bits_from_f32(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float ommai_bf16_to_f32(ommai_bf16 value) { return ommai_f32_from_bits((uint32_t)value << 16); }

static inline ommai_bf16 ommai_bf16_from_f32(float value) {
  uint32_t bits = ommai_bits_from_f32(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (ommai_bf16)((bits >> 16) | 0x40u);
  return (ommai_bf16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static inline float ommai_f16_to_f32(ommai_f16 value) {
  uint32_t sign = (uint32_t)(value & 0x8000u) << 16;
  uint32_t exponent = (value >> 10) & 0x1fu;
  uint32_t fraction = value & 0x3ffu;
  if (exponent == 31) return ommai_f32_from_bits(sign | 0x7f800000u | fraction << 13 | (fraction ? 0x400000u : 0));
  if (exponent == 0) {
    float magnitude = (float)fraction * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return ommai_f32_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

static inline ommai_f16 ommai_f16_from_f32(float value) {
  uint32_t bits = ommai_bits_from_f32(value);
  uint32_t sign = (bits >> 16) & 0x8000u;
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (ommai_f16)(sign | 0x7e00u);
  if (magnitude >= 0x47800000u) return (ommai_f16)(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    /* Adding 0.5 lines a subnormal's last place up with the f32 fraction, and the addition rounds
     * to nearest even. */
    uint32_t shifted = ommai_bits_from_f32(ommai_f32_from_bits(magnitude) + 0.5f);
    return (ommai_f16)(sign | (shifted - 0x3f000000u));
  }
  magnitude += 0xfffu + ((magnitude >> 13) & 1u);
  return (ommai_f16)(sign | (magnitude - 0x38000000u) >> 13);
}

/* E4M3 without infinities (OCP 8-bit floating point, "E4M3"): a bias of 7, NaN where all bits but
 * the sign are set. */
static inline float ommai_e4m3_to_f32(uint8_t value) {
  uint32_t sign = (uint32_t)(value & 0x80u) << 24;
  uint32_t magnitude = value & 0x7fu;
  if (magnitude == 0x7f) return ommai_f32_from_bits(sign | 0x7fc00000u);
  if (magnitude < 8) return sign ? -(float)magnitude * 0x1p-9f : (float)magnitude * 0x1p-9f;
  return ommai_f32_from_bits(sign | ((magnitude << 20) + (120u << 23)));
}
