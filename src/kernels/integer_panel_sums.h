/* What the integer kernels of any vector width do with sums before and after a block. The including
 * file includes one of integer_lanes_*.h before. */
#pragma once

#include <string.h>

#include "kernels/integer_panel_blocks.h"

enum { PANEL = OMMAI_PANEL_COLUMNS, PANEL_VECTORS = PANEL / LANES, VECTOR = 4 * LANES /* bytes */ };

/* The sums of n_vectors vectors of outputs from `column` on, as they are before a block of weights
 * that are too large by `raised`. */
OMMAI_INLINE void start(const struct integer_block *block, int column, int raised, const int n_rows, const int n_vectors,
                        ivec (*acc)[PANEL_VECTORS]) {
  const struct ommai_integer_panel *panel = block->panel;
#pragma GCC unroll 8
  for (int row = 0; row < n_rows; row++) {
    const float *sums = block->sums + row * PANEL + column;
    int32_t lower = (raised + panel->zero) * block->x_sums[row * panel->n_groups];
#pragma GCC unroll 16
    for (int v = 0; v < n_vectors; v++) {
      acc[row][v] = block->begins ? ivec_set1(-lower) : ivec_load(sums + v * LANES);
      if (!block->begins || !panel->weight_sums) continue;
      ivec weight_sums = ivec_load(panel->weight_sums + column + v * LANES);
      acc[row][v] = ivec_sub(acc[row][v], ivec_mul(ivec_set1(block->zeros[row]), weight_sums));
    }
  }
}

/* The sums after it. */
OMMAI_INLINE void finish(const struct integer_block *block, int column, const int n_rows, const int n_vectors,
                         ivec (*acc)[PANEL_VECTORS]) {
  float *sums = block->sums + column;
  if (!block->ends) {
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 16
      for (int v = 0; v < n_vectors; v++) ivec_store(sums + row * PANEL + v * LANES, acc[row][v]);
    }
    return;
  }
  if (block->first_group) {
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 16
      for (int v = 0; v < n_vectors; v++) fvec_store(sums + row * PANEL + v * LANES, fvec_zero());
    }
  }
#pragma GCC unroll 16
  for (int v = 0; v < n_vectors; v++) {
    fvec scale = fvec_load(block->scales + column + v * LANES);
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++) {
      float *sum = sums + row * PANEL + v * LANES;
      fvec_store(sum, fvec_fma(fvec_of(acc[row][v]), scale, fvec_load(sum)));
    }
  }
  if (!block->minimums) return;
  int64_t n_groups = block->panel->n_groups;
#pragma GCC unroll 16
  for (int v = 0; v < n_vectors; v++) {
    fvec minimum = fvec_load(block->minimums + column + v * LANES);
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++) {
      fvec x_sum = fvec_of(ivec_set1(block->x_sums[row * n_groups]));
      float *sum = sums + row * PANEL + v * LANES;
      fvec_store(sum, fvec_less_product(minimum, x_sum, fvec_load(sum)));
    }
  }
}
