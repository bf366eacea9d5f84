#include "language/kv_cache.h"

#include <math.h>

#include "base/allocator.h"
#include "language/grouped_attention.h"
#include "language/mla.h"
#include "support/test.h"

static const struct ommai_decoder_config config = {
    .attention = &ommai_grouped_attention, .n_layers = 3, .n_heads = 4, .n_kv_heads = 2, .head_dim = 8};

static struct ommai_kv_cache *make(int64_t n_pages, enum omma_dtype dtype) {
  struct omma_error error;
  struct ommai_kv_cache *cache;
  assert_ok(ommai_kv_cache_create(&config, dtype, n_pages, &ommai_default_allocator, &cache, &error), &error);
  return cache;
}

/* Every (layer, page, head, position, element) has a place of its own, and together they fill the
 * memory. */
static void strides_address_every_element_once(void **state) {
  (void)state;
  enum { N = 3, PAGE = OMMA_ATTENTION_PAGE_TOKENS };
  struct ommai_kv_cache *cache = make(N, OMMA_F32);
  assert_int_equal(2 * cache->bytes, N * ommai_kv_page_bytes(&config, OMMA_F32));
  assert_int_equal(ommai_kv_page_bytes(&config, OMMA_F32), 2 * ommai_kv_page_bytes(&config, OMMA_BF16));
  const int32_t pages[N] = {2, 0, 1};
  memset(cache->keys, 0, cache->bytes);
  memset(cache->values, 0, cache->bytes);
  for (int64_t layer = 0; layer < config.n_layers; layer++) {
    float *keys = ommai_kv_layer_keys(cache, layer), *values = ommai_kv_layer_values(cache, layer);
    for (int64_t position = 0; position < N * PAGE; position++) {
      int64_t offset = ommai_kv_position_offset(cache, pages, position);
      assert_int_equal(offset / ommai_kv_page_stride(cache), pages[position / PAGE]);
      for (int64_t head = 0; head < config.n_kv_heads; head++) {
        for (int64_t d = 0; d < config.head_dim; d++) {
          keys[offset + head * ommai_kv_head_stride(cache) + d] += 1;
          values[offset + head * ommai_kv_head_stride(cache) + d] += 2;
        }
      }
    }
  }
  const float *keys = cache->keys, *values = cache->values;
  for (size_t i = 0; i < cache->bytes / sizeof(float); i++) {
    assert_true(keys[i] == 1);
    assert_true(values[i] == 2);
  }
  ommai_kv_cache_destroy(cache);
}

/* The integers and scales of every (layer, page, head, position) have a place of their own: what
 * was written to one position is read from it, to half a step, after all have been written. */
static void int8_rows_and_scales_have_places_of_their_own(void **state) {
  (void)state;
  enum { N = 3, PAGE = OMMA_ATTENTION_PAGE_TOKENS, WIDTH = 8, HEADS = 2 };
  const struct ommai_row_ops *ops = ommai_row_ops(ommai_cpu_best());
  const int32_t pages[N] = {2, 0, 1};
  struct ommai_kv_cache *cache = make(N, OMMA_INT8);
  assert_int_equal(ommai_kv_page_bytes(&config, OMMA_INT8), 2 * config.n_layers * HEADS * PAGE * (WIDTH + 4));
  assert_int_equal(2 * cache->bytes, N * ommai_kv_page_bytes(&config, OMMA_INT8));
  struct test_random random = {3};
  static float keys[3][N * PAGE][HEADS * WIDTH];
  for (int64_t layer = 0; layer < config.n_layers; layer++) {
    for (int64_t position = 0; position < N * PAGE; position++) {
      float values[HEADS * WIDTH];
      for (int i = 0; i < HEADS * WIDTH; i++) {
        keys[layer][position][i] = test_random_normal(&random);
        values[i] = -2.0f * keys[layer][position][i];
      }
      ommai_kv_write_int8(cache, ops, layer, ommai_kv_position_offset(cache, pages, position), keys[layer][position], values);
    }
  }
  for (int64_t layer = 0; layer < config.n_layers; layer++) {
    struct omma_attention_tensors t = {0};
    ommai_kv_set_tensors(cache, layer, &t);
    for (int64_t position = 0; position < N * PAGE; position++) {
      for (int64_t head = 0; head < HEADS; head++) {
        int64_t at = pages[position / PAGE] * t.k_page_stride + head * t.k_head_stride + position % PAGE * WIDTH;
        int64_t scale = pages[position / PAGE] * t.k_scale_page_stride + head * t.k_scale_head_stride + position % PAGE;
        for (int64_t d = 0; d < WIDTH; d++) {
          float x = keys[layer][position][head * WIDTH + d];
          float key = (float)((const int8_t *)t.k)[at + d] * t.k_scales[scale];
          float value = (float)((const int8_t *)t.v)[at + d] * t.v_scales[scale];
          assert_true(fabsf(key - x) <= 0.5001f * t.k_scales[scale]);
          assert_true(fabsf(value + 2.0f * x) <= 0.5001f * t.v_scales[scale]);
        }
      }
    }
  }
  ommai_kv_cache_destroy(cache);
}

