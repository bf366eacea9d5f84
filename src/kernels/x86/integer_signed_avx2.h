/* int8 tiles by PMADDUBSW: |x| times w with x's sign, whose pairs of products fit 16 bits, and mostly two such pairs together, which are then
 * widened once: 7 instructions for 64 products, where PMADDWD over widened weights takes 8.
 *
 * 128 (|w1| + |w2| + |w3| + |w4|) < 2^15 for sums up to 255. Where four weights have more, two of them go to a list of vectors that are
 * multiplied by themselves. A block in which many have more, or one is -128, which has no opposite, is left to the widened form.
 * The including file includes integer_panel_lanes.h before. */
#ifndef OMMAI_KERNELS_X86_INTEGER_SIGNED_AVX2_H
#define OMMAI_KERNELS_X86_INTEGER_SIGNED_AVX2_H

#include "kernels/integer_panel_lanes.h"

enum {
  STRIP_VECTORS = 2,
  STRIP_COLUMNS = STRIP_VECTORS * LANES,
  STRIPS = PANEL / STRIP_COLUMNS,
  STEP = 8, /* inputs: two lines */
  MOST_SUM = 255,
  MOST_LARGE = BLOCK_K / STEP / 4 /* of a vector of outputs; more cost more than they save */
};

/* Two weights of the second line that do not go with the first's, others zero. */
struct large_weights {
  _Alignas(VECTOR) int8_t weights[VECTOR];
  int64_t k;
};

/* Weights of STRIP_COLUMNS outputs: lines of both vectors one after the other. */
struct signed_strip {
  _Alignas(VECTOR) int8_t weights[BLOCK_K * STRIP_COLUMNS];
  int n_large[STRIP_VECTORS];
  struct large_weights large[STRIP_VECTORS][MOST_LARGE];
};

/* Copies a vector of two lines; false where it takes more room for large weights than there is, or one has no opposite. */
OMMAI_INLINE bool copy_vector(const uint8_t *lines, int64_t k, int v, struct signed_strip *strip) {
  const ivec ones = _mm256_set1_epi8(1), lowest = _mm256_set1_epi8(-128);
  ivec first = ivec_load(lines), second = ivec_load(lines + LINE);
  ivec sums =
      ivec_add_halves(ivec_byte_products(_mm256_abs_epi8(first), ones), ivec_byte_products(_mm256_abs_epi8(second), ones));
  ivec large = _mm256_cmpgt_epi16(sums, _mm256_set1_epi16(MOST_SUM));
  ivec none = _mm256_or_si256(_mm256_cmpeq_epi8(first, lowest), _mm256_cmpeq_epi8(second, lowest));
  int8_t *to = strip->weights + k * STRIP_COLUMNS + v * VECTOR;
  if (_mm256_movemask_epi8(none)) return false;
  ivec_store(to, first);
  ivec_store(to + STRIP_VECTORS * VECTOR, _mm256_andnot_si256(large, second));
  if (!_mm256_movemask_epi8(large)) return true;
  if (strip->n_large[v] == MOST_LARGE) return false;
  struct large_weights *kept = &strip->large[v][strip->n_large[v]++];
  ivec_store(kept->weights, ivec_and(large, second));
  kept->k = k + 4;
  return true;
}

static bool copy_strips(const struct integer_block *block, struct signed_strip *strips) {
  for (int i = 0; i < STRIPS; i++) {
    for (int v = 0; v < STRIP_VECTORS; v++) strips[i].n_large[v] = 0;
    for (int64_t k = 0; k < block->n_k; k += STEP) {
      const uint8_t *lines = block->weights + k * PANEL + i * STRIP_VECTORS * VECTOR;
      for (int v = 0; v < STRIP_VECTORS; v++) {
        if (!copy_vector(lines + v * VECTOR, k, v, &strips[i])) return false;
      }
    }
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

/* The products of the weights in the list. */
OMMAI_INLINE void add_large(const struct signed_strip *strip, const struct signed_rows *rows, const int n_rows, const int v,
                            ivec (*acc)[PANEL_VECTORS]) {
  for (int i = 0; i < strip->n_large[v]; i++) {
    const struct large_weights *large = &strip->large[v][i];
    ivec w = ivec_load(large->weights);
#pragma GCC unroll 4
    for (int row = 0; row < n_rows; row++) {
      ivec x = broadcast4(rows->x[row] + large->k), magnitudes = broadcast4(rows->magnitudes[row] + large->k);
      acc[row][v] = add_widened(acc[row][v], signed_products(magnitudes, x, w));
    }
  }
}

OMMAI_INLINE void columns_signed(const struct integer_block *block, const struct signed_strip *strip,
                                 const struct signed_rows *rows, int column, const int n_rows) {
  ivec acc[MOST_ROWS][PANEL_VECTORS];
  start(block, column, 0, n_rows, STRIP_VECTORS, acc);
  for (int64_t k = 0; k < block->n_k; k += STEP) {
    const int8_t *w = strip->weights + k * STRIP_COLUMNS;
    ivec first[STRIP_VECTORS], second[STRIP_VECTORS];
#pragma GCC unroll 2
    for (int v = 0; v < STRIP_VECTORS; v++) {
      first[v] = ivec_load(w + v * VECTOR);
      second[v] = ivec_load(w + (STRIP_VECTORS + v) * VECTOR);
    }
#pragma GCC unroll 4
    for (int row = 0; row < n_rows; row++) {
      ivec x = broadcast4(rows->x[row] + k), magnitudes = broadcast4(rows->magnitudes[row] + k);
      ivec next_x = broadcast4(rows->x[row] + k + 4), next_magnitudes = broadcast4(rows->magnitudes[row] + k + 4);
#pragma GCC unroll 2
      for (int v = 0; v < STRIP_VECTORS; v++) {
        ivec halves = signed_products(magnitudes, x, first[v]);
        halves = ivec_add_halves(halves, signed_products(next_magnitudes, next_x, second[v]));
        acc[row][v] = add_widened(acc[row][v], halves);
      }
    }
  }
#pragma GCC unroll 2
  for (int v = 0; v < STRIP_VECTORS; v++) add_large(strip, rows, n_rows, v, acc);
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
