/* The row operations in plain C. Included once per CPU level by a file that defines ROW_OPS_TABLE
 * (the name of the table) and ROW_OPS_LEVEL; the compiler vectorises the loops for that level. No
 * fused multiply-add is formed (-ffp-contract=off), so that all levels agree bit for bit.
 * Deliberately without an include guard. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "kernels/dtype.h"
#include "kernels/gemv.h"
#include "kernels/int8.h"
#include "kernels/row_ops.h"

enum { LANES = 16, PANEL = OMMAI_PANEL_COLUMNS };

/* The sixteen partial sums, added as a tree. Not inlined: with the loop before it GCC 12 would keep
 * the sums in single registers. */
static __attribute__((noinline)) float sum_lanes(const float lanes[LANES]) {
  float eight[LANES / 2], four[LANES / 4];
  for (int i = 0; i < LANES / 2; i++) eight[i] = lanes[i] + lanes[i + LANES / 2];
  for (int i = 0; i < LANES / 4; i++) four[i] = eight[i] + eight[i + LANES / 4];
  return (four[0] + four[2]) + (four[1] + four[3]);
}

static void store(float value, void *out, int64_t i, enum omma_dtype type) {
  if (type == OMMA_F32) {
    ((float *)out)[i] = value;
  } else {
    ((ommai_bf16 *)out)[i] = ommai_bf16_from_f32(value);
  }
}

static float sum(const float *x, int64_t d) {
  float lanes[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= d; i += LANES) {
    for (int lane = 0; lane < LANES; lane++) lanes[lane] += x[i + lane];
  }
  for (int lane = 0; i < d; i++, lane++) lanes[lane] += x[i];
  return sum_lanes(lanes);
}

static float sum_squares(const float *x, float mean, int64_t d) {
  float lanes[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= d; i += LANES) {
    for (int lane = 0; lane < LANES; lane++) {
      float difference = x[i + lane] - mean;
      lanes[lane] += difference * difference;
    }
  }
  for (int lane = 0; i < d; i++, lane++) {
    float difference = x[i] - mean;
    lanes[lane] += difference * difference;
  }
  return sum_lanes(lanes);
}

static void layer_norm(const float *x, const float *weight, const float *bias, float eps, int64_t d, void *out,
                       enum omma_dtype out_type) {
  float mean = sum(x, d) / (float)d;
  float scale = 1.0f / sqrtf(sum_squares(x, mean, d) / (float)d + eps);
  if (out_type == OMMA_F32) {
    for (int64_t i = 0; i < d; i++) store((x[i] - mean) * scale * weight[i] + bias[i], out, i, OMMA_F32);
  } else {
    for (int64_t i = 0; i < d; i++) store((x[i] - mean) * scale * weight[i] + bias[i], out, i, OMMA_BF16);
  }
}

static void rms_norm(const float *x, const float *weight, float eps, int64_t d, void *out, enum omma_dtype out_type) {
  float scale = 1.0f / sqrtf(sum_squares(x, 0.0f, d) / (float)d + eps);
  if (out_type == OMMA_F32) {
    for (int64_t i = 0; i < d; i++) store(weight[i] * (x[i] * scale), out, i, OMMA_F32);
  } else {
    for (int64_t i = 0; i < d; i++) store(weight[i] * (x[i] * scale), out, i, OMMA_BF16);
  }
}

static void rope_head(const float *restrict x, const float *restrict cos, const float *restrict sin, int64_t half, void *out,
                      enum omma_dtype out_type) {
  for (int64_t j = 0; j < half; j++) store(x[j] * cos[j] - x[j + half] * sin[j], out, j, out_type);
  for (int64_t j = 0; j < half; j++) store(x[j + half] * cos[j] + x[j] * sin[j], out, j + half, out_type);
}

static void rope_half(const float *x, const float *cos, const float *sin, int64_t n_heads, int64_t d, void *out,
                      int64_t out_head_stride, enum omma_dtype out_type) {
  for (int64_t h = 0; h < n_heads; h++) {
    if (out_type == OMMA_F32) {
      rope_head(x + h * d, cos, sin, d / 2, (float *)out + h * out_head_stride, OMMA_F32);
    } else {
      rope_head(x + h * d, cos, sin, d / 2, (ommai_bf16 *)out + h * out_head_stride, OMMA_BF16);
    }
  }
}

