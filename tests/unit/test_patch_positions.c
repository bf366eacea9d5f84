/* Where patches stand, their bilinear taps and rotary angles: formulas of docs/models/, and the
 * official tensors. */
#include "families/model_config_read.h"
#include "vision/patch_positions.h"

#include <math.h>
#include <stdlib.h>

#include "base/allocator.h"
#include "families/family.h"
#include "support/golden.h"
#include "support/test.h"

/* Block row, block column, row and column in the block: counting in that order meets every patch
 * once. */
static void patches_come_in_merge_blocks(void **state) {
  (void)state;
  for (int64_t merge = 1; merge <= 4; merge++) {
    for (int64_t rows = merge; rows <= 5 * merge; rows += merge) {
      for (int64_t columns = merge; columns <= 4 * merge; columns += merge) {
        int64_t index = 0;
        for (int64_t block_row = 0; block_row < rows; block_row += merge) {
          for (int64_t block_column = 0; block_column < columns; block_column += merge) {
            for (int64_t inside = 0; inside < merge * merge; inside++, index++) {
              struct ommai_patch_position position = ommai_patch_position(index, rows, columns, merge, 0);
              assert_int_equal(position.row, block_row + inside / merge);
              assert_int_equal(position.column, block_column + inside % merge);
            }
          }
        }
        assert_int_equal(index, rows * columns);
      }
    }
  }
}

/* Reads the table T[r][c] = 1000 r + c, on which bilinear reading is exact: 1000 source_row +
 * source_column. */
static void taps_read_a_plane_exactly(void **state) {
  (void)state;
  const int64_t sides[] = {1, 2, 8, 48}, grids[] = {1, 2, 3, 6, 48, 95, 126};
  for (size_t s = 0; s < 4; s++) {
    for (size_t a = 0; a < 7; a++) {
      for (size_t b = 0; b < 7; b++) {
        int64_t side = sides[s], rows = grids[a], columns = grids[b];
        for (struct ommai_patch_position at = {0, 0}; at.row < rows; at.row++) {
          for (at.column = 0; at.column < columns; at.column++) {
            struct ommai_position_taps taps;
            double value = 0, sum = 0;
            ommai_position_taps(OMMAI_POSITIONS_BILINEAR, at, rows, columns, side, side, &taps);
            assert_int_equal(taps.n, 4);
            for (int t = 0; t < 4; t++) {
              assert_in_range(taps.rows[t], 0, side * side - 1);
              assert_true(taps.weights[t] >= 0 && taps.weights[t] <= 1);
              sum += taps.weights[t];
              value += taps.weights[t] * (1000.0 * (double)(taps.rows[t] / side) + (double)(taps.rows[t] % side));
            }
            double row = (double)(at.row * (side - 1)) / (rows > 1 ? (double)(rows - 1) : 1);
            double column = (double)(at.column * (side - 1)) / (columns > 1 ? (double)(columns - 1) : 1);
            assert_true(fabs(sum - 1) < 1e-6);
            if (!(fabs(value - 1000 * row - column) < 1e-6 * (1 + 1000 * (double)side))) {
              fail_msg("side %d, grid %d x %d, patch %d, %d: %g, expected %g", (int)side, (int)rows, (int)columns, (int)at.row,
                       (int)at.column, value, 1000 * row + column);
            }
          }
        }
      }
    }
  }
}

static void corners_are_the_tables_corners(void **state) {
  (void)state;
  const int64_t side = 48, rows = 30, columns = 70;
  const struct ommai_patch_position corners[4] = {{0, 0}, {0, columns - 1}, {rows - 1, 0}, {rows - 1, columns - 1}};
  const int64_t expected[4] = {0, side - 1, (side - 1) * side, side * side - 1};
  for (int corner = 0; corner < 4; corner++) {
    struct ommai_position_taps taps;
    ommai_position_taps(OMMAI_POSITIONS_BILINEAR, corners[corner], rows, columns, side, side, &taps);
    assert_int_equal(taps.rows[0], expected[corner]);
    assert_true(taps.weights[0] == 1 && taps.weights[1] == 0 && taps.weights[2] == 0 && taps.weights[3] == 0);
  }
}

