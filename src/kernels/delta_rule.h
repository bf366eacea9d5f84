/* The gated delta rule: rows of one head after one another, with a matrix S [key_dim, value_dim] as
 * what is kept of all rows before. For each row, with key k, query q, value v, decay a and rate b:
 *
 *   S := a S;   d = b (v - S^T k);   S := S + k d^T;   out = S^T q
 *
 * Source: "Gated Delta Networks" (Yang, Kautz and Hatamizadeh, 2024).
 *
 * The columns of S do not see each other, so S is kept in strips of OMMAI_DELTA_COLUMNS of them:
 * [value_dim / OMMAI_DELTA_COLUMNS][key_dim][OMMAI_DELTA_COLUMNS]. The vector levels take a block
 * of rows at once, in exact arithmetic the same: with P_ij = a_{j+1} ... a_i, and S what was before
 * the block,
 *
 *   d_i = b_i (v_i - P_i S^T k_i - sum over j < i of P_ij (k_i . k_j) d_j)
 *   out_i = P_i S^T q_i + sum over j <= i of P_ij (q_i . k_j) d_j
 *
 * which reads and writes S once for a block. A row's bits depend on the rows before it and on where
 * blocks begin, not on how many rows of its block come after it. */
#pragma once

#include <stdint.h>

#include "kernels/cpu.h"

enum { OMMAI_DELTA_ROWS = 16, OMMAI_DELTA_COLUMNS = 32, OMMAI_DELTA_MAX_DIM = 256 };

struct ommai_delta_rows {
  int64_t n_rows;              /* 1 .. OMMAI_DELTA_ROWS */
  int64_t key_dim, value_dim;  /* 1 .. OMMAI_DELTA_MAX_DIM; value_dim in whole strips */
  const float *keys_queries;   /* [n_rows][2][key_dim]: a key, then a query */
  const float *values;         /* [n_rows][value_dim] */
  const float *decays, *rates; /* [n_rows]; decays in 0 .. 1 */
};

/* Pointers need only their natural alignment. Single-threaded; no allocation. */
struct ommai_delta_kernels {
  enum ommai_cpu_level level;
  /* From the state `from` to the state `to`, which may be the same; out [n_rows][value_dim]. */
  void (*run)(const struct ommai_delta_rows *rows, const float *from, float *to, float *out);
};

/* All there are: X(level). */
#define OMMAI_DELTA_KERNELS(X) X(scalar) OMMAI_VECTOR_LEVELS(X)
#define OMMAI_DELTA_DECLARE(level) extern const struct ommai_delta_kernels ommai_delta_##level;
OMMAI_DELTA_KERNELS(OMMAI_DELTA_DECLARE)
#undef OMMAI_DELTA_DECLARE

/* As a list, and the best up to `level`. */
extern const struct ommai_delta_kernels *const ommai_delta_kernels[];
const struct ommai_delta_kernels *ommai_delta_select(enum ommai_cpu_level level);
