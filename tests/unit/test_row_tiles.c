/* How many rows a task has: many for small teams, and for a large one as few as it takes to give
 * all workers something to do. */
#include "linear/row_tiles.h"

#include "base/checked.h"
#include "base/team.h"
#include "support/test.h"

static double share_of(int64_t n_rows, int64_t n_parts, int n_workers, int64_t rows) {
  int64_t n = n_parts * ommai_div_up(n_rows, rows);
  return (double)n / (double)(n_workers * ommai_div_up(n, n_workers));
}

static int64_t tile_rows_up_to(int64_t max_rows, int64_t n_rows, int n_workers) {
  struct ommai_row_tiles tiles;
  ommai_row_tiles_init(&tiles, n_rows, n_workers, max_rows);
  assert_int_equal(tiles.n_tiles, ommai_div_up(n_rows, tiles.tile_rows));
  return tiles.tile_rows;
}

static int64_t tile_rows(int64_t n_rows, int n_workers) { return tile_rows_up_to(OMMAI_LINEAR_MAX_ROWS, n_rows, n_workers); }

static void small_teams_have_large_tiles(void **state) {
  (void)state;
  for (int n_workers = 1; n_workers <= OMMAI_TEAM_GROUP; n_workers++) {
    assert_int_equal(tile_rows(31, n_workers), 32);
    assert_int_equal(tile_rows(1023, n_workers), 64);
    assert_int_equal(tile_rows(1024, n_workers), 128);
    assert_int_equal(ommai_rows_of_task(512, 7, n_workers, 256, 32), 256);
  }
}

/* 1,024 rows are an image of 512x512 in patches of 16, 4,096 one of 1024x1024. */
static void large_teams_have_work_for_all(void **state) {
  (void)state;
  assert_int_equal(tile_rows(1024, 16), 64);
  assert_int_equal(tile_rows(1024, 32), 32);
  assert_int_equal(tile_rows(1024, 64), 16);
  assert_int_equal(tile_rows(4096, 16), 128);
  assert_int_equal(tile_rows(4096, 32), 128);
  assert_int_equal(tile_rows(4096, 64), 64);
  assert_int_equal(ommai_rows_of_task(512, 8, 16, 256, 32), 256);
  assert_int_equal(ommai_rows_of_task(512, 8, 64, 256, 32), 64);
}

/* Of the worker that has most rows to do, with what each tile's weights cost. */
static int64_t time_of(int64_t n_rows, int n_workers, int64_t rows) {
  return ommai_div_up(ommai_div_up(n_rows, rows), n_workers) * (rows + 64);
}

/* 784 rows are an image of 448x448. */
static void layers_that_take_more_have_larger_tiles(void **state) {
  (void)state;
  enum { MOST = 2 * OMMAI_LINEAR_MAX_ROWS };
  assert_int_equal(tile_rows_up_to(MOST, 4096, 2), 256);
  assert_int_equal(tile_rows_up_to(MOST, 784, 2), 208);
  assert_int_equal(tile_rows_up_to(MOST, 1024, 16), 64);
  assert_int_equal(tile_rows_up_to(MOST, 1024, 64), 16);
  for (int64_t n_rows = 1; n_rows < 5000; n_rows = n_rows * 5 / 4 + 1) {
    for (int n_workers = 1; n_workers <= 256; n_workers += 7) {
      int64_t rows = tile_rows_up_to(MOST, n_rows, n_workers);
      assert_in_range(rows, 16, MOST);
      assert_int_equal(rows % 16, 0);
      assert_true(time_of(n_rows, n_workers, rows) <= time_of(n_rows, n_workers, MOST));
      assert_true(time_of(n_rows, n_workers, rows) <= time_of(n_rows, n_workers, 16));
    }
  }
}

static void smaller_tasks_pay(void **state) {
  (void)state;
  for (int64_t n_rows = 1; n_rows < 5000; n_rows = n_rows * 5 / 4 + 1) {
    for (int n_workers = 1; n_workers <= 256; n_workers += 7) {
      for (int64_t n_parts = 1; n_parts < 200; n_parts = 3 * n_parts + 1) {
        int64_t rows = ommai_rows_of_task(n_rows, n_parts, n_workers, 256, 32);
        assert_true(rows == 256 || rows == 128 || rows == 64 || rows == 32);
        double now = share_of(n_rows, n_parts, n_workers, rows), before = share_of(n_rows, n_parts, n_workers, 256);
        assert_true(rows == 256 ? now == before : now > 1.04 * before);
      }
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_teams_have_large_tiles),
      cmocka_unit_test(large_teams_have_work_for_all),
      cmocka_unit_test(layers_that_take_more_have_larger_tiles),
      cmocka_unit_test(smaller_tasks_pay),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