static void turn_pairs(const float *restrict x, const float *restrict cos, const float *restrict sin, int64_t half, void *out,
                       enum omma_dtype out_type) {
  for (int64_t j = 0; j < half; j++) {
    store(x[2 * j] * cos[j] - x[2 * j + 1] * sin[j], out, 2 * j, out_type);
    store(x[2 * j + 1] * cos[j] + x[2 * j] * sin[j], out, 2 * j + 1, out_type);
  }
}

static void rope_pairs(const float *x, const float *cos, const float *sin, int64_t n_heads, int64_t d, void *out,
                       int64_t out_head_stride, enum omma_dtype out_type) {
  for (int64_t h = 0; h < n_heads; h++) {
    if (out_type == OMMA_F32) {
      turn_pairs(x + h * d, cos, sin, d / 2, (float *)out + h * out_head_stride, OMMA_F32);
    } else {
      turn_pairs(x + h * d, cos, sin, d / 2, (ommai_bf16 *)out + h * out_head_stride, OMMA_BF16);
    }
  }
}

/* yes ? a : b without a branch, out of which compilers for AVX2 make a loop that they cannot
 * vectorise. */
static inline __attribute__((always_inline)) float chosen(bool yes, float a, float b) {
  uint32_t take = 0u - (uint32_t)yes;
  return ommai_f32_from_bits((ommai_bits_from_f32(a) & take) | (ommai_bits_from_f32(b) & ~take));
}

/* Values whose steps stand side by side in the functions below: one after the other they would wait
 * for each other's results. The compiler keeps most of a group in registers. */
enum { GROUP = 128 };

/* n values, 1 to GROUP - 1, and the first again and again. */
static inline const float *padded(const float *x, int64_t n, float *group) {
  for (int i = 0; i < GROUP; i++) group[i] = x[0];
  memcpy(group, x, (size_t)n * sizeof *x);
  return group;
}

/* run for every group of x, in place; what is left at the end goes through a group of its own. */
static inline __attribute__((always_inline)) void in_groups(float *x, int64_t d, void (*run)(float *restrict group)) {
  int64_t at = 0;
  for (; at + GROUP <= d; at += GROUP) run(x + at);
  if (at == d) return;
  float group[GROUP];
  padded(x + at, d - at, group);
  run(group);
  memcpy(x + at, group, (size_t)(d - at) * sizeof *group);
}

/* Sanitizers' checks would stand before every element, and keep the compiler from vectorising. Only
 * for a function whose pointers lead to arrays of GROUP values on its caller's stack. */
#define WITHOUT_CHECKS __attribute__((no_sanitize("address", "thread", "undefined")))

/* e^x, in place, for x <= 88 to 2 units in the last place, without branches: 2^n from the exponent
 * bits times a polynomial for |r| <= ln(2)/2 (minimax coefficients as published in Cephes' expf).
 * Below -87 the result is e^-87, near enough to 0. */
static inline WITHOUT_CHECKS void exp_group(float *restrict x) {
  float shifted[GROUP], r[GROUP], p[GROUP];
  for (int i = 0; i < GROUP; i++) x[i] = chosen(x[i] < -87.0f, -87.0f, x[i]);
  for (int i = 0; i < GROUP; i++) x[i] = chosen(x[i] > 88.0f, 88.0f, x[i]);
  /* rounds to an integer in the low bits */
  for (int i = 0; i < GROUP; i++) shifted[i] = x[i] * 1.44269504f + 12582912.0f;
  for (int i = 0; i < GROUP; i++) p[i] = shifted[i] - 12582912.0f;
  for (int i = 0; i < GROUP; i++) r[i] = x[i] - p[i] * 0.693359375f;
  for (int i = 0; i < GROUP; i++) r[i] = r[i] + p[i] * 2.12194440e-4f;
  for (int i = 0; i < GROUP; i++) p[i] = 1.9875691500e-4f * r[i] + 1.3981999507e-3f;
  for (int i = 0; i < GROUP; i++) p[i] = p[i] * r[i] + 8.3334519073e-3f;
  for (int i = 0; i < GROUP; i++) p[i] = p[i] * r[i] + 4.1665795894e-2f;
  for (int i = 0; i < GROUP; i++) p[i] = p[i] * r[i] + 1.6666665459e-1f;
  for (int i = 0; i < GROUP; i++) p[i] = p[i] * r[i] + 5.0000001201e-1f;
  for (int i = 0; i < GROUP; i++) p[i] = p[i] * (r[i] * r[i]) + r[i] + 1.0f;
  for (int i = 0; i < GROUP; i++) { /* n + 127, and no conversion of a NaN */
    x[i] = p[i] * ommai_f32_from_bits((ommai_bits_from_f32(shifted[i]) << 23) + (127u << 23));
  }
}

