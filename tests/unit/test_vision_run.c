/* Passes through towers of every kind: slices, batch, order and threads change no bit, sizes are
 * checked, workspaces measured right. */
#include "vision/vision_run.h"

#include <stdlib.h>

#include "base/allocator.h"
#include "support/linear_fixture.h"
#include "support/test.h"
#include "support/tower_fixture.h"

enum { N_INPUTS = 5, N_WORKERS = 3 };

/* Frames, rows and columns of patches: ragged windows, one block, a video with a frame short, a
 * tower of one column. */
static const int64_t grids[N_INPUTS][3] = {{1, 4, 6}, {1, 2, 2}, {3, 10, 8}, {1, 14, 2}, {1, 6, 18}};

static struct fixture_tower towers[FIXTURE_TOWERS][FIXTURE_TYPES];
static struct ommai_team *team;

static int set_up(void **state) {
  (void)state;
  struct omma_error error;
  for (int kind = 0; kind < FIXTURE_TOWERS; kind++) {
    for (int type = 0; type < FIXTURE_TYPES; type++) fixture_tower_make(&towers[kind][type], kind, type, N_WORKERS, &ommai_default_allocator);
  }
  return ommai_team_create(N_WORKERS, false, &ommai_default_allocator, &team, &error) == OMMA_OK ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  for (int kind = 0; kind < FIXTURE_TOWERS; kind++) {
    for (int type = 0; type < FIXTURE_TYPES; type++) fixture_tower_free(&towers[kind][type]);
  }
  ommai_team_destroy(team);
  return 0;
}

static void expect_same(const float *got, const float *expected, size_t n) {
  assert_memory_equal(got, expected, n * sizeof *got);
}

static void slices_and_threads_do_not_change_a_bit(void **state) {
  (void)state;
  const int64_t slices[] = {1, 0, 2, 7, INT64_MAX};
  for (int kind = 0; kind < FIXTURE_TOWERS; kind++) {
    for (int type = 0; type < FIXTURE_TYPES; type++) {
      const struct fixture_tower *tower = &towers[kind][type];
      struct fixture_pass reference = fixture_pass_make(tower, grids, N_INPUTS, 1);
      fixture_pass_run(tower, &reference, 1000, NULL);
      for (size_t i = 0; i < reference.n_values; i++) assert_true(reference.values[i] == reference.values[i]);
      for (size_t i = 0; i < sizeof slices / sizeof *slices; i++) {
        struct fixture_pass pass = fixture_pass_make(tower, grids, N_INPUTS, N_WORKERS);
        fixture_pass_run(tower, &pass, slices[i], i % 2 ? ommai_team_interface(team) : NULL);
        expect_same(pass.values, reference.values, reference.n_values);
        fixture_pass_free(&pass);
      }
      fixture_pass_free(&reference);
    }
  }
}

/* Blocks whose tiles go through no merger. */
static int64_t plain_blocks(const struct ommai_vision_config *config) {
  int64_t n = config->depth - 1;
  for (int64_t j = 0; j < config->n_deepstack; j++) n -= config->deepstack_layers[j] != config->depth - 1;
  return n;
}

/* By the clock: no time at all is one round of tasks a slice, endless time is the rest of a phase
 * after the first round of its kind of tiles. Neither changes a bit, nor does a mixture. */
static void slices_by_time_do_not_change_a_bit(void **state) {
  (void)state;
  enum { MANY = 48 }; /* more tiles than workers, also where tiles are of 256 rows */
  const int64_t times[] = {0, 20000, INT64_MAX};
  int64_t many[MANY][3];
  for (int i = 0; i < MANY; i++) memcpy(many[i], grids[i % N_INPUTS], sizeof many[i]);
  for (int kind = 0; kind < FIXTURE_TOWERS; kind++) {
    const struct fixture_tower *tower = &towers[kind][FIXTURE_BF16];
    struct fixture_pass reference = fixture_pass_make(tower, many, MANY, 1);
    fixture_pass_run(tower, &reference, INT64_MAX, NULL);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
      struct fixture_pass pass = fixture_pass_make(tower, many, MANY, N_WORKERS);
      int64_t n_slices = fixture_pass_run_by_time(tower, &pass, times[i], ommai_team_interface(team));
      int64_t depth = tower->tower.config.depth, n_kinds = plain_blocks(&tower->tower.config) > 0 ? 3 : 2;
      /* more than two rounds in a phase */
      if (times[i] == 0) assert_true(n_slices > 1 + 4 * depth);
      if (times[i] == INT64_MAX) assert_int_equal(n_slices, 1 + 2 * depth + n_kinds);
      expect_same(pass.values, reference.values, reference.n_values);
      fixture_pass_free(&pass);
    }
    fixture_pass_free(&reference);
  }
}

