/* int8 tiles by PMADDUBSW: |x| times w with x's sign, whose pairs of products fit 16 bits. Mostly
 * two such pairs fit together, which are then widened once: 7 instructions for 64 products, where
 * PMADDWD over widened weights takes 8.
 *
 * 128 (|w1| + |w2| + |w3| + |w4|) < 2^15 for sums up to 255. Inputs of which some output's four
 * weights have more come last and are widened pair by pair, which takes 8 instructions too; sums
 * are exact, so the order is free. A block with a weight of -128, which has no opposite, is left to
 * the widened form. The including file includes integer_panel_lanes.h before. */
#ifndef OMMAI_KERNELS_X86_INTEGER_SIGNED_AVX2_H
#define OMMAI_KERNELS_X86_INTEGER_SIGNED_AVX2_H

#include "kernels/integer_panel_lanes.h"

enum {
  STRIP_VECTORS = 2,
  STRIP_COLUMNS = STRIP_VECTORS * LANES,
  STRIPS = PANEL / STRIP_COLUMNS,
  STEP_K = 8, /* inputs: two lines */
  STEP_VECTORS = 2 * STRIP_VECTORS,
  MOST_STEPS = BLOCK_K / STEP_K,
  MOST_SUM = 255
};

/* Weights of STRIP_COLUMNS outputs. */
struct signed_strip {
  /* a line of both vectors, and the next line */
  _Alignas(VECTOR) int8_t weights[MOST_STEPS][STEP_VECTORS][VECTOR];
  int16_t k[MOST_STEPS];
  int n_steps, n_small; /* those at first have sums up to MOST_SUM */
};

/* Whether any four weights have a larger sum. */
OMMAI_INLINE bool is_large(ivec line, ivec next) {
  const ivec ones = _mm256_set1_epi8(1);
  ivec sums = ivec_add_halves(ivec_byte_products(_mm256_abs_epi8(line), ones), ivec_byte_products(_mm256_abs_epi8(next), ones));
  return _mm256_movemask_epi8(_mm256_cmpgt_epi16(sums, _mm256_set1_epi16(MOST_SUM))) != 0;
}

/* False where a weight has no opposite. */
OMMAI_INLINE bool copy_strip(const uint8_t *weights, int64_t n_k, struct signed_strip *strip) {
  ivec lowest = ivec_zero();
  int end = strip->n_steps = (int)(n_k / STEP_K);
  strip->n_small = 0;
  for (int64_t k = 0; k < n_k; k += STEP_K) {
    const uint8_t *line = weights + k * PANEL;
    ivec w[STEP_VECTORS];
#pragma GCC unroll 4
    for (int i = 0; i < STEP_VECTORS; i++) {
      w[i] = ivec_load(line + i / STRIP_VECTORS * LINE + i % STRIP_VECTORS * VECTOR);
      lowest = _mm256_min_epi8(lowest, w[i]);
    }
    int step = is_large(w[0], w[2]) || is_large(w[1], w[3]) ? --end : strip->n_small++;
    strip->k[step] = (int16_t)k;
#pragma GCC unroll 4
    for (int i = 0; i < STEP_VECTORS; i++) ivec_store(strip->weights[step][i], w[i]);
  }
  return !_mm256_movemask_epi8(_mm256_cmpeq_epi8(lowest, _mm256_set1_epi8(-128)));
}

static bool copy_strips(const struct integer_block *block, struct signed_strip *strips) {
  for (int i = 0; i < STRIPS; i++) {
    if (!copy_strip(block->weights + i * STRIP_VECTORS * VECTOR, block->n_k, &strips[i])) return false;
  }
  return true;
}

struct signed_rows {
  const int8_t *x[MOST_ROWS];
  uint8_t magnitudes[MOST_ROWS][BLOCK_K];
};

