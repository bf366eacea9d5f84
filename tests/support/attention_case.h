/* Attention problems with inputs that depend on a segment's content number alone, so that the same
 * segment can be put among other neighbours, in other strides, modes of memory and teams; and
 * their results in double precision. */
#pragma once

#include <omma/attention.h>

#include "support/test.h"

enum attention_values { VALUES_NORMAL, VALUES_EQUAL, VALUES_HUGE, VALUES_DENORMAL, VALUES_ALTERNATING };

struct attention_segment {
  int64_t n_rows, n_keys; /* CAUSAL, DECODE: the last row sees n_keys keys */
  /* seed of its values. Rows of CAUSAL and DECODE are numbered by position */
  uint32_t content;
  bool poison; /* all its inputs are NaN */
};

struct attention_case {
  enum omma_attention_mode mode;
  enum omma_dtype dtype;
  bool bf16_kv, int8_kv, int8_scores;
  int32_t n_heads, n_kv_heads, head_dim, v_head_dim;
  float scale;
  int64_t window; /* CAUSAL, DECODE */
  bool paged;
  int64_t n_segments;
  const struct attention_segment *segments;
  int64_t tail_rows;
  int64_t pad;      /* elements after each row of a head */
  bool heads_first; /* [heads, tokens, dim] */
  enum attention_values values;
  bool index64;
  bool in_front; /* its memory begins at a page that cannot be touched, instead of ending there */
  const struct omma_team *team;
  int64_t slice; /* steps per omma_attention_run_range; 0: omma_attention_run */
};

/* Runs the case. Memory ends at a page that cannot be touched; everything in it that the operator
 * has no business with is NaN, pages too early for any row's window are -1 in the table; memory
 * around and between output rows is checked. Returns [rows, n_heads, v_head_dim] as f32, to be
 * freed. */
float *attention_case_run(const struct omma_attention_context *context, const struct attention_case *problem);

/* Fails the test when a row of `found` is further from the double-precision result than its
 * operands allow, or (normal values, 36 dimensions or more) than `relative` in L2. Only every
 * row_step-th row is looked at. What was expected of a case is kept until it is forgotten, for the
 * same one at another level or in other memory. From one thread at a time. */
void attention_case_check(const struct attention_case *problem, const float *found, double relative, int64_t row_step,
                          const char *label);
void attention_case_forget(void);

/* First row of a segment, and rows of all. */
int64_t attention_case_row(const struct attention_case *problem, int64_t segment);
