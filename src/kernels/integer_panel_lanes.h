/* The integer kernels without VNNI, for any vector width. The including file includes one of
 * integer_lanes_*.h before and defines SUM_VECTORS, the vectors of 32-bit sums that fit its
 * registers besides the rest: 8 or 24.
 *
 * int4: weights as unsigned bytes times inputs as signed ones add up exactly in 16 bits for 32
 * inputs: 8 x 2 x 15 x 128 < 2^15. */
#ifndef OMMAI_KERNELS_INTEGER_PANEL_LANES_H
#define OMMAI_KERNELS_INTEGER_PANEL_LANES_H

#include "kernels/x86/integer_s8_lanes.h"

enum {
  TILE_FROM_ROWS = 9, /* where copying int8 weights pays */
  STREAM_ROWS = 16,   /* up to which weights are read as they come from memory */
  HALF_SUMS = 32      /* inputs whose products of 4 by 8 bits fit 16 bits together */
};

/* ---- int4 ------------------------------------------------------------------------------------ */

/* halves += the products of one half of each line's weights with the rows' inputs, those at x and
 * eight further for each next line. */
OMMAI_INLINE void add_lines_u4(const uint8_t *line, int64_t n_lines, const bool high, const int8_t *x, int64_t stride,
                               struct integer_coming *stream, const int n_rows, const int n_vectors,
                               ivec (*halves)[PANEL_VECTORS]) {
  const int n_loops = 2 * PANEL_VECTORS / n_vectors;
  for (; n_lines > 0; n_lines--, line += LINE, x += 8) {
    ivec q[PANEL_VECTORS];
    if (stream) integer_stream_line(stream, n_loops < 4 ? 4 / n_loops : 1);
#pragma GCC unroll 8
    for (int v = 0; v < n_vectors; v++) {
      ivec w = ivec_load(line + v * VECTOR);
      q[v] = ivec_and(high ? ivec_down(w, 4) : w, ivec_set1(0x0f0f0f0f));
    }
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++) {
      ivec inputs = broadcast4(x + row * stride);
#pragma GCC unroll 8
      for (int v = 0; v < n_vectors; v++) {
        halves[row][v] = ivec_add_halves(halves[row][v], ivec_byte_products(q[v], inputs));
      }
    }
  }
}

/* The low halves of some lines and then their high ones, so that sums and weights have
 * registers. */
OMMAI_INLINE void columns_u4(const struct integer_block *block, int column, struct integer_coming *stream, const int n_rows,
                             const int n_vectors) {
  ivec acc[MAX_ROWS][PANEL_VECTORS];
  start(block, column, 0, n_rows, n_vectors, acc);
  for (int64_t k = 0; k < block->n_k; k += HALF_SUMS) {
    const uint8_t *line = block->weights + k / 2 * PANEL + 4 * column;
    const int8_t *x = block->x + k;
    int64_t n_lines = ommai_min_i64(HALF_SUMS, block->n_k - k) / 8;
    ivec halves[MAX_ROWS][PANEL_VECTORS];
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 8
      for (int v = 0; v < n_vectors; v++) halves[row][v] = ivec_zero();
    }
    add_lines_u4(line, n_lines, false, x, block->stride, stream, n_rows, n_vectors, halves);
    add_lines_u4(line, n_lines, true, x + 4, block->stride, stream, n_rows, n_vectors, halves);
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 8
      for (int v = 0; v < n_vectors; v++) {
        acc[row][v] = ivec_add(acc[row][v], ivec_products(halves[row][v], ivec_set1(0x00010001)));
      }
    }
  }
  finish(block, column, n_rows, n_vectors, acc);
}

OMMAI_INLINE void rows_u4(const struct integer_block *block, struct integer_coming *stream, int64_t n_parts, const int n_rows) {
  const int fit = SUM_VECTORS / n_rows, n_vectors = fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
  if (stream) stream->bytes = LINE / (n_parts * 2 * PANEL_VECTORS / n_vectors);
  for (int v = 0; v < PANEL_VECTORS; v += n_vectors) columns_u4(block, v * LANES, stream, n_rows, n_vectors);
}

OMMAI_INLINE void all_rows_u4(const struct integer_block *block, const bool is_stream) {
  const int64_t n_parts = ommai_div_up(block->n_rows, MAX_ROWS);
  struct integer_coming coming = is_stream ? integer_stream(block) : integer_coming(block, 4, MAX_ROWS);
  struct integer_coming *stream = is_stream ? &coming : NULL;
  if (block->panel->n_groups > 1) integer_prefetch_scales(block);
  for (int64_t row = 0, n; row < block->n_rows; row += n) {
    n = ommai_next_rows(block->n_rows - row, MAX_ROWS);
    const struct integer_block some = integer_block_rows(block, row, n);
    if (!is_stream) integer_prefetch(&coming);
    switch (n) {
      case 1: rows_u4(&some, stream, n_parts, 1); break;
      case 2: rows_u4(&some, stream, n_parts, 2); break;
      case 3: rows_u4(&some, stream, n_parts, 3); break;
      default: rows_u4(&some, stream, n_parts, 4); break;
    }
  }
}

static void block_u4(const struct integer_block *block) {
  if (block->n_rows <= STREAM_ROWS) {
    all_rows_u4(block, true);
  } else {
    all_rows_u4(block, false);
  }
}

/* ---- panels ---------------------------------------------------------------------------------- */

static void run_s8(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, float *sums) {
  if (rows->n_rows < TILE_FROM_ROWS) {
    integer_for_each_block(panel, rows, 8, 0, INTEGER_STREAM_K, sums, gemv_s8);
  } else {
    integer_for_each_block(panel, rows, 8, 0, BLOCK_K, sums, tile_s8);
  }
}

static void run_u4(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, float *sums) {
  integer_for_each_block(panel, rows, 4, 0, rows->n_rows <= STREAM_ROWS ? INTEGER_STREAM_K : BLOCK_K, sums, block_u4);
}

#endif
