/* The rows of a phase, cut into tiles for a row-local chain of layers. */
#pragma once

#include "base/first_error.h"
#include "linear/linear.h"

#define OMMAI_MAX_TILE_ROWS OMMAI_LINEAR_MAX_ROWS /* but of layers that take more */

/* Rows first .. first + n_rows - 1. */
struct ommai_row_tile {
  int64_t first, n_rows;
};

/* n_rows rows in n_tiles tiles of tile_rows, the last one shorter. */
struct ommai_row_tiles {
  int64_t n_rows, tile_rows, n_tiles;
  struct ommai_first_error failure; /* of a linear layer */
};

/* The largest number of rows for a task, from `largest` down by halves to `smallest`, with which
 * the tasks (n_parts for each) occupy n_workers well. A team of one group (base/team.h) gets
 * `largest`: larger tasks read weights less often. A row's bits do not depend on it. */
int64_t ommai_rows_of_task(int64_t n_rows, int64_t n_parts, int n_workers, int64_t largest, int64_t smallest);

/* Chooses the tile for layers that all take max_rows rows in a run (ommai_linear_max_rows): 128 as
 * a rule, smaller for few rows, so that short prompts and small images still give every core a
 * tile, and for teams that would have no work for some. Where layers take more, as many as they
 * take, or somewhat fewer so that all workers end at about the same time. */
void ommai_row_tiles_init(struct ommai_row_tiles *tiles, int64_t n_rows, int n_workers, int64_t max_rows);

/* The same in tiles of 16 rows at most: for phases without the layers that are worth larger
 * ones. */
void ommai_row_tiles_init_small(struct ommai_row_tiles *tiles, int64_t n_rows, int n_workers);

struct ommai_row_tile ommai_row_tile_at(const struct ommai_row_tiles *tiles, int64_t index);

/* One linear layer over n_rows rows of a tile. The sizes were checked at load, so that only what a
 * library makes of them can fail: tiles->failure keeps it, for the end of the phase to look at.
 * Thread-safe. */
void ommai_row_tiles_apply(struct ommai_row_tiles *tiles, const struct ommai_linear_op *op, const void *x, void *y,
                           int64_t n_rows, int worker);
