/* What a row of the attention operator may be off by. */
#pragma once

#include <math.h>
#include <omma/attention.h>

/* From that many dimensions on a row's norm is meaningful: in fewer, a row may cancel by
 * chance. */
enum { ATTENTION_MANY_DIMS = 36 };

/* The rounding of the type, relative to the sum of |weight * value|. In bf16 a weight, the sum of
 * the weights and the result are off by up to 2^-8 each; over many dimensions these errors meet by
 * their root mean square, in a few they may add up. */
static inline double attention_unit(enum omma_dtype dtype, int32_t v_head_dim) {
  if (dtype == OMMA_BF16) return v_head_dim < ATTENTION_MANY_DIMS ? 3 * 0x1p-8 : 4e-3;
  return dtype == OMMA_F32 ? 2e-6 : 1e-3;
}

/* How far errors of f32 scores, 4 * 2^-24 of the score terms sum |q k| scale for a score and the
 * largest one together, can move a weight of an exact softmax: it grows to at most e^x times
 * itself, and shrinks by less. What it gains or loses, others lose or gain. Counted so for every
 * key but that of the largest weight, times the difference of the two keys' values. */
static inline double attention_moved_weight(double weight, double score_terms) {
  return weight > 0.0 ? fmin(1.0, weight * expm1(4 * 0x1p-24 * score_terms)) : 0.0;
}