static inline void exp_scaled_group(const float *restrict x, float shift, float scale, void *restrict out,
                                    enum omma_dtype type) {
  float e[GROUP];
  for (int i = 0; i < GROUP; i++) e[i] = (x[i] - shift) * scale;
  exp_group(e);
  for (int i = 0; i < GROUP; i++) store(e[i], out, i, type);
}

static inline __attribute__((always_inline)) void exp_scaled_type(const float *x, float shift, float scale, int64_t d,
                                                                  void *out, enum omma_dtype type) {
  int64_t at = 0;
  for (; at + GROUP <= d; at += GROUP) exp_scaled_group(x + at, shift, scale, ommai_element(out, at, type), type);
  if (at == d) return;
  float group[GROUP], rest[GROUP];
  exp_scaled_group(padded(x + at, d - at, group), shift, scale, rest, type);
  memcpy(ommai_element(out, at, type), rest, (size_t)(d - at) * ommai_dtype_size(type));
}

static void exp_scaled(const float *x, float shift, float scale, int64_t d, void *out, enum omma_dtype out_type) {
  if (out_type == OMMA_F32) {
    exp_scaled_type(x, shift, scale, d, out, OMMA_F32);
  } else {
    exp_scaled_type(x, shift, scale, d, out, OMMA_BF16);
  }
}

/* x times the sigmoid of gate, or its SiLU. */
static inline __attribute__((always_inline)) void gate_group(const float *restrict gate, const float *restrict x, bool silu,
                                                             void *restrict out, enum omma_dtype type) {
  float e[GROUP];
  for (int i = 0; i < GROUP; i++) e[i] = -gate[i];
  exp_group(e);
  if (silu) {
    for (int i = 0; i < GROUP; i++) store(gate[i] / (1.0f + e[i]) * x[i], out, i, type);
  } else {
    for (int i = 0; i < GROUP; i++) store(x[i] / (1.0f + e[i]), out, i, type);
  }
}

static inline __attribute__((always_inline)) void gate_type(const float *gate, const float *x, bool silu, int64_t d, void *out,
                                                            enum omma_dtype type) {
  int64_t at = 0;
  for (; at + GROUP <= d; at += GROUP) gate_group(gate + at, x + at, silu, ommai_element(out, at, type), type);
  if (at == d) return;
  float gates[GROUP], xs[GROUP], rest[GROUP];
  gate_group(padded(gate + at, d - at, gates), padded(x + at, d - at, xs), silu, rest, type);
  memcpy(ommai_element(out, at, type), rest, (size_t)(d - at) * ommai_dtype_size(type));
}

static void silu_mul(const float *gate, const float *up, int64_t d, void *out, enum omma_dtype out_type) {
  if (out_type == OMMA_F32) {
    gate_type(gate, up, true, d, out, OMMA_F32);
  } else {
    gate_type(gate, up, true, d, out, OMMA_BF16);
  }
}

static void sigmoid_mul(const float *gate, const float *x, int64_t d, void *out, enum omma_dtype out_type) {
  if (out_type == OMMA_F32) {
    gate_type(gate, x, false, d, out, OMMA_F32);
  } else {
    gate_type(gate, x, false, d, out, OMMA_BF16);
  }
}