/* Alone, in any order, and many times over (which makes other tiles of rows). */
static void the_batch_does_not_change_a_bit(void **state) {
  (void)state;
  enum { MANY = 40 };
  for (int kind = 0; kind < FIXTURE_TOWERS; kind++) {
    for (int type = 0; type < FIXTURE_TYPES; type++) {
      const struct fixture_tower *tower = &towers[kind][type];
      struct fixture_pass alone[N_INPUTS];
      int64_t many[MANY][3];
      for (int i = 0; i < N_INPUTS; i++) {
        alone[i] = fixture_pass_make(tower, &grids[i], 1, 1);
        fixture_pass_run(tower, &alone[i], 1000, NULL);
      }
      for (int i = 0; i < MANY; i++) memcpy(many[i], grids[i * i * 3 % N_INPUTS], sizeof many[i]);
      struct fixture_pass pass = fixture_pass_make(tower, many, MANY, N_WORKERS);
      fixture_pass_run(tower, &pass, 1000, ommai_team_interface(team));
      for (int i = 0; i < MANY; i++) {
        const struct fixture_pass *expected = &alone[i * i * 3 % N_INPUTS];
        expect_same(pass.inputs[i].output, expected->values, expected->n_values);
      }
      fixture_pass_free(&pass);
      for (int i = 0; i < N_INPUTS; i++) fixture_pass_free(&alone[i]);
    }
  }
}

/* Passes over the same tower in turns, each with its own plans: nothing of a pass lies in the
 * tower. */
static void interleaved_passes_do_not_meet(void **state) {
  (void)state;
  struct omma_error error;
  for (int kind = 0; kind < FIXTURE_TOWERS; kind++) {
    const struct fixture_tower *tower = &towers[kind][FIXTURE_F32];
    struct fixture_pass reference[2] = {fixture_pass_make(tower, grids, 2, 1), fixture_pass_make(tower, grids + 2, 3, 1)};
    struct fixture_pass pass[2] = {fixture_pass_make(tower, grids, 2, 1), fixture_pass_make(tower, grids + 2, 3, 1)};
    struct ommai_vision_run *runs[2];
    for (int i = 0; i < 2; i++) {
      fixture_pass_run(tower, &reference[i], 1000, NULL);
      assert_ok(fixture_pass_start(tower, &pass[i], pass[i].workspace_size, NULL, &runs[i], &error), &error);
    }
    while (!ommai_vision_run_done(runs[0]) || !ommai_vision_run_done(runs[1])) {
      for (int i = 0; i < 2; i++) assert_ok(ommai_vision_run_advance(runs[i], 1 + i, &error), &error);
    }
    for (int i = 0; i < 2; i++) {
      expect_same(pass[i].values, reference[i].values, reference[i].n_values);
      fixture_pass_free(&pass[i]);
      fixture_pass_free(&reference[i]);
    }
  }
}

