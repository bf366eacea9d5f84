/* The integer kernels without VNNI, for any vector width. The including file includes one of integer_lanes_*.h before and defines
 * SUM_VECTORS, the vectors of 32-bit sums that fit its registers beside the rest: 8 or 24.
 *
 * int8: weights and inputs are widened to 16 bits, where pairs of products add up exactly in 32. A line of a panel has four inputs k .. k + 3
 * of each output; its even bytes pair k with k + 2, its odd ones k + 1 with k + 3, and the rows' inputs are laid out alike. For many rows a
 * block's weights are widened once.
 * int4: weights as unsigned bytes times inputs as signed ones add up exactly in 16 bits for 32 inputs: 8 x 2 x 15 x 128 < 2^15. */
#ifndef OMMAI_KERNELS_INTEGER_PANEL_LANES_H
#define OMMAI_KERNELS_INTEGER_PANEL_LANES_H

#include <string.h>

#include "kernels/integer_panel_blocks.h"

enum {
  PANEL = OMMAI_PANEL_COLUMNS,
  PANEL_VECTORS = PANEL / LANES,
  BLOCK_K = OMMAI_INTEGER_MAX_GROUP, /* of a longer group */
  LINE = 4 * PANEL,                  /* bytes of four inputs' int8 weights, or of eight inputs' int4 ones */
  VECTOR = 4 * LANES,
  MOST_ROWS = 6,
  WIDE_VECTORS = LANES == 8 ? 2 : 4, /* that MOST_ROWS rows' sums and widened weights leave room for */
  STRIP = BLOCK_K * WIDE_VECTORS * LANES,
  STRIP_FROM_ROWS = 9, /* where widening once pays */
  HALF_SUMS = 32,      /* inputs whose products of 4 by 8 bits fit 16 bits together */
  PREFETCH_BYTES = 8192
};

OMMAI_INLINE ivec broadcast4(const void *x) {
  int32_t four;
  memcpy(&four, x, sizeof four);
  return ivec_set1(four);
}

/* The sums of n_vectors vectors of outputs from `column` on, as they are before a block. */
OMMAI_INLINE void start(const struct integer_block *block, int column, const int n_rows, const int n_vectors,
                        ivec (*acc)[PANEL_VECTORS]) {
  const struct ommai_integer_panel *panel = block->panel;
#pragma GCC unroll 8
  for (int row = 0; row < n_rows; row++) {
    const float *sums = block->sums + row * PANEL + column;
    int32_t lower = panel->zero * block->x_sums[row * panel->n_groups];
#pragma GCC unroll 8
    for (int v = 0; v < n_vectors; v++) {
      acc[row][v] = block->begins ? ivec_set1(-lower) : ivec_load(sums + v * LANES);
      if (!block->begins || !panel->weight_sums) continue;
      ivec weight_sums = ivec_load(panel->weight_sums + column + v * LANES);
      acc[row][v] = ivec_sub(acc[row][v], ivec_mul(ivec_set1(block->zeros[row]), weight_sums));
    }
  }
}

OMMAI_INLINE void finish(const struct integer_block *block, int column, const int n_rows, const int n_vectors,
                         ivec (*acc)[PANEL_VECTORS]) {
  const int32_t *x_sums = block->x_sums;
  int64_t n_groups = block->panel->n_groups;
#pragma GCC unroll 8
  for (int v = 0; v < n_vectors; v++) {
    float *sums = block->sums + column + v * LANES;
    fvec scale = fvec_load(block->scales + column + v * LANES);
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++) {
      if (!block->ends) {
        ivec_store(sums + row * PANEL, acc[row][v]);
        continue;
      }
      fvec sum = block->first_group ? fvec_zero() : fvec_load(sums + row * PANEL);
      fvec_store(sums + row * PANEL, fvec_fma(fvec_of(acc[row][v]), scale, sum));
    }
    if (!block->ends || !block->minimums) continue;
    fvec minimum = fvec_load(block->minimums + column + v * LANES);
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++) {
      fvec x_sum = fvec_of(ivec_set1(x_sums[row * n_groups]));
      fvec_store(sums + row * PANEL, fvec_less_product(minimum, x_sum, fvec_load(sums + row * PANEL)));
    }
  }
}

/* ---- int8 ------------------------------------------------------------------------------------------------------------- */