static void convert(const float *x, int64_t d, void *out, enum omma_dtype out_type) {
  if (out_type == OMMA_F32) {
    for (int64_t i = 0; i < d; i++) store(x[i], out, i, OMMA_F32);
  } else {
    for (int64_t i = 0; i < d; i++) store(x[i], out, i, OMMA_BF16);
  }
}

static inline void convolve_row(const float *restrict row, const float *restrict weights, int64_t d, float *restrict out) {
  for (int64_t i = 0; i < d; i++) out[i] += weights[i] * row[i];
}

/* Row after row: a head's channels stay in the first cache. */
static void convolve(const float *const *rows, const float *const *weights, int n, int64_t d, float *out) {
  memset(out, 0, (size_t)d * sizeof *out);
  for (int t = 0; t < n; t++) convolve_row(rows[t], weights[t], d, out);
}

static void add(float *y, const float *x, int64_t d) {
  for (int64_t i = 0; i < d; i++) y[i] += x[i];
}

/* `count` elements from `first` on; count is a constant in all but the last call, so that the sums
 * stay in registers. */
static inline void add_weighted_part(float *y, const float *const *rows, const float *weight, int n, int64_t first,
                                     int64_t count) {
  float sums[4 * LANES] = {0};
  for (int t = 0; t < n; t++) {
    for (int64_t i = 0; i < count; i++) sums[i] += weight[t] * rows[t][first + i];
  }
  for (int64_t i = 0; i < count; i++) y[first + i] += sums[i];
}

static void add_weighted(float *y, const float *const *rows, const float *weight, int n, int64_t d) {
  int64_t i = 0;
  for (; i + 4 * LANES <= d; i += 4 * LANES) add_weighted_part(y, rows, weight, n, i, 4 * LANES);
  add_weighted_part(y, rows, weight, n, i, d - i);
}

static inline void gelu_tanh_group(float *restrict x) {
  float e[GROUP];
  /* -2u */
  for (int i = 0; i < GROUP; i++) e[i] = -(1.59576912f * (x[i] + 0.044715f * (x[i] * x[i] * x[i])));
  exp_group(e);
  for (int i = 0; i < GROUP; i++) x[i] = x[i] / (1.0f + e[i]); /* 1 + tanh(u) = 2 / (1 + e^-2u) */
}

static void gelu_tanh(float *x, int64_t d) { in_groups(x, d, gelu_tanh_group); }

/* With half of erfc(|x| / sqrt(2)) to 1e-7: Abramowitz and Stegun 7.1.26. */
static inline void gelu_erf_group(float *restrict x) {
  float t[GROUP], e[GROUP], tail[GROUP];
  for (int i = 0; i < GROUP; i++) tail[i] = fabsf(x[i]) * 0.707106781f;
  for (int i = 0; i < GROUP; i++) t[i] = 1.0f / (1.0f + 0.3275911f * tail[i]);
  for (int i = 0; i < GROUP; i++) e[i] = -tail[i] * tail[i];
  exp_group(e);
  for (int i = 0; i < GROUP; i++) tail[i] = 1.061405429f * t[i] - 1.453152027f;
  for (int i = 0; i < GROUP; i++) tail[i] = tail[i] * t[i] + 1.421413741f;
  for (int i = 0; i < GROUP; i++) tail[i] = tail[i] * t[i] - 0.284496736f;
  for (int i = 0; i < GROUP; i++) tail[i] = tail[i] * t[i] + 0.254829592f;
  for (int i = 0; i < GROUP; i++) tail[i] = 0.5f * tail[i] * t[i] * e[i];
  for (int i = 0; i < GROUP; i++) x[i] = x[i] * chosen(x[i] < 0.0f, tail[i], 1.0f - tail[i]);
}

static void gelu_erf(float *x, int64_t d) { in_groups(x, d, gelu_erf_group); }

static inline void silu_group(float *restrict x) {
  float e[GROUP];
  for (int i = 0; i < GROUP; i++) e[i] = -x[i];
  exp_group(e);
  for (int i = 0; i < GROUP; i++) x[i] = x[i] / (1.0f + e[i]);
}

