/* Images known by the bytes of their files: the same request without decoding or resizing, or none
 * at all. */
#include "model/image_store.h"

#include <pthread.h>
#include <stdlib.h>

#include "request/request.h"
#include "support/golden.h"
#include "support/model_fixture.h"
#include "support/test.h"

static unsigned char *bytes;
static size_t n_bytes;

static struct omma_model *open_model(int64_t known_image_bytes, const struct omma_allocator *allocator) {
  const struct omma_model_options options = {.config_only = true,
                                             .n_threads = 1,
                                             .max_model_len = 1024,
                                             .known_image_bytes = known_image_bytes,
                                             .allocator = allocator};
  return fixture_model("qwen3_vl_tied", &options);
}

static struct omma_image *decoded(void) {
  struct omma_error error;
  struct omma_image *image;
  assert_ok(omma_image_decode(bytes, n_bytes, NULL, &image, &error), &error);
  return image;
}

static struct omma_image *recalled(const struct omma_model *model, int64_t max_pixels) {
  struct omma_error error;
  const struct omma_image_options options = {.max_pixels = max_pixels};
  struct omma_image *image = NULL;
  assert_ok(omma_image_recall(model, bytes, n_bytes, NULL, &options, &image, &error), &error);
  return image;
}

static enum omma_status try_request(const struct omma_model *model, const struct omma_image *image, int64_t max_pixels,
                                    struct omma_request **request, struct omma_error *error) {
  const struct omma_part part = {.image = image, .image_options.max_pixels = max_pixels};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = &part, .n_parts = 1};
  return omma_request_create(model, &message, 1, NULL, request, error);
}

static struct omma_request *request_of(const struct omma_model *model, const struct omma_image *image, int64_t max_pixels) {
  struct omma_error error;
  struct omma_request *request;
  assert_ok(try_request(model, image, max_pixels, &request, &error), &error);
  return request;
}

static void expect_same(const struct omma_request *a, const struct omma_request *b) {
  assert_int_equal(a->n_tokens, b->n_tokens);
  assert_memory_equal(a->tokens, b->tokens, a->n_tokens * sizeof *a->tokens);
  assert_memory_equal(&a->keys[0], &b->keys[0], sizeof a->keys[0]);
  assert_memory_equal(a->page_keys, b->page_keys, a->n_page_keys * sizeof *a->page_keys);
  assert_memory_equal(a->images[0].pixels, b->images[0].pixels, ommai_prepared_image_bytes(&a->images[0]));
}

/* Asks once, so that the image is known. */
static void make_known(const struct omma_model *model, int64_t max_pixels) {
  struct omma_image *image = decoded();
  omma_request_destroy(request_of(model, image, max_pixels));
  omma_image_destroy(image);
}

static void a_known_image_makes_the_same_request(void **state) {
  (void)state;
  struct omma_model *model = open_model(0, NULL);
  assert_null(recalled(model, 0));
  struct omma_image *image = decoded();
  struct omma_request *first = request_of(model, image, 0), *second;
  struct omma_image *known = recalled(model, 0);
  assert_non_null(known);
  assert_int_equal(omma_image_width(known), 163);
  assert_int_equal(omma_image_height(known), 97);
  assert_null(omma_image_pixels(known));
  second = request_of(model, known, 0);
  expect_same(first, second);
  assert_ptr_equal(first->images[0].pixels, second->images[0].pixels);
  omma_image_destroy(known);
  omma_image_destroy(image);
  omma_request_destroy(first);
  omma_request_destroy(second);
  omma_model_close(model);
}

/* What an image keeps outlives the store's copy, and the model's other users. */
static void other_bytes_sizes_and_models_are_other_images(void **state) {
  (void)state;
  struct omma_error error;
  struct omma_request *request = NULL;
  struct omma_model *model = open_model(0, NULL), *other = open_model(0, NULL);
  make_known(model, 0);
  assert_null(recalled(model, 8000));
  assert_null(recalled(other, 0));
  struct omma_image *known = recalled(model, 0);
  assert_fails(try_request(model, known, 8000, &request, &error), OMMA_ERROR_ARGUMENT, "other options", &error);
  assert_fails(try_request(other, known, 0, &request, &error), OMMA_ERROR_ARGUMENT, "another model", &error);
  const struct omma_image *frames[2] = {known, known};
  const struct omma_video video = {.frames = frames, .n_frames = 2};
  const struct omma_part part = {.video = &video};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = &part, .n_parts = 1};
  assert_fails(omma_request_create(model, &message, 1, NULL, &request, &error), OMMA_ERROR_ARGUMENT, "has no pixels", &error);
  omma_image_destroy(known);
  make_known(model, 8000);
  known = recalled(model, 8000);
  assert_non_null(known);
  omma_image_destroy(known);
  bytes[n_bytes - 3] ^= 1; /* before the end marker */
  assert_null(recalled(model, 0));
  bytes[n_bytes - 3] ^= 1;
  const struct omma_image_limits limits = {.max_pixels = 100};
  assert_fails(omma_image_recall(model, bytes, n_bytes, &limits, NULL, &known, &error), OMMA_ERROR_LIMIT, "100", &error);
  assert_null(known);
  omma_model_close(model);
  omma_model_close(other);
}

