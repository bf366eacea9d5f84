/* What attention kernels for any vector width share. The including file includes one of lanes_*.h
 * before, which defines LANES, the type vec of that many f32, and the operations vec_... on it. */
#pragma once

#include <math.h>

#include "base/checked.h"
#include "kernels/attention_kernels.h"

#define LOG2_E 1.44269504088896340736f

enum { BLOCK = OMMAI_ATTENTION_BLOCK };

OMMAI_INLINE int64_t bytes_of(int64_t count, enum omma_dtype dtype) {
  return count * (int64_t)ommai_attention_element_size(dtype);
}

/* 2^x for x up to 127: a polynomial for the fraction, and the whole part goes into the exponent.
 * 2^0 is exactly 1, and below 2^-126 is 0. The coefficients are minimax fits of the relative error
 * on [0, 1) with the constant fixed at 1: 9e-5 (degree 3) and 2e-9 (degree 6). */
OMMAI_INLINE vec exp2_cubic(vec x) {
  vec n = vec_floor(x), f = vec_sub(x, n);
  vec p = vec_fma(f, vec_set1(0.077067196f), vec_set1(0.22764482f));
  p = vec_fma(p, f, vec_set1(0.69511682f));
  p = vec_fma(p, f, vec_set1(1.0f));
  return vec_raise(p, n, x);
}
OMMAI_INLINE vec exp2_full(vec x) {
  vec n = vec_floor(x), f = vec_sub(x, n);
  vec p = vec_fma(f, vec_set1(2.1612917e-4f), vec_set1(1.2467846e-3f));
  p = vec_fma(p, f, vec_set1(9.6754516e-3f));
  p = vec_fma(p, f, vec_set1(0.055485282f));
  p = vec_fma(p, f, vec_set1(0.24022931f));
  p = vec_fma(p, f, vec_set1(0.69314706f));
  p = vec_fma(p, f, vec_set1(1.0f));
  return vec_raise(p, n, x);
}

/* How far a score is below the maximum, in units of log2: exactly 0 for the maximum itself. */
OMMAI_INLINE vec below(vec score, vec maximum, vec scale) { return vec_mul(vec_sub(score, maximum), scale); }

/* The first `count` of elements [at, at + LANES) of a row; the other lanes are zeros and what they
 * stand for is not read. */
OMMAI_INLINE vec load_part(const void *row, int64_t at, int64_t count, enum omma_dtype dtype) {
  if (count >= LANES) return vec_load_row(row, at, dtype);
  if (count <= 0) return vec_zero();
  float part[LANES] = {0};
#pragma GCC unroll 1
  for (int64_t i = 0; i < count; i++) part[i] = ommai_attention_load(row, at + i, dtype);
  return vec_load(part);
}

OMMAI_INLINE void store_part(void *row, int64_t at, int64_t count, vec value, enum omma_dtype dtype) {
  if (count >= LANES) {
    vec_store_row(row, at, value, dtype);
    return;
  }
  float part[LANES];
  vec_store(part, value);
#pragma GCC unroll 1
  for (int64_t i = 0; i < count; i++) ommai_attention_store(row, at + i, dtype, part[i]);
}