static void silu(float *x, int64_t d) { in_groups(x, d, silu_group); }

static inline void quick_gelu_group(float *restrict x) {
  float e[GROUP];
  for (int i = 0; i < GROUP; i++) e[i] = -1.702f * x[i];
  exp_group(e);
  for (int i = 0; i < GROUP; i++) x[i] = x[i] / (1.0f + e[i]);
}

static void quick_gelu(float *x, int64_t d) { in_groups(x, d, quick_gelu_group); }

static inline float load(const void *x, int64_t i, enum omma_dtype type) {
  return type == OMMA_F32 ? ((const float *)x)[i] : ommai_bf16_to_f32(((const ommai_bf16 *)x)[i]);
}

/* The bits of the largest magnitudes of the values above 0 and of those below. */
struct ends {
  uint32_t high, low;
};

static inline struct ends find_ends_f32(const float *x, int64_t d) {
  int32_t high = 0, low = 0;
  for (int64_t i = 0; i < d; i++) {
    int32_t bits = ommai_magnitude_bits(x[i]), negative = -(int32_t)(ommai_bits_from_f32(x[i]) >> 31);
    high = (bits & ~negative) > high ? bits & ~negative : high;
    low = (bits & negative) > low ? bits & negative : low;
  }
  return (struct ends){(uint32_t)high, (uint32_t)low};
}

/* The same by halves, of which twice as many go together. */
static inline struct ends find_ends_bf16(const ommai_bf16 *x, int64_t d) {
  int16_t high = 0, low = 0;
  for (int64_t i = 0; i < d; i++) {
    int16_t bits = (int16_t)(x[i] & 0x7fff), negative = (int16_t) - (x[i] >> 15);
    int16_t above = (int16_t)(bits & ~negative), below = (int16_t)(bits & negative);
    high = above > high ? above : high;
    low = below > low ? below : low;
  }
  return (struct ends){(uint32_t)high << 16, (uint32_t)low << 16};
}

static inline void quantise_type(const void *x, enum omma_dtype type, int64_t d, int8_t *restrict out,
                                 struct ommai_int8_row *row) {
  struct ends ends = type == OMMA_F32 ? find_ends_f32(x, d) : find_ends_bf16(x, d);
  float above = ommai_f32_from_bits(ends.high), below = ommai_f32_from_bits(ends.low);
  float inverse = ommai_int8_inverse(above + below, OMMAI_INT8_STEPS);
  int32_t zero = ommai_round_whole(below * inverse) - 128;
  for (int64_t i = 0; i < d; i++) {
    /* both ends may round up, to 128 */
    int32_t whole = ommai_round_whole(load(x, i, type) * inverse) + zero;
    out[i] = (int8_t)(whole < OMMAI_INT8_MAX ? whole : OMMAI_INT8_MAX);
  }
  *row = (struct ommai_int8_row){(above + below) / (float)OMMAI_INT8_STEPS, zero};
}

static void quantise(const void *x, enum omma_dtype x_type, int64_t d, int8_t *out, struct ommai_int8_row *row) {
  if (x_type == OMMA_F32) {
    quantise_type(x, OMMA_F32, d, out, row);
  } else {
    quantise_type(x, OMMA_BF16, d, out, row);
  }
}

static inline void quantise_symmetric_type(const void *x, enum omma_dtype type, int64_t d, int8_t *restrict out, float *scale) {
  int32_t max = 0;
  for (int64_t i = 0; i < d; i++) {
    int32_t bits = ommai_magnitude_bits(load(x, i, type));
    max = bits > max ? bits : max;
  }
  float range = ommai_f32_from_bits((uint32_t)max), inverse = ommai_int8_inverse(range, OMMAI_INT8_MAX);
  for (int64_t i = 0; i < d; i++) out[i] = (int8_t)ommai_round_whole(load(x, i, type) * inverse);
  *scale = range / (float)OMMAI_INT8_MAX;
}

static void quantise_symmetric(const void *x, enum omma_dtype x_type, int64_t d, int8_t *out, float *scale) {
  if (x_type == OMMA_F32) {
    quantise_symmetric_type(x, OMMA_F32, d, out, scale);
  } else {
    quantise_symmetric_type(x, OMMA_BF16, d, out, scale);
  }
}

