#include "language/kv_cache.h"

#include <math.h>

#include "base/allocator.h"
#include "language/feed_forward.h"
#include "language/grouped_attention.h"
#include "language/mla.h"
#include "support/test.h"
#include "support/toy_mixer.h"

static struct ommai_decoder_config config = {.n_layers = 3, .n_heads = 4, .n_kv_heads = 2, .head_dim = 8};

static int set_up(void **state) {
  (void)state;
  ommai_decoder_set_layers(&config, &ommai_grouped_attention, &ommai_ffn_dense);
  return 0;
}

static struct ommai_kv_cache *make(int64_t n_pages, enum omma_dtype dtype) {
  struct omma_error error;
  struct ommai_kv_cache *cache;
  assert_ok(ommai_kv_cache_create(&config, dtype, &n_pages, &ommai_default_allocator, &cache, &error), &error);
  return cache;
}

/* Bytes of a page of a decoder's first group. */
static size_t page_bytes(const struct ommai_decoder_config *of, enum omma_dtype dtype) {
  struct ommai_state_layout layout;
  ommai_state_layout_make(of, dtype, &layout);
  return layout.groups[0].state.page_bytes;
}

/* Every (layer, page, head, position, element) has a place of its own, and together they fill the
 * memory. */
static void strides_address_every_element_once(void **state) {
  (void)state;
  enum { N = 3, PAGE = OMMA_ATTENTION_PAGE_TOKENS };
  struct ommai_kv_cache *cache = make(N, OMMA_F32);
  assert_int_equal(2 * cache->groups[0].bytes, N * page_bytes(&config, OMMA_F32));
  assert_int_equal(page_bytes(&config, OMMA_F32), 2 * page_bytes(&config, OMMA_BF16));
  const int32_t pages[N] = {2, 0, 1};
  memset(cache->groups[0].keys, 0, cache->groups[0].bytes);
  memset(cache->groups[0].values, 0, cache->groups[0].bytes);
  for (int64_t layer = 0; layer < config.n_layers; layer++) {
    float *keys = ommai_kv_layer_keys(cache, layer), *values = ommai_kv_layer_values(cache, layer);
    for (int64_t position = 0; position < N * PAGE; position++) {
      int64_t offset = ommai_kv_position_offset(cache, layer, pages, position);
      assert_int_equal(offset / ommai_kv_page_stride(cache, layer), pages[position / PAGE]);
      for (int64_t head = 0; head < config.n_kv_heads; head++) {
        for (int64_t d = 0; d < config.head_dim; d++) {
          keys[offset + head * ommai_kv_head_stride(cache, layer) + d] += 1;
          values[offset + head * ommai_kv_head_stride(cache, layer) + d] += 2;
        }
      }
    }
  }
  const float *keys = cache->groups[0].keys, *values = cache->groups[0].values;
  for (size_t i = 0; i < cache->groups[0].bytes / sizeof(float); i++) {
    assert_true(keys[i] == 1);
    assert_true(values[i] == 2);
  }
  ommai_kv_cache_destroy(cache);
}

/* What all layers write of a page is one piece of memory, so that a new page makes the system clear
 * few pages of its own. */
static void layers_of_a_page_lie_together(void **state) {
  (void)state;
  enum { N = 4 };
  const enum omma_dtype types[] = {OMMA_F32, OMMA_BF16, OMMA_INT8};
  const size_t sizes[] = {4, 2, 1};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    struct ommai_kv_cache *cache = make(N, types[i]);
    size_t half = page_bytes(&config, types[i]) / 2;
    for (int64_t layer = 0; layer < config.n_layers; layer++) {
      size_t stride = (size_t)ommai_kv_page_stride(cache, layer) * sizes[i];
      size_t keys = (size_t)((char *)ommai_kv_layer_keys(cache, layer) - (char *)cache->groups[0].keys);
      size_t values = (size_t)((char *)ommai_kv_layer_values(cache, layer) - (char *)cache->groups[0].values);
      assert_int_equal(stride, half);
      assert_int_equal(keys, (size_t)layer * half / (size_t)config.n_layers);
      assert_int_equal(values, keys);
    }
    ommai_kv_cache_destroy(cache);
  }
}