OMMAI_INLINE void take_magnitudes(const struct integer_block *block, struct signed_rows *rows, const int n_rows) {
  for (int row = 0; row < n_rows; row++) {
    rows->x[row] = block->x + row * block->stride;
    for (int64_t k = 0; k < block->n_k; k += 16) {
      __m128i x = _mm_loadu_si128((const void *)(rows->x[row] + k));
      _mm_storeu_si128((void *)(rows->magnitudes[row] + k), _mm_abs_epi8(x));
    }
  }
}

/* Pairs of products, 16 bits each. */
OMMAI_INLINE ivec signed_products(ivec magnitudes, ivec x, ivec w) {
  return ivec_byte_products(magnitudes, _mm256_sign_epi8(w, x));
}

OMMAI_INLINE ivec add_widened(ivec sum, ivec halves) { return ivec_add(sum, ivec_products(halves, ivec_set1(0x00010001))); }

OMMAI_INLINE void add_step(const struct signed_strip *strip, int step, const struct signed_rows *rows, const int n_rows,
                           const bool large, ivec (*acc)[PANEL_VECTORS]) {
  const int64_t k = strip->k[step];
  ivec w[STEP_VECTORS];
#pragma GCC unroll 4
  for (int i = 0; i < STEP_VECTORS; i++) w[i] = ivec_load(strip->weights[step][i]);
#pragma GCC unroll 4
  for (int row = 0; row < n_rows; row++) {
    const int8_t *x = rows->x[row] + k;
    const uint8_t *magnitudes = rows->magnitudes[row] + k;
    ivec first = broadcast4(x), first_magnitudes = broadcast4(magnitudes);
    ivec next = broadcast4(x + 4), next_magnitudes = broadcast4(magnitudes + 4);
#pragma GCC unroll 2
    for (int v = 0; v < STRIP_VECTORS; v++) {
      ivec halves = signed_products(first_magnitudes, first, w[v]);
      ivec more = signed_products(next_magnitudes, next, w[STRIP_VECTORS + v]);
      if (large) acc[row][v] = add_widened(acc[row][v], more);
      acc[row][v] = add_widened(acc[row][v], large ? halves : ivec_add_halves(halves, more));
    }
  }
}

OMMAI_INLINE void columns_signed(const struct integer_block *block, const struct signed_strip *strip,
                                 const struct signed_rows *rows, int column, const int n_rows) {
  ivec acc[MOST_ROWS][PANEL_VECTORS];
  start(block, column, 0, n_rows, STRIP_VECTORS, acc);
  for (int step = 0; step < strip->n_small; step++) add_step(strip, step, rows, n_rows, false, acc);
  for (int step = strip->n_small; step < strip->n_steps; step++) add_step(strip, step, rows, n_rows, true, acc);
  finish(block, column, n_rows, STRIP_VECTORS, acc);
}

OMMAI_INLINE void rows_signed(const struct integer_block *block, const struct signed_strip *strips, const int n_rows) {
  struct signed_rows rows;
  take_magnitudes(block, &rows, n_rows);
  for (int i = 0; i < STRIPS; i++) columns_signed(block, &strips[i], &rows, i * STRIP_COLUMNS, n_rows);
}

static void many_signed_rows(const struct integer_block *block) {
  struct signed_strip strips[STRIPS];
  struct integer_coming coming = integer_coming(block, 8, MOST_ROWS);
  if (!copy_strips(block, strips)) {
    many_rows_s8(block);
    return;
  }
  for (int64_t row = 0, n; row < block->n_rows; row += n) {
    n = ommai_next_rows(block->n_rows - row, MOST_ROWS);
    const struct integer_block some = integer_block_rows(block, row, n);
    integer_prefetch(&coming);
    switch (n) {
      case 1: rows_signed(&some, strips, 1); break;
      case 2: rows_signed(&some, strips, 2); break;
      case 3: rows_signed(&some, strips, 3); break;
      default: rows_signed(&some, strips, 4); break;
    }
  }
}

#endif