/* A video is its temporal patches, each attending to itself; equal frames are a still. */
static void videos_are_stills_one_after_another(void **state) {
  (void)state;
  const int64_t video_grid[1][3] = {{4, 6, 8}};
  for (int kind = 0; kind < FIXTURE_TOWERS; kind++) {
    const struct fixture_tower *tower = &towers[kind][FIXTURE_F32];
    const struct ommai_vision_config *config = &tower->tower.config;
    int64_t slices = config->temporal_patch_size, n_temporal_patches = 4 / slices;
    size_t frame = (size_t)(6 * 8 * config->patch_size * config->patch_size * 3);
    struct fixture_pass video = fixture_pass_make(tower, video_grid, 1, 1);
    uint8_t *pixels = (uint8_t *)video.inputs[0].pixels;
    for (int64_t f = 1; slices == 2 && f < 4; f += 2)
      memcpy(pixels + (size_t)f * frame, pixels + (size_t)(f - 1) * frame, frame);
    fixture_pass_run(tower, &video, 1000, NULL);
    size_t out = (size_t)(6 * 8 / 4 * config->out_hidden_size);
    for (int64_t temporal_patch = 0; temporal_patch < n_temporal_patches; temporal_patch++) {
      const int64_t still_grid[1][3] = {{1, 6, 8}};
      struct fixture_pass still = fixture_pass_make(tower, still_grid, 1, 1);
      memcpy((uint8_t *)still.inputs[0].pixels, pixels + (size_t)(temporal_patch * slices) * frame, frame);
      fixture_pass_run(tower, &still, 1000, NULL);
      for (int64_t slot = 0; slot <= config->n_deepstack; slot++) {
        expect_same(video.values + (size_t)(slot * n_temporal_patches + temporal_patch) * out,
                    still.values + (size_t)slot * out, out);
      }
      fixture_pass_free(&still);
    }
    fixture_pass_free(&video);
  }
}

/* Every workspace that is too small is refused; none is written over. */
static void small_workspaces_are_refused(void **state) {
  (void)state;
  for (int kind = 0; kind < FIXTURE_TOWERS; kind++) {
    const struct fixture_tower *tower = &towers[kind][FIXTURE_F32];
    struct fixture_pass pass = fixture_pass_make(tower, grids, N_INPUTS, 1);
    struct ommai_vision_run *run = NULL;
    struct omma_error error;
    assert_ok(fixture_pass_start(tower, &pass, pass.workspace_size, NULL, &run, &error), &error);
    size_t n_refused = 0;
    for (size_t size = 0; size < pass.workspace_size; size += 64 + size / 512 * 64) {
      free(pass.workspace);
      pass.workspace = aligned_alloc(64, size + 64);
      memset(pass.workspace, 0x5a, size + 64);
      enum omma_status status = fixture_pass_start(tower, &pass, size, NULL, &run, &error);
      if (status != OMMA_OK) { /* a bound may be larger than this plan's need */
        assert_int_equal(status, OMMA_ERROR_MEMORY);
        n_refused++;
      }
      for (size_t i = size; i < size + 64; i++) assert_int_equal(((unsigned char *)pass.workspace)[i], 0x5a);
    }
    assert_true(n_refused > 10);
    fixture_pass_free(&pass);
  }
}

/* The stated size is enough for whatever has these sizes: many small images, one long one, and what
 * lies between. */
static void one_size_fits_all_of_these_sizes(void **state) {
  (void)state;
  enum { SIDE = 48 };
  const struct fixture_tower *tower = &towers[FIXTURE_TOWER_WINDOWS][FIXTURE_F32];
  const struct ommai_vision_sizes largest = {.n_patches = 2 * SIDE, .n_temporal_patches = SIDE / 2, .max_side = SIDE};
  size_t size = ommai_vision_workspace_size(&tower->tower, &largest, 1);
  for (int64_t columns = 2; columns <= SIDE; columns += 2) {
    int64_t many[SIDE][3], n = 0;
    struct omma_error error;
    struct ommai_vision_run *run;
    for (; (n + 1) * columns <= SIDE; n++)
      memcpy(many[n], (int64_t[3]){1, n % 2 ? columns : 2, n % 2 ? 2 : columns}, sizeof many[n]);
    struct fixture_pass pass = fixture_pass_make(tower, many, n, 1);
    assert_true(pass.workspace_size <= size);
    free(pass.workspace);
    pass.workspace = aligned_alloc(64, (size + 63) / 64 * 64);
    assert_ok(fixture_pass_start(tower, &pass, size, NULL, &run, &error), &error);
    fixture_pass_free(&pass);
  }
}

