#include "linear/row_tiles.h"

#include "base/checked.h"
#include "base/team.h"

static void init(struct ommai_row_tiles *tiles, int64_t n_rows, int64_t tile_rows) {
  tiles->n_rows = n_rows;
  tiles->tile_rows = tile_rows;
  tiles->n_tiles = ommai_div_up(n_rows, tiles->tile_rows);
  ommai_first_error_init(&tiles->failure);
}

/* Of n workers' time, how much n_tasks equal tasks use. */
static double share_used(int64_t n_tasks, int n_workers) {
  return (double)n_tasks / (double)(ommai_div_up(n_tasks, n_workers) * n_workers);
}

/* Half the rows cost more for each, as weights are read twice as often: that must pay. */
int64_t ommai_rows_of_task(int64_t n_rows, int64_t n_parts, int n_workers, int64_t largest, int64_t smallest) {
  static const double worth = 1.05;
  int64_t best = largest;
  double best_share = share_used(n_parts * ommai_div_up(n_rows, largest), n_workers);
  for (int64_t rows = largest / 2; rows >= smallest && n_workers > OMMAI_TEAM_GROUP; rows /= 2) {
    double share = share_used(n_parts * ommai_div_up(n_rows, rows), n_workers);
    if (share < worth * best_share) continue;
    best = rows;
    best_share = share;
  }
  return best;
}

/* A tile takes the time of its rows, and of some more for reading weights. */
static int64_t rows_of_large_tiles(int64_t n_rows, int n_workers, int64_t max_rows) {
  enum { STEP = 16, FOR_WEIGHTS = 64 };
  int64_t best = max_rows, least = INT64_MAX;
  for (int64_t rows = max_rows; rows >= STEP; rows -= STEP) {
    int64_t rounds = ommai_div_up(ommai_div_up(n_rows, rows), n_workers), time = rounds * (rows + FOR_WEIGHTS);
    if (time >= least) continue;
    best = rows;
    least = time;
  }
  return best;
}

void ommai_row_tiles_init(struct ommai_row_tiles *tiles, int64_t n_rows, int n_workers, int64_t max_rows) {
  if (max_rows > OMMAI_MAX_TILE_ROWS) {
    init(tiles, n_rows, rows_of_large_tiles(n_rows, n_workers, max_rows));
    return;
  }
  int64_t largest = n_rows >= 1024 ? OMMAI_MAX_TILE_ROWS : n_rows >= 256 ? 64 : 32;
  init(tiles, n_rows, ommai_rows_of_task(n_rows, 1, n_workers, largest, 16));
}

void ommai_row_tiles_init_small(struct ommai_row_tiles *tiles, int64_t n_rows, int n_workers) {
  init(tiles, n_rows, ommai_rows_of_task(n_rows, 1, n_workers, 16, 4));
}

struct ommai_row_tile ommai_row_tile_at(const struct ommai_row_tiles *tiles, int64_t index) {
  int64_t first = index * tiles->tile_rows;
  return (struct ommai_row_tile){first, ommai_min_i64(tiles->tile_rows, tiles->n_rows - first)};
}

void ommai_row_tiles_apply(struct ommai_row_tiles *tiles, const struct ommai_linear_op *op, const void *x, void *y,
                           int64_t n_rows, int worker) {
  struct omma_error error;
  if (ommai_linear_run(op, x, y, n_rows, worker, &error) != OMMA_OK) ommai_first_error_keep(&tiles->failure, &error);
}