static void rope_table_equals_the_formula(void **state) {
  (void)state;
  enum { N = 200, MAX_QUARTER = 32, N_KINDS = 3 };
  static float cosine[N * 2 * MAX_QUARTER], sine[N * 2 * MAX_QUARTER];
  const enum ommai_rope_kind kinds[N_KINDS] = {OMMAI_ROPE_HALF, OMMAI_ROPE_HALF_SHARED, OMMAI_ROPE_PAIRS};
  const int64_t quarters[] = {1, 16, 18, 32};
  for (size_t test = 0; test < 4 * N_KINDS; test++) {
    int64_t quarter = quarters[test / N_KINDS];
    ommai_vision_rope_table(kinds[test % N_KINDS], N, quarter, 10000, cosine, sine);
    for (int64_t i = 0; i < N * 2 * quarter; i++) {
      double j = (double)(i % quarter);
      if (kinds[test % N_KINDS] == OMMAI_ROPE_HALF_SHARED && i % (2 * quarter) >= quarter) j += 0.5;
      double angle = (double)(i / (2 * quarter)) * pow(10000, -j / (double)quarter), bound = 1e-6 + 4e-7 * angle;
      assert_true(fabs(cosine[i] - cos(angle)) <= bound && fabs(sine[i] - sin(angle)) <= bound);
    }
  }
}

/* [0, 1, 4, 9, ..] read at 5 and at 11 of 8 places by torch's bilinear interpolation without
 * aligned corners, along either axis. */
static void centred_taps_give_the_official_values(void **state) {
  (void)state;
  static const double expected[] = {0.30000, 3.70000, 12.50000, 26.10000, 45.10001, 0.00000,  0.59091,  1.95455,
                                    4.22727, 7.86364, 12.50000, 18.04546, 24.59091, 32.50000, 41.31818, 49.00000};
  const int64_t counts[] = {5, 11};
  for (int g = 0, place = 0; g < 2; g++) {
    for (int64_t i = 0; i < counts[g]; i++, place++) {
      struct ommai_position_taps down, across;
      double value[2] = {0, 0};
      ommai_position_taps(OMMAI_POSITIONS_BILINEAR_CENTRES, (struct ommai_patch_position){i, 0}, counts[g], 1, 8, 1, &down);
      ommai_position_taps(OMMAI_POSITIONS_BILINEAR_CENTRES, (struct ommai_patch_position){0, i}, 1, counts[g], 1, 8, &across);
      for (int t = 0; t < 4; t++) {
        value[0] += (double)down.weights[t] * (double)(down.rows[t] * down.rows[t]);
        value[1] += (double)across.weights[t] * (double)(across.rows[t] * across.rows[t]);
      }
      assert_true(fabs(value[0] - expected[place]) < 2e-5 && fabs(value[1] - expected[place]) < 2e-5);
    }
  }
}

/* [0, 1, 4, 9, ..] read at 5 of 8 places by torch's bicubic interpolation, along either axis. */
static void bicubic_taps_give_the_official_values(void **state) {
  (void)state;
  const double expected[5] = {0.13725, 3.45700, 12.125, 26.36098, 45.89275};
  for (int64_t i = 0; i < 5; i++) {
    struct ommai_position_taps down, across;
    double value[2] = {0, 0};
    ommai_position_taps(OMMAI_POSITIONS_BICUBIC, (struct ommai_patch_position){i, 0}, 5, 1, 8, 1, &down);
    ommai_position_taps(OMMAI_POSITIONS_BICUBIC, (struct ommai_patch_position){0, i}, 1, 5, 1, 8, &across);
    for (int t = 0; t < 16; t++) {
      value[0] += (double)down.weights[t] * (double)(down.rows[t] * down.rows[t]);
      value[1] += (double)across.weights[t] * (double)(across.rows[t] * across.rows[t]);
    }
    assert_true(fabs(value[0] - expected[i]) < 2e-5 && fabs(value[1] - expected[i]) < 2e-5);
  }
}

static void bicubic_taps_stay_in_the_table_and_sum_to_one(void **state) {
  (void)state;
  const int64_t sides[] = {1, 2, 5, 64}, grids[] = {1, 2, 7, 64, 100};
  for (size_t s = 0; s < 4; s++) {
    for (size_t g = 0; g < 5; g++) {
      for (int64_t i = 0; i < grids[g]; i++) {
        struct ommai_position_taps taps;
        double sum = 0;
        ommai_position_taps(OMMAI_POSITIONS_BICUBIC, (struct ommai_patch_position){i, grids[g] - 1 - i}, grids[g], grids[g],
                            sides[s], 3, &taps);
        assert_int_equal(taps.n, 16);
        for (int t = 0; t < taps.n; t++) {
          assert_in_range(taps.rows[t], 0, sides[s] * 3 - 1);
          sum += taps.weights[t];
        }
        assert_true(fabs(sum - 1) < 1e-5);
      }
    }
  }
}