static void group_sums(const int8_t *x, int64_t d, int64_t group, int32_t *sums) {
  for (int64_t first = 0; first < d; first += group) {
    int64_t n = d - first < group ? d - first : group;
    int32_t total = 0;
    for (int64_t i = 0; i < n; i++) total += x[first + i];
    *sums++ = total;
  }
}

/* Rows of a panel. Whole ones are loops of a constant length, without the checks that come before
 * others. */
static inline __attribute__((always_inline)) void scale_row(const float *restrict x, float scale, const float *restrict bias,
                                                            int64_t n, float *restrict out) {
  for (int64_t i = 0; i < n; i++) out[i] = x[i] * scale + bias[i];
}

static inline __attribute__((always_inline)) void add_scaled_row(float *restrict y, const float *restrict x, float scale,
                                                                 const float *restrict bias, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] += x[i] * scale + bias[i];
}

static inline __attribute__((always_inline)) void convert_row(const float *restrict x, int64_t n, void *restrict out,
                                                              enum omma_dtype type) {
  for (int64_t i = 0; i < n; i++) store(x[i], out, i, type);
}

static void scale_panel(const float *x, const float *scales, const float *bias, int64_t n_rows, int64_t n, float *out,
                        int64_t stride) {
  for (int64_t row = 0; row < n_rows; row++, x += PANEL, out += stride) {
    if (n == PANEL) {
      scale_row(x, scales[row], bias, PANEL, out);
    } else {
      scale_row(x, scales[row], bias, n, out);
    }
  }
}

static void add_scaled_panel(float *y, int64_t stride, const float *x, const float *scales, const float *bias, int64_t n_rows,
                             int64_t n) {
  for (int64_t row = 0; row < n_rows; row++, x += PANEL, y += stride) {
    if (n == PANEL) {
      add_scaled_row(y, x, scales[row], bias, PANEL);
    } else {
      add_scaled_row(y, x, scales[row], bias, n);
    }
  }
}

static void convert_panel(const float *x, int64_t n_rows, int64_t n, void *out, int64_t stride, enum omma_dtype out_type) {
  for (int64_t row = 0; row < n_rows; row++, x += PANEL) {
    void *to = ommai_element(out, row * stride, out_type);
    if (n < PANEL) {
      convert(x, n, to, out_type);
    } else if (out_type == OMMA_F32) {
      convert_row(x, PANEL, to, OMMA_F32);
    } else {
      convert_row(x, PANEL, to, OMMA_BF16);
    }
  }
}

/* The integer of -8 .. 7 nearest to a value of at most 2^21: the bits of it + 1.5 * 2^23. */
static inline int32_t nearest_int4_bits(float value) {
  const int32_t zero = 0x4b400000;
  int32_t bits = (int32_t)ommai_bits_from_f32(value + 12582912.0f);
  bits = bits < zero - 8 ? zero - 8 : bits;
  return bits > zero + 7 ? zero + 7 : bits;
}

static inline float nearest_int4(float value) { return ommai_f32_from_bits((uint32_t)nearest_int4_bits(value)) - 12582912.0f; }

/* What the error of a grid of 1 / inverse depends on: sums of x q and of q q over sixteen lanes.
 * Not inlined: GCC 12 would make vectors of what several calls have in common. */
static __attribute__((noinline)) void int4_products(const float *restrict x, int64_t d, float inverse, float *restrict products,
                                                    float *restrict squares) {
  int64_t i = 0;
  for (int lane = 0; lane < LANES; lane++) products[lane] = squares[lane] = 0.0f;
  for (; i + LANES <= d; i += LANES) {
    for (int lane = 0; lane < LANES; lane++) {
      float q = nearest_int4(x[i + lane] * inverse);
      products[lane] += x[i + lane] * q;
      squares[lane] += q * q;
    }
  }
  for (int lane = 0; i < d; i++, lane++) {
    float q = nearest_int4(x[i] * inverse);
    products[lane] += x[i] * q;
    squares[lane] += q * q;
  }
}

