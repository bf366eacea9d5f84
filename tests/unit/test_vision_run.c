/* Passes through the tower: slices of any size give the same bits, sizes are checked, workspaces measured right. */
#include "vision/vision_run.h"

#include <stdlib.h>

#include "base/team.h"
#include "engine/encode_job.h"
#include "engine/model.h"
#include "support/model_fixture.h"
#include "support/test.h"

enum { N_PICTURES = 3 };

static struct omma_model *model;
static uint8_t *pixels[N_PICTURES];
static const int64_t grids[N_PICTURES][2] = {{4, 6}, {2, 2}, {10, 8}};

static int set_up(void **state) {
  (void)state;
  struct test_random random = {8};
  model = fixture_model("qwen3_vl_tied", &(struct omma_model_options){.weights = OMMA_WEIGHTS_F32, .n_threads = 3});
  for (int i = 0; i < N_PICTURES; i++) {
    size_t size = (size_t)(grids[i][0] * grids[i][1]) * 16 * 16 * 3;
    pixels[i] = malloc(size);
    for (size_t j = 0; j < size; j++) pixels[i][j] = (uint8_t)test_random_u32(&random);
  }
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  for (int i = 0; i < N_PICTURES; i++) free(pixels[i]);
  omma_model_close(model);
  return 0;
}

struct pass {
  struct ommai_vision_input inputs[N_PICTURES];
  float *values;
  size_t n_values, workspace_size;
  void *workspace;
};

static struct pass make_pass(int n_workers) {
  struct pass pass = {0};
  struct ommai_vision_sizes sizes = {.n_planes = N_PICTURES, .max_side = 10};
  for (int i = 0; i < N_PICTURES; i++) {
    int64_t n = grids[i][0] * grids[i][1];
    sizes.n_patches += n;
    pass.n_values += (size_t)ommai_encode_output_size(model, n / 4);
  }
  pass.values = calloc(pass.n_values, sizeof(float));
  float *output = pass.values;
  for (int i = 0; i < N_PICTURES; i++) {
    pass.inputs[i] = (struct ommai_vision_input){pixels[i], 1, grids[i][0], grids[i][1], output};
    output += ommai_encode_output_size(model, grids[i][0] * grids[i][1] / 4);
  }
  pass.workspace_size = ommai_vision_workspace_size(&model->tower, &sizes, n_workers);
  assert_true(pass.workspace_size > 0);
  pass.workspace = aligned_alloc(64, pass.workspace_size);
  memset(pass.workspace, 0xff, pass.workspace_size); /* NaN, where anything is read that was not written */
  return pass;
}

static void free_pass(struct pass *pass) {
  free(pass->values);
  free(pass->workspace);
}

static enum omma_status start(struct pass *pass, size_t workspace_size, const struct omma_team *team,
                              struct ommai_vision_run **run, struct omma_error *error) {
  return ommai_vision_run_start(&model->tower, pass->inputs, N_PICTURES, &model->config.picture.patches, pass->workspace,
                                workspace_size, team, run, error);
}

static void run_in_slices(struct pass *pass, int64_t max_tasks, const struct omma_team *team) {
  struct ommai_vision_run *run;
  struct omma_error error;
  int64_t before = 0, done = 0, total = 0;
  assert_ok(start(pass, pass->workspace_size, team, &run, &error), &error);
  while (!ommai_vision_run_done(run)) {
    assert_ok(ommai_vision_run_advance(run, max_tasks, &error), &error);
    ommai_vision_run_progress(run, &done, &total);
    assert_true(done >= before && done <= total);
    before = done;
  }
  assert_int_equal(done, total);
  assert_ok(ommai_vision_run_advance(run, max_tasks, &error), &error); /* done stays done */
  assert_true(ommai_vision_run_done(run));
}

static void slices_do_not_change_a_bit(void **state) {
  (void)state;
  const int64_t slices[] = {1, 0, 2, 7, INT64_MAX};
  struct omma_error error;
  struct ommai_team *team;
  struct pass reference = make_pass(1);
  run_in_slices(&reference, 1000, NULL);
  for (size_t i = 0; i < reference.n_values; i++) assert_true(reference.values[i] == reference.values[i]);
  assert_ok(ommai_team_create(3, false, &model->allocator, &team, &error), &error);
  for (size_t i = 0; i < sizeof slices / sizeof *slices; i++) {
    struct pass pass = make_pass(3);
    run_in_slices(&pass, slices[i], i % 2 ? ommai_team_interface(team) : NULL);
    assert_memory_equal(pass.values, reference.values, reference.n_values * sizeof(float));
    free_pass(&pass);
  }
  ommai_team_destroy(team);
  free_pass(&reference);
}

/* Every workspace that is too small is refused; none is written over. */
static void small_workspaces_are_refused(void **state) {
  (void)state;
  struct pass pass = make_pass(1);
  struct ommai_vision_run *run = NULL;
  struct omma_error error;
  assert_ok(start(&pass, pass.workspace_size, NULL, &run, &error), &error);
  size_t n_refused = 0;
  for (size_t size = 0; size < pass.workspace_size; size += 64 + size / 512 * 64) {
    free(pass.workspace);
    pass.workspace = aligned_alloc(64, size + 64);
    memset(pass.workspace, 0x5a, size + 64);
    enum omma_status status = start(&pass, size, NULL, &run, &error);
    if (status != OMMA_OK) { /* a bound may be larger than this plan's need */
      assert_int_equal(status, OMMA_ERROR_MEMORY);
      n_refused++;
    }
    for (size_t i = size; i < size + 64; i++) assert_int_equal(((unsigned char *)pass.workspace)[i], 0x5a);
  }
  assert_true(n_refused > 10);
  free_pass(&pass);
}

static void wrong_grids_are_named(void **state) {
  (void)state;
  const int64_t wrong[][2] = {
      {0, 2}, {2, 0}, {-2, 2}, {3, 2}, {2, 5}, {INT64_MAX - 1, 2}, {(int64_t)1 << 32, (int64_t)1 << 32}};
  struct omma_error error;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    struct pass pass = make_pass(1);
    struct ommai_vision_run *run = NULL;
    pass.inputs[1].grid_rows = wrong[i][0];
    pass.inputs[1].grid_columns = wrong[i][1];
    assert_fails(start(&pass, pass.workspace_size, NULL, &run, &error), OMMA_ERROR_ARGUMENT, "image 1: grid", &error);
    assert_string_equal(error.field, "image");
    assert_null(run);
    free_pass(&pass);
  }
}

static size_t size_for(int64_t n_patches, int64_t n_planes, int64_t max_side, int n_workers) {
  const struct ommai_vision_sizes sizes = {n_patches, n_planes, max_side};
  return ommai_vision_workspace_size(&model->tower, &sizes, n_workers);
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slices_do_not_change_a_bit),
      cmocka_unit_test(small_workspaces_are_refused),
      cmocka_unit_test(wrong_grids_are_named),
      cmocka_unit_test(impossible_sizes_have_no_workspace),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
