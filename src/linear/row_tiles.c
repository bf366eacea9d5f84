#include "linear/row_tiles.h"

#include "base/checked.h"

static void init(struct ommai_row_tiles *tiles, int64_t n_rows, int64_t tile_rows) {
  tiles->n_rows = n_rows;
  tiles->tile_rows = tile_rows;
  tiles->n_tiles = ommai_div_up(n_rows, tiles->tile_rows);
  ommai_first_error_init(&tiles->failure);
}

void ommai_row_tiles_init(struct ommai_row_tiles *tiles, int64_t n_rows) {
  init(tiles, n_rows, n_rows >= 1024 ? OMMAI_MAX_TILE_ROWS : n_rows >= 256 ? 64 : 32);
}

void ommai_row_tiles_init_small(struct ommai_row_tiles *tiles, int64_t n_rows) { init(tiles, n_rows, 16); }

struct ommai_row_tile ommai_row_tile_at(const struct ommai_row_tiles *tiles, int64_t index) {
  int64_t first = index * tiles->tile_rows;
  return (struct ommai_row_tile){first, ommai_min_i64(tiles->tile_rows, tiles->n_rows - first)};
}

void ommai_row_tiles_apply(struct ommai_row_tiles *tiles, const struct ommai_linear_op *op, const void *x, void *y,
                           int64_t n_rows, int worker) {
  struct omma_error error;
  if (ommai_linear_run(op, x, y, n_rows, worker, &error) != OMMA_OK) ommai_first_error_keep(&tiles->failure, &error);
}
