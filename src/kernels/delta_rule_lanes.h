/* The gated delta rule for any vector width, a block of rows at once. The including file includes
 * one of lanes_*.h before, and defines TILE_ROWS, the rows whose sums over a strip stay in
 * registers. A strip of the state stays in L1 between its reading and its writing. */
#pragma once

#include "kernels/delta_rule.h"

enum { ROWS = OMMAI_DELTA_ROWS, COLUMNS = OMMAI_DELTA_COLUMNS, STRIP = COLUMNS / LANES, PAIRS = ROWS / LANES };

/* to = scale from + a b (from NULL: a b), with a's element (r, k) at a[r * a_row + k * a_step], and
 * rows of n_vectors vectors in b, from and to. */
struct product {
  const float *a, *b;
  int64_t a_row, a_step, n_k;
  float scale;
};

OMMAI_INLINE void multiply_tile(const struct product *p, const float *a, const int n_rows, const int n_vectors,
                                const float *from, float *to) {
  vec sum[TILE_ROWS][STRIP];
  const int width = n_vectors * LANES;
#pragma GCC unroll 8
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 8
    for (int v = 0; v < n_vectors; v++) {
      sum[row][v] = from ? vec_mul(vec_set1(p->scale), vec_load(from + row * width + v * LANES)) : vec_zero();
    }
  }
  for (int64_t k = 0; k < p->n_k; k++) {
    vec b[STRIP];
#pragma GCC unroll 8
    for (int v = 0; v < n_vectors; v++) b[v] = vec_load(p->b + k * width + v * LANES);
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++) {
      vec value = vec_set1(a[row * p->a_row + k * p->a_step]);
#pragma GCC unroll 8
      for (int v = 0; v < n_vectors; v++) sum[row][v] = vec_fma(value, b[v], sum[row][v]);
    }
  }
#pragma GCC unroll 8
  for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 8
    for (int v = 0; v < n_vectors; v++) vec_store(to + row * width + v * LANES, sum[row][v]);
  }
}

OMMAI_INLINE void multiply(const struct product *p, int64_t n_rows, const int n_vectors, const float *from, float *to) {
  for (int64_t row = 0, n; row < n_rows; row += n) {
    const float *a = p->a + row * p->a_row, *old = from ? from + row * n_vectors * LANES : from;
    float *result = to + row * n_vectors * LANES;
    n = n_rows - row >= TILE_ROWS ? TILE_ROWS : n_rows - row >= 2 ? 2 : 1;
    switch (n) {
      case 1: multiply_tile(p, a, 1, n_vectors, old, result); break;
      case 2: multiply_tile(p, a, 2, n_vectors, old, result); break;
      default: multiply_tile(p, a, TILE_ROWS, n_vectors, old, result); break;
    }
  }
}

/* What all strips of a block share. */
struct block {
  const struct ommai_delta_rows *rows;
  float whole[ROWS];           /* P_i */
  float key_pairs[ROWS][ROWS]; /* -P_ij (k_i . k_j), j < i */
  float query_pairs[ROWS][ROWS];
  float scaled[ROWS * OMMAI_DELTA_MAX_DIM]; /* [n_rows][key_dim]: P_nj k_j, for the last row n */
};

static void set_pairs(struct block *block) {
  const struct ommai_delta_rows *rows = block->rows;
  int64_t n = rows->n_rows, d = rows->key_dim;
  float turned[OMMAI_DELTA_MAX_DIM * ROWS], products[2 * ROWS][ROWS], decay[ROWS] = {0};
  const struct product pairs = {.a = rows->keys_queries, .b = turned, .a_row = d, .a_step = 1, .n_k = d};
  for (int64_t k = 0; k < d; k++) {
    for (int64_t j = 0; j < ROWS; j++) turned[k * ROWS + j] = j < n ? rows->keys_queries[2 * j * d + k] : 0;
  }
  multiply(&pairs, 2 * n, PAIRS, NULL, products[0]);
  for (int64_t i = 0; i < n; i++) {
    block->whole[i] = (i ? block->whole[i - 1] : 1) * rows->decays[i];
    for (int64_t j = 0; j < i; j++) decay[j] *= rows->decays[i];
    decay[i] = 1;
    for (int64_t j = 0; j < ROWS; j++) {
      block->key_pairs[i][j] = -decay[j] * products[2 * i][j];
      block->query_pairs[i][j] = decay[j] * products[2 * i + 1][j];
    }
  }
  for (int64_t j = 0; j < n; j++) {
    for (int64_t k = 0; k < d; k++) block->scaled[j * d + k] = decay[j] * rows->keys_queries[2 * j * d + k];
  }
}

/* d of row i, and its output, from S^T k and S^T q in seen[2]. */
OMMAI_INLINE void finish_row(const struct block *block, int64_t i, const float *seen, const float *value, float *d,
                             float *out) {
  vec whole = vec_set1(block->whole[i]), rate = vec_set1(block->rows->rates[i]), change[STRIP], result[STRIP];
#pragma GCC unroll 8
  for (int v = 0; v < STRIP; v++) {
    change[v] = vec_sub(vec_load(value + v * LANES), vec_mul(whole, vec_load(seen + v * LANES)));
    result[v] = vec_mul(whole, vec_load(seen + COLUMNS + v * LANES));
  }
  for (int64_t j = 0; j < i; j++) {
    vec key = vec_set1(block->key_pairs[i][j]), query = vec_set1(block->query_pairs[i][j]);
#pragma GCC unroll 8
    for (int v = 0; v < STRIP; v++) {
      vec other = vec_load(d + j * COLUMNS + v * LANES);
      change[v] = vec_fma(key, other, change[v]);
      result[v] = vec_fma(query, other, result[v]);
    }
  }
  vec own = vec_set1(block->query_pairs[i][i]);
#pragma GCC unroll 8
  for (int v = 0; v < STRIP; v++) {
    change[v] = vec_mul(rate, change[v]);
    vec_store(d + i * COLUMNS + v * LANES, change[v]);
    vec_store(out + v * LANES, vec_fma(own, change[v], result[v]));
  }
}

static void run_strip(const struct block *block, const float *values, const float *from, float *to, float *out) {
  const struct ommai_delta_rows *rows = block->rows;
  int64_t n = rows->n_rows;
  float seen[2 * ROWS][COLUMNS], d[ROWS][COLUMNS];
  const struct product reading = {
      .a = rows->keys_queries, .b = from, .a_row = rows->key_dim, .a_step = 1, .n_k = rows->key_dim};
  const struct product writing = {
      .a = block->scaled, .b = d[0], .a_row = 1, .a_step = rows->key_dim, .n_k = n, .scale = block->whole[n - 1]};
  multiply(&reading, 2 * n, STRIP, NULL, seen[0]);
  for (int64_t i = 0; i < n; i++) {
    finish_row(block, i, seen[2 * i], values + i * rows->value_dim, d[0], out + i * rows->value_dim);
  }
  multiply(&writing, rows->key_dim, STRIP, from, to);
}

static void run(const struct ommai_delta_rows *rows, const float *from, float *to, float *out) {
  struct block block = {.rows = rows};
  set_pairs(&block);
  for (int64_t first = 0; first < rows->value_dim; first += COLUMNS) {
    run_strip(&block, rows->values + first, from + first * rows->key_dim, to + first * rows->key_dim, out + first);
  }
}
