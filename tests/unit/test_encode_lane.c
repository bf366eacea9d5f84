/* Whose images a pass takes. What comes out of it other tests show. */
#include "engine/encode_lane.h"

#include "base/allocator.h"
#include "model/pixel_budget.h"
#include "support/test.h"

/* Patches of an image: two have more than joins for a thread where somebody waits. */
enum { N_SEQUENCES = 3, PATCHES = 200 };

static struct ommai_resources resources;
static struct omma_model model;
static struct ommai_runner runner;

/* A sequence that waits for its one image. */
static struct {
  struct ommai_sequence sequence;
  struct omma_request request;
  struct ommai_prepared_image prepared;
  struct ommai_encoded_image encoded, *list;
} all[N_SEQUENCES];

static enum omma_status begin_pass(struct ommai_runner *own, const struct ommai_prepared_image *images,
                                   struct ommai_image_rows *const *rows, int64_t n, struct ommai_encode_times *times,
                                   struct omma_error *error) {
  (void)images, (void)rows, (void)n, (void)times, (void)error;
  return own == &runner ? OMMA_OK : OMMA_ERROR_INTERNAL;
}

static void end_pass(struct ommai_runner *own) { assert_ptr_equal(own, &runner); }

/* Images in the first pass, where all sequences but the first may be encoded ahead. */
static int64_t images_in_pass(struct ommai_pixel_budget *budget, bool hurry, bool ahead) {
  struct ommai_encode_lane lane;
  struct ommai_sequence *sequences[N_SEQUENCES];
  struct omma_error error;
  memset(all, 0, sizeof all);
  for (int i = 0; i < N_SEQUENCES; i++) {
    struct ommai_prepared_image *prepared = &all[i].prepared;
    prepared->sizes.n_patches = PATCHES;
    assert_ok(ommai_pixel_budget_take(budget, ommai_prepared_image_cost(prepared), &error), &error);
    assert_ok(ommai_prepared_image_create(prepared, &ommai_default_allocator, budget, &error), &error);
    all[i].encoded.n_users = 1;
    all[i].list = &all[i].encoded;
    all[i].request.images = prepared;
    all[i].request.n_images = 1;
    all[i].sequence.request = &all[i].request;
    all[i].sequence.encoded = &all[i].list;
    all[i].sequence.stage = OMMA_STAGE_ENCODE;
    all[i].sequence.ahead = ahead && i > 0;
    sequences[i] = &all[i].sequence;
  }
  ommai_encode_lane_init(&lane, &resources);
  assert_ok(ommai_encode_lane_begin(&lane, sequences, N_SEQUENCES, hurry, &error), &error);
  int64_t n = lane.n_in_pass;
  ommai_encode_lane_free(&lane);
  for (int i = 0; i < N_SEQUENCES; i++) ommai_prepared_image_free(&all[i].prepared);
  return n;
}

/* At most few patches of others delay those that somebody waits for. */
static void images_join_where_they_delay_nobody(void **state) {
  (void)state;
  static const struct ommai_runner_functions functions = {.encode_begin = begin_pass, .encode_end = end_pass};
  struct ommai_pixel_budget *budget;
  struct omma_error error;
  runner.functions = &functions;
  resources = (struct ommai_resources){.runner = &runner, .model = &model};
  resources.sizes.limits.patch_budget = N_SEQUENCES * PATCHES;
  resources.sizes.facts.n_workers = 1;
  ommai_encoder_cache_init(&resources.encoder_cache, &(struct ommai_image_shape){.width = 1}, 0, &ommai_default_allocator);
  assert_ok(ommai_pixel_budget_create(0, &ommai_default_allocator, &budget, &error), &error);
  assert_int_equal(images_in_pass(budget, false, false), N_SEQUENCES);
  assert_int_equal(images_in_pass(budget, true, false), 1);
  assert_int_equal(images_in_pass(budget, false, true), 1);
  assert_int_equal(images_in_pass(budget, true, true), 1);
  ommai_pixel_budget_destroy(budget);
  ommai_encoder_cache_free(&resources.encoder_cache);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(images_join_where_they_delay_nobody)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
