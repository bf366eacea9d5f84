/* How many rows a tile of a row-local chain takes. */
#ifndef OMMAI_LINEAR_ROW_TILES_H
#define OMMAI_LINEAR_ROW_TILES_H

#include "linear/linear.h"

#define OMMAI_MAX_TILE_ROWS 128

/* The tile for a phase of n_rows rows: 128 as a rule, smaller for few rows, so that short prompts and small pictures still give
 * every core a tile. Chosen by the number of rows alone, and only among the steps of the ladder, on which a row's bits do not
 * depend. */
static inline int64_t ommai_choose_tile_rows(const struct ommai_linear_engine *engine, enum omma_dtype type, int64_t n_rows) {
  int64_t wanted = n_rows >= 1024 ? OMMAI_MAX_TILE_ROWS : n_rows >= 256 ? 64 : 32;
  return ommai_linear_ladder_rows(engine, type, wanted);
}

#endif
