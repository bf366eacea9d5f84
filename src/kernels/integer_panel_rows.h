/* The integer kernels whose products are of four bytes in a lane, for any vector width: rows and
 * columns of a block, as many as registers hold the sums of. The including file includes one of
 * integer_lanes_*.h and integer_panel_sums.h before, and defines
 *
 *   MAX_ROWS      4 or 6, the rows that go together
 *   vectors_for   vectors of outputs for a number of rows; constant where its arguments are
 *   columns       n_vectors vectors of outputs from `column` on of n_rows rows: begins sums, adds
 *                 the block's products, ends them. Asks for a share of `stream` at each line, if
 *                 it is not NULL
 *   HALF_PASSES   how often that passes over a line of int4 weights */
#pragma once

#include "kernels/integer_panel_sums.h"

enum {
  BLOCK_K = 256,
  STREAM_ROWS = 16 /* up to which weights are read as they come from memory */
};

/* All columns, n_vectors at a time; n_parts groups of rows share what is to be asked for. */
OMMAI_INLINE void some_rows(const struct integer_block *block, const bool half, struct integer_coming *stream, int64_t n_parts,
                            const int n_rows) {
  const int n_vectors = vectors_for(n_rows, half);
  const int n_loops = (PANEL_VECTORS + n_vectors - 1) / n_vectors * (half ? HALF_PASSES : 1);
  if (stream) stream->bytes = INTEGER_LINE / (n_parts * n_loops);
  int v = 0;
  for (; v + n_vectors <= PANEL_VECTORS; v += n_vectors) columns(block, half, v * LANES, stream, n_rows, n_vectors);
  if (v < PANEL_VECTORS) columns(block, half, v * LANES, stream, n_rows, PANEL_VECTORS % n_vectors);
}

OMMAI_INLINE void all_rows(const struct integer_block *block, const bool half, const bool is_stream) {
  const int64_t n_parts = ommai_div_up(block->n_rows, MAX_ROWS);
  struct integer_coming coming = is_stream ? integer_stream(block) : integer_coming(block, half ? 4 : 8, MAX_ROWS);
  struct integer_coming *stream = is_stream ? &coming : NULL;
  if (is_stream && block->panel->n_groups > 1) integer_prefetch_scales(block);
  for (int64_t row = 0, n; row < block->n_rows; row += n) {
    n = ommai_next_rows(block->n_rows - row, MAX_ROWS);
    const struct integer_block some = integer_block_rows(block, row, n);
    if (!is_stream) integer_prefetch(&coming);
    switch (n) {
      case 1: some_rows(&some, half, stream, n_parts, 1); break;
      case 2: some_rows(&some, half, stream, n_parts, 2); break;
      case 3: some_rows(&some, half, stream, n_parts, 3); break;
#if MAX_ROWS > 4
      case 4: some_rows(&some, half, stream, n_parts, 4); break;
      case 5: some_rows(&some, half, stream, n_parts, 5); break;
#endif
      default: some_rows(&some, half, stream, n_parts, MAX_ROWS); break;
    }
  }
}

OMMAI_INLINE void all_rows_of(const struct integer_block *block, const bool half) {
  if (block->n_rows <= STREAM_ROWS) {
    all_rows(block, half, true);
  } else {
    all_rows(block, half, false);
  }
}

static void block_s8(const struct integer_block *block) { all_rows_of(block, false); }

static void block_u4(const struct integer_block *block) { all_rows_of(block, true); }

static void run_s8(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, float *sums) {
  integer_for_each_block(panel, rows, 8, 1, rows->n_rows <= STREAM_ROWS ? INTEGER_STREAM_K : BLOCK_K, sums, block_s8);
}

static void run_u4(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, float *sums) {
  integer_for_each_block(panel, rows, 4, 1, rows->n_rows <= STREAM_ROWS ? INTEGER_STREAM_K : BLOCK_K, sums, block_u4);
}