/* Rows' inputs, widened and paired as the weights are. */
struct pairs {
  int16_t x[MOST_ROWS][BLOCK_K];
};

OMMAI_INLINE void pair_rows(const struct integer_block *block, struct pairs *pairs) {
  for (int64_t row = 0; row < block->n_rows; row++) {
    for (int64_t k = 0; k < block->n_k; k += 16) halves_in_pairs(block->x + row * block->stride + k, pairs->x[row] + k);
  }
}

/* Weights as they lie: both vectors of pairs of each vector of outputs. */
OMMAI_INLINE void columns_s8(const struct integer_block *block, const struct pairs *pairs, int column, const int n_rows,
                             const int n_vectors) {
  ivec acc[MOST_ROWS][PANEL_VECTORS];
  start(block, column, n_rows, n_vectors, acc);
  for (int64_t k = 0; k < block->n_k; k += 4) {
    const uint8_t *line = block->weights + k * PANEL + 4 * column;
    ivec even[PANEL_VECTORS], odd[PANEL_VECTORS];
#pragma GCC unroll 8
    for (int v = 0; v < n_vectors; v++) {
      ivec w = ivec_load(line + v * VECTOR);
      if (v * VECTOR % 64 == 0) __builtin_prefetch(line + v * VECTOR + PREFETCH_BYTES);
      even[v] = ivec_low_bytes(w);
      odd[v] = ivec_high_bytes(w);
    }
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++) {
      ivec first = broadcast4(pairs->x[row] + k), second = broadcast4(pairs->x[row] + k + 2);
#pragma GCC unroll 8
      for (int v = 0; v < n_vectors; v++) {
        acc[row][v] = ivec_add(acc[row][v], ivec_products(even[v], first));
        acc[row][v] = ivec_add(acc[row][v], ivec_products(odd[v], second));
      }
    }
  }
  finish(block, column, n_rows, n_vectors, acc);
}

/* Weights widened before, of WIDE_VECTORS vectors of outputs: [n_k / 2][WIDE_VECTORS * LANES][2]. */
OMMAI_INLINE void columns_wide(const struct integer_block *block, const int16_t *strip, const struct pairs *pairs, int column,
                               const int n_rows) {
  ivec acc[MOST_ROWS][PANEL_VECTORS];
  start(block, column, n_rows, WIDE_VECTORS, acc);
  for (int64_t k = 0; k < block->n_k; k += 2) {
    ivec w[WIDE_VECTORS];
#pragma GCC unroll 8
    for (int v = 0; v < WIDE_VECTORS; v++) w[v] = ivec_load(strip + (k * WIDE_VECTORS + 2 * v) * LANES);
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++) {
      ivec x = broadcast4(pairs->x[row] + k);
#pragma GCC unroll 8
      for (int v = 0; v < WIDE_VECTORS; v++) acc[row][v] = ivec_add(acc[row][v], ivec_products(w[v], x));
    }
  }
  finish(block, column, n_rows, WIDE_VECTORS, acc);
}

/* Strips of WIDE_VECTORS vectors, BLOCK_K inputs apart. */
static void widen(const struct integer_block *block, int16_t *strips) {
  for (int64_t k = 0; k < block->n_k; k += 4) {
    for (int v = 0; v < PANEL_VECTORS; v++) {
      int16_t *strip = strips + v / WIDE_VECTORS * STRIP;
      ivec w = ivec_load(block->weights + k * PANEL + v * VECTOR);
      ivec_store(strip + (k * WIDE_VECTORS + 2 * (v % WIDE_VECTORS)) * LANES, ivec_low_bytes(w));
      ivec_store(strip + ((k + 2) * WIDE_VECTORS + 2 * (v % WIDE_VECTORS)) * LANES, ivec_high_bytes(w));
    }
  }
}

OMMAI_INLINE void rows_s8(const struct integer_block *block, const int16_t *strip, const int n_rows) {
  const int n_vectors = SUM_VECTORS / n_rows < PANEL_VECTORS ? SUM_VECTORS / n_rows : PANEL_VECTORS;
  struct pairs pairs;
  pair_rows(block, &pairs);
  if (strip) {
    for (int v = 0; v < PANEL_VECTORS; v += WIDE_VECTORS) {
      columns_wide(block, strip + v / WIDE_VECTORS * STRIP, &pairs, v * LANES, n_rows);
    }
  } else {
    for (int v = 0; v < PANEL_VECTORS; v += n_vectors) columns_s8(block, &pairs, v * LANES, n_rows, n_vectors);
  }
}

