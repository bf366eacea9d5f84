#include "engine/encoder_cache.h"

#include "support/test.h"

static struct ommai_image_key key_of(int name) {
  struct ommai_image_key key = {{0}};
  memcpy(key.bytes, &name, sizeof name);
  return key;
}

/* A token has one value. */
static const struct ommai_image_shape one_value = {.width = 1};

static struct ommai_encoded_image *add(struct ommai_encoder_cache *cache, int name, int64_t n_values) {
  struct ommai_encoded_image *image = NULL;
  struct ommai_image_key key = key_of(name);
  struct omma_error error;
  assert_ok(ommai_encoder_cache_add(cache, &key, n_values, &image, &error), &error);
  float *values = ommai_image_rows_data(image->rows);
  for (int64_t i = 0; i < n_values; i++) values[i] = (float)name;
  image->complete = true;
  return image;
}

static bool has(const struct ommai_encoder_cache *cache, int name) {
  struct ommai_image_key key = key_of(name);
  const struct ommai_encoded_image *image = TAILQ_FIRST(&cache->by_use);
  while (image && memcmp(&image->key, &key, sizeof key) != 0) image = TAILQ_NEXT(image, by_use);
  return image != NULL;
}

static struct ommai_encoded_image *take(struct ommai_encoder_cache *cache, int name) {
  struct ommai_image_key key = key_of(name);
  return ommai_encoder_cache_take(cache, &key);
}

static void what_was_used_last_stays(void **state) {
  (void)state;
  struct test_allocator allocator;
  struct ommai_encoder_cache cache;
  test_allocator_init(&allocator);
  ommai_encoder_cache_init(&cache, &one_value, 300 * sizeof(float), &allocator.interface);
  for (int name = 1; name <= 3; name++) ommai_encoder_cache_give_back(&cache, add(&cache, name, 100));
  assert_int_equal(cache.counts.bytes, 300 * sizeof(float));
  struct ommai_encoded_image *first = take(&cache, 1);
  assert_non_null(first);
  assert_true(((const float *)ommai_image_rows_data(first->rows))[99] == 1.0f);
  ommai_encoder_cache_give_back(&cache, first);
  ommai_encoder_cache_give_back(&cache, add(&cache, 4, 100));
  assert_true(has(&cache, 1) && !has(&cache, 2) && has(&cache, 3) && has(&cache, 4));
  assert_null(take(&cache, 2));
  assert_int_equal(cache.counts.n_hits, 1);
  assert_int_equal(cache.counts.n_misses, 1);
  assert_int_equal(cache.counts.n_evictions, 1);
  ommai_encoder_cache_free(&cache);
  assert_int_equal(allocator.n_live, 0);
}

static void what_is_in_use_is_never_evicted(void **state) {
  (void)state;
  struct test_allocator allocator;
  struct ommai_encoder_cache cache;
  test_allocator_init(&allocator);
  ommai_encoder_cache_init(&cache, &one_value, 250 * sizeof(float), &allocator.interface);
  struct ommai_encoded_image *held = add(&cache, 1, 200);
  struct ommai_encoded_image *other = add(&cache, 2, 50);
  assert_true(other->kept);
  ommai_encoder_cache_give_back(&cache, other);
  other = add(&cache, 2, 51);
  assert_false(other->kept);
  ommai_encoder_cache_give_back(&cache, other);
  ommai_encoder_cache_give_back(&cache, held);
  assert_true(has(&cache, 1));
  ommai_encoder_cache_give_back(&cache, add(&cache, 3, 250));
  assert_true(!has(&cache, 1) && has(&cache, 3));
  ommai_encoder_cache_give_back(&cache, add(&cache, 4, 251));
  assert_true(has(&cache, 3) && !has(&cache, 4));
  ommai_encoder_cache_free(&cache);
  assert_int_equal(allocator.n_live, 0);
}

/* The one in use is the oldest, and not encoded yet. */
static void unused_images_make_room_for_new_ones(void **state) {
  (void)state;
  struct test_allocator allocator;
  struct ommai_encoder_cache cache;
  test_allocator_init(&allocator);
  ommai_encoder_cache_init(&cache, &one_value, 250 * sizeof(float), &allocator.interface);
  struct ommai_encoded_image *held = add(&cache, 1, 100);
  held->complete = false;
  ommai_encoder_cache_give_back(&cache, add(&cache, 2, 100));
  ommai_encoder_cache_give_back(&cache, add(&cache, 3, 100));
  assert_true(has(&cache, 1) && !has(&cache, 2) && has(&cache, 3));
  held->complete = true;
  ommai_encoder_cache_give_back(&cache, held);
  assert_true(has(&cache, 1));
  ommai_encoder_cache_free(&cache);
  assert_int_equal(allocator.n_live, 0);
}

static void unfinished_images_are_forgotten(void **state) {
  (void)state;
  struct test_allocator allocator;
  struct ommai_encoder_cache cache;
  test_allocator_init(&allocator);
  ommai_encoder_cache_init(&cache, &one_value, 1000 * sizeof(float), &allocator.interface);
  struct ommai_encoded_image *image = add(&cache, 1, 10);
  image->complete = false;
  assert_ptr_equal(take(&cache, 1), image); /* the same image twice in one request */
  ommai_encoder_cache_give_back(&cache, image);
  assert_true(has(&cache, 1));
  ommai_encoder_cache_give_back(&cache, image);
  assert_false(has(&cache, 1));
  assert_int_equal(cache.counts.bytes, 0);
  ommai_encoder_cache_free(&cache);
  assert_int_equal(allocator.n_live, 0);
}