static void the_oldest_is_given_up_and_made_again(void **state) {
  (void)state;
  struct omma_image *image = decoded();
  struct omma_model *model = open_model(0, NULL);
  struct omma_request *first = request_of(model, image, 0);
  int64_t size = (int64_t)ommai_prepared_image_bytes(&first->images[0]);
  struct omma_model *tight = open_model(size, NULL), *none = open_model(-1, NULL), *small = open_model(size - 1, NULL);
  make_known(tight, 0);
  make_known(none, 0);
  make_known(small, 0);
  assert_null(recalled(none, 0));
  assert_null(recalled(small, 0));
  struct omma_image *known = recalled(tight, 0);
  assert_non_null(known);
  make_known(tight, 8000); /* gives the first up, but not what the image holds */
  assert_null(recalled(tight, 0));
  struct omma_request *held = request_of(tight, known, 0), *again = request_of(tight, image, 0);
  expect_same(first, held);
  expect_same(first, again);
  omma_request_destroy(first);
  omma_request_destroy(again);
  omma_image_destroy(known);
  omma_image_destroy(image);
  omma_model_close(model);
  omma_model_close(none);
  omma_model_close(small);
  omma_request_destroy(held);
  omma_model_close(tight);
}

/* Kept images give way where the bytes for resized images are limited. */
static void kept_images_stand_in_nobodys_way(void **state) {
  (void)state;
  struct omma_image_sizes sizes;
  struct omma_error error;
  struct omma_model_options options = {.config_only = true, .n_threads = 1, .max_model_len = 1024};
  struct omma_model *model = open_model(0, NULL);
  assert_ok(omma_model_image_sizes(model, 163, 97, NULL, &sizes, &error), &error);
  omma_model_close(model);
  options.max_resized_bytes = (int64_t)sizes.resized_width * sizes.resized_height * 3 * 3 / 2;
  model = fixture_model("qwen3_vl_tied", &options);
  make_known(model, 0);
  make_known(model, 8000);
  make_known(model, 0);
  struct omma_image *known = recalled(model, 0);
  assert_non_null(known);
  omma_image_destroy(known);
  omma_model_close(model);
}

static void memory_that_runs_out_costs_the_entry_alone(void **state) {
  (void)state;
  struct test_allocator allocator;
  struct omma_error error;
  bool done = false;
  test_allocator_init(&allocator);
  struct omma_model *model = open_model(0, &allocator.interface);
  struct omma_image *image = decoded();
  for (int64_t n = 0; !done; n++) {
    struct omma_request *request = NULL;
    int64_t live = allocator.n_live;
    allocator.fail_at = allocator.n_allocations + n;
    enum omma_status status = try_request(model, image, 0, &request, &error);
    allocator.fail_at = -1;
    struct omma_image *known = recalled(model, 0);
    done = known != NULL;
    if (status == OMMA_OK) {
      omma_request_destroy(request);
    } else {
      assert_int_equal(status, OMMA_ERROR_MEMORY);
    }
    omma_image_destroy(known);
    if (!done) assert_int_equal(allocator.n_live, live);
    assert_true(n < 200);
  }
  omma_image_destroy(image);
  omma_model_close(model);
  assert_int_equal(allocator.n_live, 0);
}

/* ---- many threads ---- */

struct storm {
  const struct omma_model *model;
  uint64_t seed;
};

static void *ask_at_random(void *context) {
  const struct storm *storm = context;
  struct test_random random = {storm->seed};
  for (int i = 0; i < (test_small() ? 20 : 60); i++) {
    int64_t max_pixels = 4000 + 2000 * test_random_range(&random, 0, 3);
    struct omma_image *image = recalled(storm->model, max_pixels);
    if (!image) image = decoded();
    omma_request_destroy(request_of(storm->model, image, max_pixels));
    omma_image_destroy(image);
  }
  return NULL;
}

/* Room for two of four sizes. */
static void threads_share_the_store(void **state) {
  (void)state;
  enum { THREADS = 4 };
  struct omma_model *model = open_model(2 * 10000 * 3, NULL);
  struct storm storms[THREADS];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    storms[i] = (struct storm){model, (uint64_t)i + 1};
    assert_int_equal(pthread_create(&threads[i], NULL, ask_at_random, &storms[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  omma_model_close(model);
}

static int read_image(void **state) {
  (void)state;
  char path[1024];
  golden_path("images", "meadow_163x97.jpg", path, sizeof path);
  bytes = fixture_read(path, &n_bytes);
  return 0;
}

static int free_image(void **state) {
  (void)state;
  free(bytes);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_known_image_makes_the_same_request),
      cmocka_unit_test(other_bytes_sizes_and_models_are_other_images),
      cmocka_unit_test(the_oldest_is_given_up_and_made_again),
      cmocka_unit_test(kept_images_stand_in_nobodys_way),
      cmocka_unit_test(memory_that_runs_out_costs_the_entry_alone),
      cmocka_unit_test(threads_share_the_store),
  };
  return cmocka_run_group_tests(tests, read_image, free_image);
}