/* The integers and scales of every (layer, page, head, position) have a place of their own: what
 * was written to one position is read from it, to half a step, after all have been written. */
static void int8_rows_and_scales_have_places_of_their_own(void **state) {
  (void)state;
  enum { N = 3, PAGE = OMMA_ATTENTION_PAGE_TOKENS, WIDTH = 8, HEADS = 2 };
  const struct ommai_row_ops *ops = ommai_row_ops(ommai_cpu_best());
  const int32_t pages[N] = {2, 0, 1};
  struct ommai_kv_cache *cache = make(N, OMMA_INT8);
  assert_int_equal(page_bytes(&config, OMMA_INT8), 2 * config.n_layers * HEADS * PAGE * (WIDTH + 4));
  assert_int_equal(2 * cache->groups[0].bytes, N * page_bytes(&config, OMMA_INT8));
  struct test_random random = {3};
  static float keys[3][N * PAGE][HEADS * WIDTH];
  for (int64_t layer = 0; layer < config.n_layers; layer++) {
    for (int64_t position = 0; position < N * PAGE; position++) {
      float values[HEADS * WIDTH];
      for (int i = 0; i < HEADS * WIDTH; i++) {
        keys[layer][position][i] = test_random_normal(&random);
        values[i] = -2.0f * keys[layer][position][i];
      }
      ommai_kv_write_int8(cache, ops, layer, ommai_kv_position_offset(cache, layer, pages, position), keys[layer][position],
                          values);
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
      ommai_kv_write_int8(cache, ommai_row_ops(level), 1, ommai_kv_position_offset(cache, 1, &page, 5), keys, values);
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
  ommai_decoder_set_layers(&mla, &ommai_mla_attention, &ommai_ffn_dense);
  mla.mla = (struct ommai_mla_config){.kv_rank = 12, .rope_dim = 4};
  assert_int_equal(page_bytes(&mla, OMMA_BF16), mla.n_layers * PAGE * WIDTH * 2);
  assert_ok(ommai_kv_cache_create(&mla, OMMA_F32, &(int64_t){N}, &ommai_default_allocator, &cache, &error), &error);
  assert_int_equal(cache->groups[0].bytes, N * page_bytes(&mla, OMMA_F32));
  assert_null(cache->groups[0].values);
  memset(cache->groups[0].keys, 0, cache->groups[0].bytes);
  for (int64_t layer = 0; layer < mla.n_layers; layer++) {
    float *rows = ommai_kv_layer_keys(cache, layer);
    for (int64_t position = 0; position < N * PAGE; position++) {
      int64_t offset = ommai_kv_position_offset(cache, layer, (const int32_t[]){1, 0}, position);
      for (int64_t d = 0; d < WIDTH; d++) rows[offset + d] += 1;
    }
  }
  for (size_t i = 0; i < cache->groups[0].bytes / sizeof(float); i++)
    assert_true(((const float *)cache->groups[0].keys)[i] == 1);
  ommai_kv_cache_destroy(cache);
}

static void sizes_and_memory_are_checked(void **state) {
  (void)state;
  struct omma_error error;
  struct ommai_kv_cache *cache = NULL;
  const int64_t wrong[] = {0, -1, INT64_MAX, (int64_t)INT32_MAX + 1};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_fails(ommai_kv_cache_create(&config, OMMA_BF16, &wrong[i], &ommai_default_allocator, &cache, &error),
                 OMMA_ERROR_LIMIT, "KV cache", &error);
  }
  struct test_allocator allocator;
  test_allocator_init(&allocator);
  enum omma_status status = OMMA_ERROR_MEMORY;
  for (int64_t n = 0; status != OMMA_OK; n++) {
    allocator.fail_at = allocator.n_allocations + n;
    status = ommai_kv_cache_create(&config, OMMA_BF16, &(int64_t){5}, &allocator.interface, &cache, &error);
    if (status == OMMA_OK) break;
    assert_int_equal(status, OMMA_ERROR_MEMORY);
    assert_int_equal(allocator.n_live, 0);
  }
  ommai_kv_cache_destroy(cache);
  ommai_kv_cache_destroy(NULL);
  assert_int_equal(allocator.n_live, 0);
  assert_int_equal(allocator.bytes_live, 0);
}

/* Layers of different needs: pages, pages of a window, snapshots. Everything has a place of its
 * own in its group, and together the places fill the memory. */
static void groups_have_memory_of_their_own(void **state) {
  (void)state;
  enum { LAYERS = 6 };
  static const int64_t n_pages[] = {2, 3, 4};
  static const int group[LAYERS] = {0, 1, 2, 1, 2, 0};
  struct ommai_decoder_config mixed = config;
  struct ommai_kv_cache *cache;
  struct omma_error error;
  mixed.n_layers = LAYERS;
  mixed.v_head_dim = mixed.head_dim;
  ommai_decoder_set_layers(&mixed, &ommai_grouped_attention, &ommai_ffn_dense);
  mixed.layers[1].window = mixed.layers[3].window = 100;
  mixed.layers[2].mixer = mixed.layers[4].mixer = &toy_mixer;
  assert_ok(ommai_kv_cache_create(&mixed, OMMA_F32, n_pages, &ommai_default_allocator, &cache, &error), &error);
  assert_int_equal(cache->layout.n_groups, 3);
  static const enum ommai_state_kind kinds[] = {OMMAI_STATE_PAGES, OMMAI_STATE_WINDOW, OMMAI_STATE_SNAPSHOT};
  for (int g = 0; g < 3; g++) {
    assert_int_equal(cache->layout.groups[g].state.kind, kinds[g]);
    assert_int_equal(cache->layout.groups[g].n_layers, 2);
    memset(cache->groups[g].keys, 0, cache->groups[g].bytes);
  }
  for (int64_t layer = 0; layer < LAYERS; layer++) {
    int g = cache->layout.group[layer];
    assert_int_equal(g, group[layer]);
    for (int32_t page = 0; page < n_pages[g]; page++) {
      int64_t stride = ommai_kv_page_stride(cache, layer), n_layers = cache->layout.groups[g].n_layers;
      float *place = g == 2 ? ommai_kv_snapshot(cache, layer, page) : (float *)ommai_kv_layer_keys(cache, layer) + page * stride;
      size_t n = g == 2 ? toy_mixer.shape(&mixed).snapshot_bytes / sizeof(float) : (size_t)(stride / n_layers);
      for (size_t i = 0; i < n; i++) place[i] += 1;
    }
  }
  for (int g = 0; g < 3; g++) {
    const float *memory = cache->groups[g].keys;
    for (size_t i = 0; i < cache->groups[g].bytes / sizeof(float); i++) assert_true(memory[i] == 1);
  }
  /* 1000 positions before the next token: all, 100, and one block */
  int64_t page = 2 * 2 * 2 * 8 * 64 * 4, read = 1000 * page / 64 + 100 * page / 64;
  assert_int_equal(ommai_state_read_bytes(&cache->layout, 1000), read + (int64_t)(2 * toy_mixer.shape(&mixed).snapshot_bytes));
  ommai_kv_cache_destroy(cache);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(strides_address_every_element_once),
      cmocka_unit_test(layers_of_a_page_lie_together),
      cmocka_unit_test(int8_rows_and_scales_have_places_of_their_own),
      cmocka_unit_test(int8_rows_that_are_not_finite_are_read_as_nan),
      cmocka_unit_test(mla_rows_are_kept_once),
      cmocka_unit_test(groups_have_memory_of_their_own),
      cmocka_unit_test(sizes_and_memory_are_checked),
  };
  return cmocka_run_group_tests(tests, set_up, NULL);
}
