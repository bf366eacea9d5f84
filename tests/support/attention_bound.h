/* What a row of the attention operator may be off by, relative to the sum of |weight * value|. */
#ifndef OMMA_TESTS_ATTENTION_BOUND_H
#define OMMA_TESTS_ATTENTION_BOUND_H

#include <omma/attention.h>

/* From so many dimensions on a row's norm says something: in fewer, a row may cancel by chance. */
enum { ATTENTION_MANY_DIMS = 36 };

/* The rounding of the type. In bf16 a weight, the sum of the weights and the result are off by up to 2^-8 each; over many
 * dimensions these errors meet by their root mean square, in a few they may add up. */
static inline double attention_unit(enum omma_dtype dtype, int32_t v_head_dim) {
  if (dtype == OMMA_BF16) return v_head_dim < ATTENTION_MANY_DIMS ? 3 * 0x1p-8 : 4e-3;
  return dtype == OMMA_F32 ? 2e-6 : 1e-3;
}

#endif