/* The value of the largest magnitude, with its sign. */
static float extreme(const float *x, int64_t d) {
  int32_t max = 0, negative = 0;
  for (int64_t i = 0; i < d; i++) {
    int32_t bits = ommai_magnitude_bits(x[i]);
    max = bits > max ? bits : max;
  }
  for (int64_t i = 0; i < d; i++) negative |= ommai_bits_from_f32(x[i]) == ((uint32_t)max | 0x80000000u);
  float magnitude = ommai_f32_from_bits((uint32_t)max);
  return negative ? -magnitude : magnitude;
}

/* With the scale that is best for integers q, sum(x q) / sum(q q), the squared error is sum(x x) -
 * sum(x q)^2 / sum(q q). */
static void fit_int4(const float *x, int64_t d, int8_t *out, float *scale) {
  enum { GRIDS = 8 };
  /* where the extreme falls on the grid */
  static const float ends[GRIDS] = {-8.6f, -8.2f, -7.8f, -7.4f, -7.0f, 7.4f, 7.0f, 6.6f};
  float largest = extreme(x, d), inverses[GRIDS], with_x[GRIDS], squares[GRIDS], scales[GRIDS], gains[GRIDS];
  float products[GRIDS][LANES], squared[GRIDS][LANES];
  int best = 0;
  /* no number fits: a scale that makes every sum NaN shows it */
  if (!(fabsf(largest) <= FLT_MAX)) {
    memset(out, 8, (size_t)d);
    *scale = largest;
    return;
  }
  for (int i = 0; i < GRIDS; i++) inverses[i] = ends[i] / largest;
  for (int i = 0; i < GRIDS; i++) int4_products(x, d, inverses[i], products[i], squared[i]);
  for (int i = 0; i < GRIDS; i++) with_x[i] = sum_lanes(products[i]);
  for (int i = 0; i < GRIDS; i++) squares[i] = sum_lanes(squared[i]);
  for (int i = 0; i < GRIDS; i++) scales[i] = with_x[i] / squares[i];
  for (int i = 0; i < GRIDS; i++) gains[i] = with_x[i] * scales[i];
  for (int i = 1; i < GRIDS; i++) best = gains[i] > gains[best] ? i : best;
  /* zeros, and values so small that an inverse is infinite, gain nothing */
  bool any = gains[best] > 0.0f;
  float inverse = any ? inverses[best] : 0.0f;
  for (int64_t i = 0; i < d; i++) out[i] = (int8_t)((nearest_int4_bits(x[i] * inverse) & 15) ^ 8);
  *scale = any ? scales[best] : 0.0f;
}

static void find_range(const float *x, int64_t d, struct ommai_row_range *range) {
  /* x - x is 0 for every number and NaN for NaN and infinity */
  float low[LANES], high[LANES], off[LANES] = {0};
  int64_t i = 0;
  for (int lane = 0; lane < LANES; lane++) {
    low[lane] = INFINITY;
    high[lane] = -INFINITY;
  }
  for (; i + LANES <= d; i += LANES) {
    for (int lane = 0; lane < LANES; lane++) {
      float value = x[i + lane];
      low[lane] = chosen(value < low[lane], value, low[lane]);
      high[lane] = chosen(value > high[lane], value, high[lane]);
      off[lane] += value - value;
    }
  }
  for (int lane = 0; i < d; i++, lane++) {
    low[lane] = chosen(x[i] < low[lane], x[i], low[lane]);
    high[lane] = chosen(x[i] > high[lane], x[i], high[lane]);
    off[lane] += x[i] - x[i];
  }
  *range = (struct ommai_row_range){low[0], high[0], sum_lanes(off) == 0.0f};
  for (int lane = 1; lane < LANES; lane++) {
    range->low = low[lane] < range->low ? low[lane] : range->low;
    range->high = high[lane] > range->high ? high[lane] : range->high;
  }
}

static inline void weigh_group(const float *restrict x, float shift, float scale, uint32_t *restrict out) {
  float e[GROUP];
  for (int i = 0; i < GROUP; i++) e[i] = (x[i] - shift) * scale;
  exp_group(e);
  for (int i = 0; i < GROUP; i++) out[i] = (uint32_t)(int32_t)(e[i] * (float)OMMAI_ROW_WEIGHT_ONE + 0.5f);
}