static void block_s8(const struct integer_block *block) {
  int16_t strip[BLOCK_K * PANEL];
  bool is_wide = block->n_rows >= STRIP_FROM_ROWS;
  if (is_wide) widen(block, strip);
  for (int64_t row = 0, n; row < block->n_rows; row += n) {
    n = ommai_next_rows(block->n_rows - row, is_wide ? MOST_ROWS : 4);
    const struct integer_block some = integer_block_rows(block, row, n);
    switch (n) {
      case 1: rows_s8(&some, is_wide ? strip : NULL, 1); break;
      case 2: rows_s8(&some, is_wide ? strip : NULL, 2); break;
      case 3: rows_s8(&some, is_wide ? strip : NULL, 3); break;
      case 4: rows_s8(&some, is_wide ? strip : NULL, 4); break;
      case 5: rows_s8(&some, strip, 5); break;
      default: rows_s8(&some, strip, 6); break;
    }
  }
}

/* ---- int4 ------------------------------------------------------------------------------------------------------------- */

OMMAI_INLINE void columns_u4(const struct integer_block *block, int column, const int n_rows, const int n_vectors) {
  const ivec low = ivec_set1(0x0f0f0f0f), ones = ivec_set1(0x00010001);
  ivec acc[MOST_ROWS][PANEL_VECTORS];
  start(block, column, n_rows, n_vectors, acc);
  for (int64_t first = 0; first < block->n_k; first += HALF_SUMS) {
    int64_t end = ommai_min_i64(first + HALF_SUMS, block->n_k);
    ivec halves[MOST_ROWS][PANEL_VECTORS];
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 8
      for (int v = 0; v < n_vectors; v++) halves[row][v] = ivec_zero();
    }
    for (int64_t k = first; k < end; k += 8) {
      const uint8_t *line = block->weights + k / 2 * PANEL + 4 * column;
      ivec q[2][PANEL_VECTORS];
#pragma GCC unroll 8
      for (int v = 0; v < n_vectors; v++) {
        ivec w = ivec_load(line + v * VECTOR);
        if (v * VECTOR % 64 == 0) __builtin_prefetch(line + v * VECTOR + PREFETCH_BYTES);
        q[0][v] = ivec_and(w, low);
        q[1][v] = ivec_and(ivec_down(w, 4), low);
      }
#pragma GCC unroll 8
      for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 2
        for (int part = 0; part < 2; part++) {
          ivec x = broadcast4(block->x + row * block->stride + k + 4 * part);
#pragma GCC unroll 8
          for (int v = 0; v < n_vectors; v++) {
            halves[row][v] = ivec_add_halves(halves[row][v], ivec_byte_products(q[part][v], x));
          }
        }
      }
    }
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 8
      for (int v = 0; v < n_vectors; v++) acc[row][v] = ivec_add(acc[row][v], ivec_products(halves[row][v], ones));
    }
  }
  finish(block, column, n_rows, n_vectors, acc);
}

OMMAI_INLINE void rows_u4(const struct integer_block *block, const int n_rows) {
  const int fit = SUM_VECTORS / 2 / n_rows, n_vectors = fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
  for (int v = 0; v < PANEL_VECTORS; v += n_vectors) columns_u4(block, v * LANES, n_rows, n_vectors);
}

static void block_u4(const struct integer_block *block) {
  if (block->panel->n_groups > 1) integer_prefetch_scales(block);
  for (int64_t row = 0, n; row < block->n_rows; row += n) {
    n = ommai_next_rows(block->n_rows - row, 4);
    const struct integer_block some = integer_block_rows(block, row, n);
    switch (n) {
      case 1: rows_u4(&some, 1); break;
      case 2: rows_u4(&some, 2); break;
      case 3: rows_u4(&some, 3); break;
      default: rows_u4(&some, 4); break;
    }
  }
}

/* ---- panels ----------------------------------------------------------------------------------------------------------- */

static void run_s8(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, float *sums) {
  integer_for_each_block(panel, rows, 8, 0, BLOCK_K, sums, block_s8);
}

static void run_u4(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, float *sums) {
  integer_for_each_block(panel, rows, 4, 0, BLOCK_K, sums, block_u4);
}

#endif