/* What is not finite does not become a number. */
static void int8_rows_that_are_not_finite_are_read_as_nan(void **state) {
  (void)state;
  const float bad[] = {NAN, INFINITY, -INFINITY};
  const int32_t page = 0;
  struct ommai_kv_cache *cache = make(1, OMMA_INT8);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    float keys[2 * 8] = {1.0f, bad[i], 3.0f}, values[2 * 8] = {0};
    for (int level = 0; level < OMMAI_CPU_LEVELS; level++) {
      if (!ommai_cpu_has(level)) continue;
      ommai_kv_write_int8(cache, ommai_row_ops(level), 1, ommai_kv_position_offset(cache, &page, 5), keys, values);
      const int8_t *row = (const int8_t *)ommai_kv_layer_keys(cache, 1) + 5 * 8;
      float scale = ommai_kv_layer_key_scales(cache, 1)[5];
      for (int d = 0; d < 8; d++) assert_true(isnan((float)row[d] * scale) || isinf((float)row[d] * scale));
      assert_true(ommai_kv_layer_value_scales(cache, 1)[5] == 0.0f);
    }
  }
  ommai_kv_cache_destroy(cache);
}

/* MLA keeps one row of kv_rank + rope_dim values a token and layer, and no values besides. */
static void mla_rows_are_kept_once(void **state) {
  (void)state;
  enum { N = 2, PAGE = OMMA_ATTENTION_PAGE_TOKENS, WIDTH = 12 + 4 };
  struct ommai_decoder_config mla = config;
  struct ommai_kv_cache *cache;
  struct omma_error error;
  mla.attention = &ommai_mla_attention;
  mla.mla = (struct ommai_mla_config){.kv_rank = 12, .rope_dim = 4};
  assert_int_equal(ommai_kv_page_bytes(&mla, OMMA_BF16), mla.n_layers * PAGE * WIDTH * 2);
  assert_ok(ommai_kv_cache_create(&mla, OMMA_F32, N, &ommai_default_allocator, &cache, &error), &error);
  assert_int_equal(cache->bytes, N * ommai_kv_page_bytes(&mla, OMMA_F32));
  assert_null(cache->values);
  memset(cache->keys, 0, cache->bytes);
  for (int64_t layer = 0; layer < mla.n_layers; layer++) {
    float *rows = ommai_kv_layer_keys(cache, layer);
    for (int64_t position = 0; position < N * PAGE; position++) {
      int64_t offset = ommai_kv_position_offset(cache, (const int32_t[]){1, 0}, position);
      for (int64_t d = 0; d < WIDTH; d++) rows[offset + d] += 1;
    }
  }
  for (size_t i = 0; i < cache->bytes / sizeof(float); i++) assert_true(((const float *)cache->keys)[i] == 1);
  ommai_kv_cache_destroy(cache);
}

static void sizes_and_memory_are_checked(void **state) {
  (void)state;
  struct omma_error error;
  struct ommai_kv_cache *cache = NULL;
  const int64_t wrong[] = {0, -1, INT64_MAX, (int64_t)INT32_MAX + 1};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_fails(ommai_kv_cache_create(&config, OMMA_BF16, wrong[i], &ommai_default_allocator, &cache, &error),
                 OMMA_ERROR_LIMIT, "KV cache", &error);
  }
  struct test_allocator allocator;
  test_allocator_init(&allocator);
  enum omma_status status = OMMA_ERROR_MEMORY;
  for (int64_t n = 0; status != OMMA_OK; n++) {
    allocator.fail_at = allocator.n_allocations + n;
    status = ommai_kv_cache_create(&config, OMMA_BF16, 5, &allocator.interface, &cache, &error);
    if (status == OMMA_OK) break;
    assert_int_equal(status, OMMA_ERROR_MEMORY);
    assert_int_equal(allocator.n_live, 0);
  }
  ommai_kv_cache_destroy(cache);
  ommai_kv_cache_destroy(NULL);
  assert_int_equal(allocator.n_live, 0);
  assert_int_equal(allocator.bytes_live, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(strides_address_every_element_once),
      cmocka_unit_test(int8_rows_and_scales_have_places_of_their_own),
      cmocka_unit_test(int8_rows_that_are_not_finite_are_read_as_nan),
      cmocka_unit_test(mla_rows_are_kept_once),
      cmocka_unit_test(sizes_and_memory_are_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