static void weigh(const float *x, float shift, float scale, int64_t d, uint32_t *out) {
  int64_t at = 0;
  for (; at + GROUP <= d; at += GROUP) weigh_group(x + at, shift, scale, out + at);
  if (at == d) return;
  float group[GROUP];
  uint32_t rest[GROUP];
  weigh_group(padded(x + at, d - at, group), shift, scale, rest);
  memcpy(out + at, rest, (size_t)(d - at) * sizeof *rest);
}

/* Weights whose sums of a lane stay within 32 bits. */
enum { SHARE_BLOCK = 8 * LANES };

static inline void share_block(const float *x, const uint32_t *weights, float threshold, uint64_t *sums, uint32_t *counts) {
  uint32_t block[LANES] = {0}, taken[LANES] = {0};
  for (int i = 0; i < SHARE_BLOCK; i += LANES) {
    for (int lane = 0; lane < LANES; lane++) {
      uint32_t take = 0u - (uint32_t)(x[i + lane] >= threshold);
      block[lane] += weights[i + lane] & take;
      taken[lane] -= take;
    }
  }
  for (int lane = 0; lane < LANES; lane++) sums[lane] += block[lane];
  for (int lane = 0; lane < LANES; lane++) counts[lane] += taken[lane];
}

static void add_shares(const float *x, const uint32_t *weights, int64_t d, const float *thresholds, int n,
                       struct ommai_row_share *shares) {
  uint64_t sums[OMMAI_ROW_MAX_THRESHOLDS][LANES] = {{0}};
  uint32_t counts[OMMAI_ROW_MAX_THRESHOLDS][LANES] = {{0}};
  int64_t whole = d - d % SHARE_BLOCK;
  for (int64_t i = 0; i < whole; i += SHARE_BLOCK) {
    for (int t = 0; t < n; t++) share_block(x + i, weights + i, thresholds[t], sums[t], counts[t]);
  }
  for (int t = 0; t < n; t++) {
    for (int64_t i = whole; i < d; i++) {
      shares[t].weight += x[i] >= thresholds[t] ? weights[i] : 0;
      shares[t].count += x[i] >= thresholds[t];
    }
    for (int lane = 0; lane < LANES; lane++) {
      shares[t].weight += sums[t][lane];
      shares[t].count += counts[t][lane];
    }
  }
}

/* Whether any of n values, a multiple of LANES, lies between. */
static inline bool any_between(const float *x, float low, float high, int n) {
  uint32_t found[LANES] = {0}, any = 0;
  for (int i = 0; i < n; i += LANES) {
    for (int lane = 0; lane < LANES; lane++) found[lane] |= (uint32_t)(x[i + lane] >= low) & (uint32_t)(x[i + lane] < high);
  }
  for (int lane = 0; lane < LANES; lane++) any |= found[lane];
  return any != 0;
}

/* Blocks of 4 * LANES, then of LANES; in those with an element, without a branch for each. */
static void list_between(const float *x, float low, float high, int64_t d, int32_t first, int32_t *out, int64_t *n_out) {
  int64_t n = 0;
  for (int64_t i = 0; i < d;) {
    if (i % (4 * LANES) == 0 && i + 4 * LANES <= d && !any_between(x + i, low, high, 4 * LANES)) {
      i += 4 * LANES;
      continue;
    }
    int64_t end = i + LANES < d ? i + LANES : d;
    if (end == i + LANES && !any_between(x + i, low, high, LANES)) i = end;
    for (; i < end; i++) {
      out[n] = first + (int32_t)i;
      n += (x[i] >= low) & (x[i] < high);
    }
  }
  *n_out = n;
}

const struct ommai_row_ops ROW_OPS_TABLE = {
#define ROW_OP_ENTRY(name, parameters) .name = name,
    OMMAI_ROW_OPS(ROW_OP_ENTRY)
#undef ROW_OP_ENTRY
        .level = ROW_OPS_LEVEL,
};
