/* Random rows of q, k, v and out for one attention kernel, and the definition in double
 * precision. */
#pragma once

#include <omma/attention.h>

#include "kernels/attention_kernels.h"
#include "kernels/kernel_entry.h"

enum { ATTENTION_MAX_KEYS = 400, ATTENTION_MAX_ROWS = 64, ATTENTION_MAX_DIM = OMMA_ATTENTION_MAX_HEAD_DIM };

/* What a family of kernels takes. */
struct attention_limits {
  int32_t rows, row_step, keys, dim;
  bool masked;  /* row r may see r keys more than row 0 */
  bool sliding; /* a row may see its last keys alone */
};

/* [n, dim] in one type, `stride` elements from row to row; what lies between is NaN, what lies
 * around cannot be touched. Integers have scales [n], between such pages too; in_bf16: the kernel
 * takes their products rounded to bf16. */
struct attention_rows {
  struct guarded memory, scales;
  bool in_bf16;
  enum omma_dtype type;
  int64_t n, dim, stride;
};

struct attention_problem {
  struct ommai_attention_types types;
  int32_t n_rows, n_keys, head_dim, v_head_dim;
  int64_t first_visible; /* keys up to the last that row 0 sees; n_keys: that of every row */
  int64_t window_keys;   /* that a row sees at most */
  float scale;
  int values; /* which kind */
  struct attention_rows q, k, v, out;
};

/* Lengths at and next to the borders of tiles and blocks, head dimensions of real models; normal,
 * equal, huge, denormal and alternating values; rows aligned to their elements alone. */
struct attention_problem attention_problem_random(struct test_random *random, struct ommai_attention_types types,
                                                  const struct attention_limits *limits);

/* A plain problem of a given size, rows packed as in a fused q/k/v tensor of 16 heads. */
struct attention_problem attention_problem_fixed(struct ommai_attention_types types, int32_t n_rows, int32_t n_keys,
                                                 int32_t head_dim);

void attention_problem_free(struct attention_problem *problem);

/* The scales of rows of integers from row `index` on; NULL for other types. */
const float *attention_row_scales(const struct attention_rows *rows, int64_t index);

/* Address of a row. */
unsigned char *attention_row(const struct attention_rows *rows, int64_t index);

/* Weights that a kernel rounds to whole multiples of a unit, as attention_int8.h says. */
struct attention_whole_weights {
  const float *center;      /* [v_head_dim], of the values */
  const double *value_step; /* of each block of keys */
};

/* Distance (L2) of `found` [v_head_dim] from row `row` over keys [begin, end), as a share of what
 * the row's operands allow, and where `whole` is not NULL half a unit of each weight. */
double attention_row_error(const struct attention_problem *problem, int64_t row, int64_t begin, int64_t end, const float *found,
                           const struct attention_whole_weights *whole);

/* "f32", "bf16", "f16"; "f32_bf16" for f32 queries over bf16 keys and values; "f32_kv8", "bf16_kv8"
 * for queries over integers with scales. */
const char *attention_types_name(struct ommai_attention_types types);

/* "D 72/72, 65 keys, values 0", for messages. */
const char *attention_problem_name(const struct attention_problem *problem, char *out, size_t size);