/* A grid of the table's size reads the table itself. */
static void bicubic_taps_at_the_tables_size_are_the_table(void **state) {
  (void)state;
  for (int64_t i = 0; i < 6 * 9; i++) {
    struct ommai_position_taps taps;
    ommai_position_taps(OMMAI_POSITIONS_BICUBIC, (struct ommai_patch_position){i / 9, i % 9}, 6, 9, 6, 9, &taps);
    for (int t = 0; t < taps.n; t++) {
      assert_true(taps.weights[t] == (t == 5 ? 1.0f : 0.0f));
      if (t == 5) assert_int_equal(taps.rows[t], i);
    }
  }
}

static void rope_rows_follow_their_kind(void **state) {
  (void)state;
  enum { QUARTER = 3 };
  float table[8 * QUARTER], half[2 * QUARTER], shared[2 * QUARTER], adjacent[2 * QUARTER];
  for (int i = 0; i < 8 * QUARTER; i++) table[i] = (float)i;
  ommai_vision_rope_row(OMMAI_ROPE_HALF, (struct ommai_patch_position){1, 3}, QUARTER, table, half);
  ommai_vision_rope_row(OMMAI_ROPE_HALF_SHARED, (struct ommai_patch_position){1, 3}, QUARTER, table, shared);
  ommai_vision_rope_row(OMMAI_ROPE_PAIRS, (struct ommai_patch_position){1, 3}, QUARTER, table, adjacent);
  for (int j = 0; j < QUARTER; j++) {
    float row = (float)(2 * QUARTER + j), column = (float)(7 * QUARTER + j);
    assert_true(half[j] == row && half[QUARTER + j] == column);
    assert_true(adjacent[2 * j] == column && adjacent[2 * j + 1] == row);
  }
  assert_memory_equal(shared, half, sizeof half);
}

/* The official cosines and sines [n, head_dim]: row angles, column angles, and the same again for
 * the second half. */
static void angles_equal_the_official_ones(void **state) {
  (void)state;
  int n_compared = 0;
  for (size_t m = 0; golden_models[m]; m++) {
    json_t *manifest = golden_manifest(golden_models[m]);
    struct golden_case c;
    assert_true(golden_case_open(golden_models[m], manifest, 0, &c));
    if (!golden_has(&c, "vision.rotary_cos")) { /* a fixture of a decoder alone */
      golden_case_close(&c);
      json_decref(manifest);
      continue;
    }
    n_compared++;
    char path[1024];
    struct omma_error error;
    struct ommai_model_config config;
    const struct ommai_family *family;
    golden_path(golden_models[m], NULL, path, sizeof path);
    assert_ok(ommai_model_config_read(&(struct ommai_documents){.directory = path}, false, &ommai_default_allocator, &family,
                                      &config, &error),
              &error);
    int64_t n, *grid = golden_i64(&c, "image.0.grid_thw", NULL);
    float *cosine = golden_f32(&c, "vision.rotary_cos", &n), *sine = golden_f32(&c, "vision.rotary_sin", NULL);
    int64_t n_patches = grid[1] * grid[2], head_dim = n / golden_stored_rows(&c, n_patches), quarter = head_dim / 4;
    int64_t side = grid[1] > grid[2] ? grid[1] : grid[2];
    float *table_cosine = malloc((size_t)(side * 2 * quarter) * sizeof(float));
    float *table_sine = malloc((size_t)(side * 2 * quarter) * sizeof(float));
    ommai_vision_rope_table(config.vision.rope, side, quarter, 10000, table_cosine, table_sine);
    for (int64_t i = 0; i < n; i++) {
      int64_t patch = golden_row(&c, i / head_dim, n_patches);
      struct ommai_patch_position position = ommai_patch_position(patch, grid[1], grid[2], config.vision.merge_size, 0);
      int64_t e = i % head_dim % (2 * quarter), at = e < quarter ? position.row : position.column;
      assert_true(fabsf(cosine[i] - table_cosine[at * 2 * quarter + e]) < 2e-6f);
      assert_true(fabsf(sine[i] - table_sine[at * 2 * quarter + e]) < 2e-6f);
    }
    free(grid);
    free(cosine);
    free(sine);
    free(table_cosine);
    free(table_sine);
    golden_case_close(&c);
    json_decref(manifest);
  }
  assert_true(n_compared > 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(patches_come_in_merge_blocks),
      cmocka_unit_test(taps_read_a_plane_exactly),
      cmocka_unit_test(corners_are_the_tables_corners),
      cmocka_unit_test(rope_table_equals_the_formula),
      cmocka_unit_test(angles_equal_the_official_ones),
      cmocka_unit_test(bicubic_taps_give_the_official_values),
      cmocka_unit_test(centred_taps_give_the_official_values),
      cmocka_unit_test(bicubic_taps_stay_in_the_table_and_sum_to_one),
      cmocka_unit_test(bicubic_taps_at_the_tables_size_are_the_table),
      cmocka_unit_test(rope_rows_follow_their_kind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