static void without_a_budget_nothing_is_kept(void **state) {
  (void)state;
  struct test_allocator allocator;
  struct ommai_encoder_cache cache;
  test_allocator_init(&allocator);
  ommai_encoder_cache_init(&cache, &one_value, 0, &allocator.interface);
  ommai_encoder_cache_give_back(&cache, add(&cache, 1, 10));
  assert_false(has(&cache, 1));
  assert_int_equal(allocator.n_live, 0);
}

static void failing_allocations_leave_the_cache_as_it_was(void **state) {
  (void)state;
  struct test_allocator allocator;
  struct ommai_encoder_cache cache;
  struct omma_error error;
  test_allocator_init(&allocator);
  ommai_encoder_cache_init(&cache, &one_value, 1000 * sizeof(float), &allocator.interface);
  ommai_encoder_cache_give_back(&cache, add(&cache, 1, 10));
  for (int64_t fail_at = 0; fail_at < 2; fail_at++) {
    struct ommai_encoded_image *image = NULL;
    struct ommai_image_key key = key_of(2);
    allocator.fail_at = allocator.n_allocations + fail_at;
    assert_int_equal(ommai_encoder_cache_add(&cache, &key, 10, &image, &error), OMMA_ERROR_MEMORY);
    assert_true(has(&cache, 1) && !has(&cache, 2));
    assert_int_equal(cache.counts.bytes, 10 * sizeof(float));
  }
  allocator.fail_at = -1;
  ommai_encoder_cache_free(&cache);
  assert_int_equal(allocator.n_live, 0);
}

static void put(struct ommai_encoder_cache *cache, int name, int64_t n_values) {
  struct ommai_image_key key = key_of(name);
  struct ommai_image_rows *rows = NULL;
  struct omma_error error;
  assert_ok(ommai_image_rows_create(&cache->shape, n_values, &cache->allocator, &rows, &error), &error);
  ((float *)ommai_image_rows_data(rows))[0] = (float)name;
  ommai_encoder_cache_put(cache, &key, rows);
}

static void what_comes_from_elsewhere_is_kept_where_it_fits(void **state) {
  (void)state;
  struct test_allocator allocator;
  struct ommai_encoder_cache cache;
  struct ommai_image_key key = key_of(1);
  test_allocator_init(&allocator);
  ommai_encoder_cache_init(&cache, &one_value, 100 * sizeof(float), &allocator.interface);
  put(&cache, 1, 60);
  assert_true(ommai_encoder_cache_has(&cache, &key));
  struct ommai_encoded_image *found = take(&cache, 1);
  assert_true(found->complete && *(const float *)ommai_image_rows_data(found->rows) == 1);
  put(&cache, 1, 60); /* there already */
  put(&cache, 2, 60); /* no room next to what is in use */
  assert_false(has(&cache, 2));
  ommai_encoder_cache_give_back(&cache, found);
  put(&cache, 2, 60);
  assert_true(has(&cache, 2) && !has(&cache, 1));
  assert_int_equal(ommai_encoder_cache_counts(&cache).bytes, 60 * sizeof(float));
  allocator.fail_at = allocator.n_allocations + 1;
  put(&cache, 3, 10);
  assert_false(has(&cache, 3));
  ommai_encoder_cache_free(&cache);
  assert_int_equal(allocator.n_live, 0);
}

static void what_is_in_use_when_all_is_cleared_goes_later(void **state) {
  (void)state;
  struct test_allocator allocator;
  struct ommai_encoder_cache cache;
  test_allocator_init(&allocator);
  ommai_encoder_cache_init(&cache, &one_value, 300 * sizeof(float), &allocator.interface);
  for (int name = 1; name <= 2; name++) ommai_encoder_cache_give_back(&cache, add(&cache, name, 100));
  struct ommai_encoded_image *used = take(&cache, 2);
  ommai_encoder_cache_clear(&cache);
  assert_true(!has(&cache, 1) && !has(&cache, 2));
  assert_int_equal(cache.counts.bytes, 0);
  assert_int_equal(cache.counts.n_evictions, 0);
  ommai_encoder_cache_give_back(&cache, add(&cache, 2, 100));
  assert_true(((const float *)ommai_image_rows_data(used->rows))[99] == 2.0f);
  ommai_encoder_cache_give_back(&cache, used);
  assert_true(has(&cache, 2));
  ommai_encoder_cache_clear(&cache);
  assert_int_equal(cache.counts.bytes, 0);
  ommai_encoder_cache_free(&cache);
  assert_int_equal(allocator.n_live, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_was_used_last_stays),
      cmocka_unit_test(what_is_in_use_is_never_evicted),
      cmocka_unit_test(unused_images_make_room_for_new_ones),
      cmocka_unit_test(unfinished_images_are_forgotten),
      cmocka_unit_test(without_a_budget_nothing_is_kept),
      cmocka_unit_test(what_comes_from_elsewhere_is_kept_where_it_fits),
      cmocka_unit_test(failing_allocations_leave_the_cache_as_it_was),
      cmocka_unit_test(what_is_in_use_when_all_is_cleared_goes_later),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