static void wrong_grids_are_named(void **state) {
  (void)state;
  const int64_t wrong[][2] = {
      {0, 2}, {2, 0}, {-2, 2}, {3, 2}, {2, 5}, {INT64_MAX - 1, 2}, {(int64_t)1 << 32, (int64_t)1 << 32}};
  const struct fixture_tower *tower = &towers[FIXTURE_TOWER_WINDOWS][FIXTURE_F32];
  struct fixture_pass pass = fixture_pass_make(tower, grids, N_INPUTS, 1);
  struct ommai_vision_run *run = NULL;
  struct omma_error error;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    pass.inputs[1].grid_rows = wrong[i][0];
    pass.inputs[1].grid_columns = wrong[i][1];
    assert_fails(fixture_pass_start(tower, &pass, pass.workspace_size, NULL, &run, &error), OMMA_ERROR_ARGUMENT,
                 "image 1: grid", &error);
    assert_string_equal(error.field, "image");
    assert_null(run);
  }
  const int64_t frames[] = {0, -1, INT64_MAX};
  pass.inputs[1].grid_rows = pass.inputs[1].grid_columns = 1 << 16;
  for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
    pass.inputs[1].n_frames = frames[i];
    assert_fails(fixture_pass_start(tower, &pass, pass.workspace_size, NULL, &run, &error), OMMA_ERROR_ARGUMENT,
                 "image 1: ", &error);
  }
  fixture_pass_free(&pass);
}

static size_t size_for(int64_t n_patches, int64_t n_temporal_patches, int64_t max_side, int n_workers) {
  const struct ommai_vision_sizes sizes = {n_patches, n_temporal_patches, max_side};
  return ommai_vision_workspace_size(&towers[FIXTURE_TOWER_WINDOWS][FIXTURE_F32].tower, &sizes, n_workers);
}

static void impossible_sizes_have_no_workspace(void **state) {
  (void)state;
  assert_int_equal(size_for(0, 1, 1, 1), 0);
  assert_int_equal(size_for(-4, 1, 1, 1), 0);
  assert_int_equal(size_for(4, 0, 2, 1), 0);
  assert_int_equal(size_for(4, 5, 2, 1), 0);
  assert_int_equal(size_for(4, 1, 0, 1), 0);
  assert_int_equal(size_for(4, 1, 5, 1), 0);
  assert_int_equal(size_for(4, 1, 2, 0), 0);
  assert_int_equal(size_for(INT64_MAX, 1, 2, 1), 0);
  assert_true(size_for(8, 1, 4, 2) > size_for(4, 1, 2, 1));
}

/* What a layer's product fails with is what the pass fails with, on one thread and several. */
static void a_failing_layer_is_reported(void **state) {
  (void)state;
  struct fixture_tower *fixture = &towers[FIXTURE_TOWER_BILINEAR][FIXTURE_F32];
  struct ommai_linear *layers[] = {fixture->tower.patch_embed.linear, fixture->tower.blocks[1].fc2.linear,
                                   fixture->tower.merger.fc1.linear};
  struct omma_error error;
  for (size_t i = 0; i < 2 * sizeof layers / sizeof *layers; i++) {
    struct fixture_pass pass = fixture_pass_make(fixture, grids, N_INPUTS, N_WORKERS);
    struct ommai_linear_code broken;
    struct ommai_vision_run *run;
    fixture_break_linear(layers[i / 2], &broken);
    assert_ok(fixture_pass_start(fixture, &pass, pass.workspace_size, i % 2 ? ommai_team_interface(team) : NULL, &run, &error),
              &error);
    enum omma_status status = OMMA_OK;
    while (status == OMMA_OK && !ommai_vision_run_done(run)) status = ommai_vision_run_advance(run, 100, &error);
    assert_fails(status, OMMA_ERROR_LIMIT, "vision tower: no tiles today", &error);
    fixture_mend_linear(layers[i / 2]);
    fixture_pass_free(&pass);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slices_and_threads_do_not_change_a_bit), cmocka_unit_test(slices_by_time_do_not_change_a_bit),
      cmocka_unit_test(the_batch_does_not_change_a_bit),        cmocka_unit_test(interleaved_passes_do_not_meet),
      cmocka_unit_test(videos_are_stills_one_after_another),    cmocka_unit_test(small_workspaces_are_refused),
      cmocka_unit_test(one_size_fits_all_of_these_sizes),       cmocka_unit_test(wrong_grids_are_named),
      cmocka_unit_test(impossible_sizes_have_no_workspace),     cmocka_unit_test(a_failing_layer_is_reported),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
