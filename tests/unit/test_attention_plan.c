/* Plans: bounds, memory, waves and steps. */
#include <math.h>
#include <stdlib.h>

#include "attention/attention_plan.h"
#include "base/allocator.h"
#include "support/test.h"

static struct omma_attention_context *scalar_context(const struct omma_allocator *allocator) {
  struct omma_attention_options options = {.isa = "scalar", .allocator = allocator};
  struct omma_attention_context *context;
  struct omma_error error;
  assert_ok(omma_attention_context_create(&options, &context, &error), &error);
  return context;
}

static struct omma_attention_spec usual_spec(int64_t n_tokens) {
  return (struct omma_attention_spec){.n_heads = 4, .head_dim = 64, .n_tokens = n_tokens};
}

static void nothing_is_needed_for_no_tokens(void **state) {
  (void)state;
  struct omma_attention_context *context = scalar_context(NULL);
  struct omma_error error;
  static _Alignas(64) unsigned char workspace[1 << 18];
  const int32_t empty[1] = {0}, zeros[5000] = {0};
  for (int kind = 0; kind < 3; kind++) {
    struct omma_attention_spec spec = usual_spec(0);
    spec.cu_seqlens = kind == 0 ? NULL : kind == 1 ? empty : zeros;
    spec.n_segments = kind == 2 ? 4999 : 0;
    struct omma_attention_plan *plan;
    assert_ok(omma_attention_plan_create(context, &spec, &plan, &error), &error);
    struct omma_attention_plan_info info;
    omma_attention_plan_get_info(plan, &info);
    assert_int_equal(info.n_steps, 0);
    struct omma_attention_tensors tensors = {0};
    assert_ok(omma_attention_run(plan, &tensors, workspace, sizeof workspace, NULL, &error), &error);
    assert_ok(omma_attention_run_range(plan, &tensors, workspace, sizeof workspace, NULL, 0, 0, &error), &error);
    omma_attention_plan_destroy(plan);
  }
  omma_attention_context_destroy(context);
}

static void every_failed_allocation_is_reported(void **state) {
  (void)state;
  bool done = false;
  for (int64_t n = 0; !done; n++) {
    struct test_allocator allocator;
    test_allocator_init(&allocator);
    allocator.fail_at = n;
    struct omma_attention_options options = {.isa = "scalar", .allocator = &allocator.interface};
    struct omma_attention_context *context = NULL;
    struct omma_attention_plan *plan = NULL;
    struct omma_error error;
    struct omma_attention_spec spec = usual_spec(100);
    enum omma_status status = omma_attention_context_create(&options, &context, &error);
    if (status == OMMA_OK) status = omma_attention_plan_create(context, &spec, &plan, &error);
    if (status == OMMA_OK) status = omma_attention_self_test(context, &error);
    done = status == OMMA_OK;
    if (!done) assert_int_equal(status, OMMA_ERROR_MEMORY);
    omma_attention_plan_destroy(plan);
    omma_attention_context_destroy(context);
    assert_int_equal(allocator.n_live, 0);
    /* the self-test allocates alike for each of its cases: of those every eleventh */
    if (n > 4) n += 10;
  }
}

/* Rows times keys that any of them sees. */
static double weight_of(const struct omma_attention_plan *plan, const struct ommai_attention_unit *unit) {
  int64_t part = plan->problem.mode == OMMA_ATTENTION_DECODE ? OMMAI_ATTENTION_SPLIT_KEYS : OMMAI_ATTENTION_BLOCK;
  return (double)unit->n_rows * (double)(unit->n_keys - unit->first_part * part + 1);
}

/* Those that use shared workspace before the small ones, and of each the heaviest first: by classes
 * of which each is an eighth of a power of two. */
static void expect_order(const struct omma_attention_plan *plan, const struct ommai_attention_unit *first,
                         const struct ommai_attention_unit *next) {
  double before = weight_of(plan, first), after = weight_of(plan, next);
  assert_true(first->small <= next->small);
  if (first->small == next->small && after >= 16) assert_true(before > after * 8 / 9);
}

/* Random segmentations: the bounds hold, a placed plan equals a created one in size, and steps add
 * up. */
static void bounds_hold(void **state) {
  (void)state;
  struct test_random random = {2024};
  struct omma_attention_context *context = scalar_context(NULL);
  struct omma_error error;
  for (int round = 0; round < 300; round++) {
    enum { MAX_SEGMENTS = 40 };
    int64_t cu[MAX_SEGMENTS + 1] = {0}, offsets[MAX_SEGMENTS];
    struct omma_attention_spec spec = {.mode = (enum omma_attention_mode)test_random_range(&random, 0, 2),
                                       .n_kv_heads = (int32_t)test_random_range(&random, 1, 4),
                                       .head_dim = (int32_t)test_random_range(&random, 1, 256)};
    spec.n_heads = spec.n_kv_heads * (int32_t)test_random_range(&random, 1, 4);
    spec.dtype = test_random_range(&random, 0, 1) ? OMMA_F32 : OMMA_BF16;
    spec.n_segments = test_random_range(&random, 0, MAX_SEGMENTS);
    spec.paged = spec.mode != OMMA_ATTENTION_ENCODER;
    if (spec.paged) spec.window = test_random_range(&random, 0, 1 << test_random_range(&random, 0, 14));
    int64_t longest = 0;
    for (int64_t i = 0; i < spec.n_segments; i++) {
      int64_t rows =
          test_random_range(&random, 0, spec.mode == OMMA_ATTENTION_DECODE ? 3 : 1 << test_random_range(&random, 0, 13));
      cu[i + 1] = cu[i] + rows;
      offsets[i] = test_random_range(&random, 0, 1 << test_random_range(&random, 0, 16));
      if (offsets[i] + rows > longest) longest = offsets[i] + rows;
    }
    spec.index_type = OMMA_INDEX_INT64;
    spec.cu_seqlens = cu;
    spec.q_offsets = spec.paged ? offsets : NULL;
    spec.n_tokens = cu[spec.n_segments] + test_random_range(&random, 0, 9);
    struct omma_attention_spec larger = spec;
    larger.cu_seqlens = NULL;
    larger.q_offsets = NULL;
    larger.n_tokens += test_random_range(&random, 0, 1000);
    larger.n_segments += test_random_range(&random, 0, 5);
    if (spec.window > 0) larger.window = test_random_range(&random, 0, 3) ? spec.window + test_random_range(&random, 0, 90) : 0;
    if (spec.paged) larger.n_kv_tokens = longest + 1;
    size_t bound = omma_attention_plan_size_bound(context, &larger);
    assert_true(bound > 0 && omma_attention_plan_size_bound(context, &spec) > 0);
    struct omma_attention_plan *plan, *placed;
    assert_ok(omma_attention_plan_create(context, &spec, &plan, &error), &error);
    struct omma_attention_plan_info info;
    omma_attention_plan_get_info(plan, &info);
    assert_true(info.plan_bytes <= bound && info.plan_bytes <= omma_attention_plan_size_bound(context, &spec));
    void *memory = aligned_alloc(64, (bound + 63) / 64 * 64);
    assert_ok(omma_attention_plan_place(context, &spec, memory, info.plan_bytes, &placed, &error), &error);
    assert_int_equal(omma_attention_plan_workspace_size(placed, 3), omma_attention_plan_workspace_size(plan, 3));
    assert_fails(omma_attention_plan_place(context, &spec, memory, info.plan_bytes - 1, &placed, &error), OMMA_ERROR_MEMORY,
                 "memory_size", &error);
    assert_fails(omma_attention_plan_place(context, &spec, (char *)memory + 8, bound - 8, &placed, &error), OMMA_ERROR_ARGUMENT,
                 "aligned", &error);
    for (int workers = 1; workers < 5; workers += 3) {
      assert_true(omma_attention_plan_workspace_size(plan, workers) <=
                  omma_attention_workspace_bound(context, &larger, workers));
      assert_true(omma_attention_plan_workspace_size(plan, workers) <= omma_attention_workspace_bound(context, &spec, workers));
    }
    for (int64_t i = 0; i < plan->n_waves; i++) {
      const struct ommai_attention_wave *wave = &plan->waves[i];
      assert_true(wave[1].first_prepare + wave[1].first_attend > wave->first_prepare + wave->first_attend);
      assert_true(wave[1].first_byte - wave->first_byte <= plan->wave_bytes);
    }
    for (int64_t i = 1; i < plan->n_units; i++) expect_order(plan, &plan->units[i - 1], &plan->units[i]);
    free(memory);
    omma_attention_plan_destroy(plan);
  }
  omma_attention_context_destroy(context);
}

/* What the windows of a segment's rows cover may begin anywhere in a block: the bound is what the
 * worst position takes, and no more. */
static void bounds_are_reached(void **state) {
  (void)state;
  static const int64_t windows[] = {1, 2, 63, 64, 65, 66, 129, 200}, rows[] = {1, 2, 63, 64, 65, 100};
  struct omma_attention_context *context = scalar_context(NULL);
  for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
    for (size_t j = 0; j < sizeof rows / sizeof *rows; j++) {
      struct omma_attention_spec spec = usual_spec(rows[j]);
      size_t worst = 0;
      spec.mode = OMMA_ATTENTION_CAUSAL;
      spec.window = windows[i];
      spec.paged = true;
      spec.n_kv_tokens = 4096;
      size_t bound = omma_attention_workspace_bound(context, &spec, 1);
      for (int64_t offset = 1024; offset < 1024 + OMMAI_ATTENTION_BLOCK; offset++) {
        struct omma_attention_plan *plan;
        struct omma_error error;
        spec.q_offsets = &offset;
        assert_ok(omma_attention_plan_create(context, &spec, &plan, &error), &error);
        size_t size = omma_attention_plan_workspace_size(plan, 1);
        if (size > worst) worst = size;
        omma_attention_plan_destroy(plan);
      }
      if (worst != bound) fail_msg("window %d, %d rows: %zu, bound %zu", (int)windows[i], (int)rows[j], worst, bound);
      spec.q_offsets = NULL;
    }
  }
  omma_attention_context_destroy(context);
}

/* Of many segments all together have no more keys than there are. */
static void bounds_know_that_segments_share_the_keys(void **state) {
  (void)state;
  struct omma_attention_context *context = scalar_context(NULL);
  struct omma_attention_spec spec = usual_spec(8 * 150);
  struct omma_attention_plan *plan;
  struct omma_error error;
  spec.batch = 8;
  assert_ok(omma_attention_plan_create(context, &spec, &plan, &error), &error);
  assert_in_range(omma_attention_workspace_bound(context, &spec, 1), omma_attention_plan_workspace_size(plan, 1),
                  2 * omma_attention_plan_workspace_size(plan, 1));
  omma_attention_plan_destroy(plan);
  omma_attention_context_destroy(context);
}

/* Tiles cover the rows in order, none is empty, and none is larger than the kernel's. */
static void tiles_cover_all_rows(void **state) {
  (void)state;
  const struct ommai_attention_tile_kernel kernels[] = {
      {.rows = 48, .row_step = 16}, {.rows = 16, .row_step = 1}, {.rows = 64, .row_step = 4}};
  for (int k = 0; k < 3; k++) {
    for (int64_t n_rows = 1; n_rows < 400; n_rows++) {
      int64_t next = 0, n_tiles = ommai_attention_tile_count(&kernels[k], n_rows);
      for (int64_t i = 0; i < n_tiles; i++) {
        int64_t first, count;
        ommai_attention_tile_rows(&kernels[k], n_rows, i, &first, &count);
        assert_int_equal(first, next);
        assert_true(count > 0 && count <= kernels[k].rows);
        next = first + count;
      }
      assert_int_equal(next, n_rows);
    }
  }
}

static void flops_count_useful_work(void **state) {
  (void)state;
  struct omma_attention_context *context = scalar_context(NULL);
  struct omma_attention_spec spec = usual_spec(100);
  const int32_t cu[4] = {0, 10, 10, 70};
  spec.n_segments = 3;
  spec.cu_seqlens = cu;
  spec.v_head_dim = 32;
  struct omma_attention_plan *plan;
  struct omma_attention_plan_info info;
  struct omma_error error;
  assert_ok(omma_attention_plan_create(context, &spec, &plan, &error), &error);
  omma_attention_plan_get_info(plan, &info);
  assert_true(info.flops == 2.0 * (64 + 32) * 4 * (10 * 10 + 60 * 60));
  assert_true(info.scale == 0.125f);
  assert_int_equal(info.n_segments, 3);
  omma_attention_plan_destroy(plan);
  spec.mode = OMMA_ATTENTION_CAUSAL;
  assert_ok(omma_attention_plan_create(context, &spec, &plan, &error), &error);
  omma_attention_plan_get_info(plan, &info);
  assert_true(info.flops == 2.0 * (64 + 32) * 4 * (10 * 11 / 2 + 60 * 61 / 2));
  omma_attention_plan_destroy(plan);
  omma_attention_context_destroy(context);
}

/* Keys are counted one by one. */
static void flops_know_the_window(void **state) {
  (void)state;
  struct omma_attention_context *context = scalar_context(NULL);
  const int32_t cu[4] = {0, 10, 10, 70};
  const int64_t offsets[3] = {0, 5, 47};
  for (int64_t window = 1; window < 120; window += window < 12 ? 1 : 9) {
    for (int mode = OMMA_ATTENTION_CAUSAL; mode <= OMMA_ATTENTION_DECODE; mode++) {
      struct omma_attention_spec spec = usual_spec(70);
      struct omma_attention_plan *plan;
      struct omma_attention_plan_info info;
      struct omma_error error;
      int64_t seen = 0;
      spec.mode = (enum omma_attention_mode)mode;
      spec.window = window;
      spec.n_segments = 3;
      spec.cu_seqlens = cu;
      spec.q_offsets = offsets;
      spec.paged = true;
      for (int i = 0; i < 3; i++) {
        for (int64_t at = offsets[i]; at < offsets[i] + cu[i + 1] - cu[i]; at++) seen += at + 1 < window ? at + 1 : window;
      }
      assert_ok(omma_attention_plan_create(context, &spec, &plan, &error), &error);
      omma_attention_plan_get_info(plan, &info);
      assert_true(info.flops == 2.0 * (64 + 64) * 4 * (double)seen);
      omma_attention_plan_destroy(plan);
    }
  }
  omma_attention_context_destroy(context);
}

/* Steps, workspace and its bound are those of the window, however far into a sequence the rows
 * are. */
static void work_does_not_grow_with_what_is_hidden(void **state) {
  (void)state;
  struct omma_attention_context *context = scalar_context(NULL);
  for (int mode = OMMA_ATTENTION_CAUSAL; mode <= OMMA_ATTENTION_DECODE; mode++) {
    int64_t steps[2];
    size_t workspace[2], bound[2];
    for (int i = 0; i < 2; i++) {
      const int64_t offset = i == 0 ? 4096 : 1 << 20;
      struct omma_attention_spec spec = usual_spec(mode == OMMA_ATTENTION_DECODE ? 1 : 512);
      struct omma_attention_plan *plan;
      struct omma_attention_plan_info info;
      struct omma_error error;
      spec.mode = (enum omma_attention_mode)mode;
      spec.window = 1024;
      spec.q_offsets = &offset;
      spec.paged = true;
      assert_ok(omma_attention_plan_create(context, &spec, &plan, &error), &error);
      omma_attention_plan_get_info(plan, &info);
      steps[i] = info.n_steps;
      workspace[i] = omma_attention_plan_workspace_size(plan, 1);
      bound[i] = omma_attention_workspace_bound(context, &spec, 1);
      omma_attention_plan_destroy(plan);
    }
    assert_int_equal(steps[0], steps[1]);
    assert_int_equal(workspace[0], workspace[1]);
    assert_int_equal(bound[0], bound[1]);
  }
  omma_attention_context_destroy(context);
}

/* Whatever the mode, what is below 0 by less than a float can say is 0 and not -0. */
static void zero_has_one_sign(void **state) {
  (void)state;
  enum { KEYS = 300, DIM = 64 };
  static float k[KEYS * DIM], v[KEYS * DIM];
  static _Alignas(64) unsigned char workspace[1 << 20];
  struct omma_attention_context *context = scalar_context(NULL);
  for (int d = 0; d < DIM; d++) v[d] = -0x1p-149f;
  for (int mode = OMMA_ATTENTION_ENCODER; mode <= OMMA_ATTENTION_DECODE; mode++) {
    const int64_t offset = KEYS - 1;
    float q[DIM] = {1}, out[DIM];
    struct omma_attention_spec spec = {.mode = mode, .n_heads = 1, .head_dim = DIM, .n_tokens = 1, .n_kv_tokens = KEYS};
    struct omma_attention_plan *plan;
    struct omma_error error;
    const struct omma_attention_tensors tensors = {.q = q, .k = k, .v = v, .out = out};
    if (mode != OMMA_ATTENTION_ENCODER) spec.q_offsets = &offset;
    assert_ok(omma_attention_plan_create(context, &spec, &plan, &error), &error);
    assert_ok(omma_attention_run(plan, &tensors, workspace, sizeof workspace, NULL, &error), &error);
    for (int d = 0; d < DIM; d++) assert_true(out[d] == 0 && !signbit(out[d]));
    omma_attention_plan_destroy(plan);
  }
  omma_attention_context_destroy(context);
}

/* Encoder segments of one block have the window kernel where their type has one; its name is that
 * of the longest segment. */
static void windows_have_their_kernel(void **state) {
  (void)state;
  struct omma_attention_context *context;
  struct omma_error error;
  assert_ok(omma_attention_context_create(NULL, &context, &error), &error);
  for (int mode = OMMA_ATTENTION_ENCODER; mode <= OMMA_ATTENTION_CAUSAL; mode++) {
    for (int dtype = OMMA_F32; dtype <= OMMA_BF16; dtype++) {
      for (int32_t longest = OMMAI_ATTENTION_BLOCK; longest <= OMMAI_ATTENTION_BLOCK + 1; longest++) {
        const int32_t cu[3] = {0, longest, longest + 20};
        struct omma_attention_spec spec = usual_spec(cu[2]);
        spec.mode = mode;
        spec.dtype = dtype;
        spec.n_segments = 2;
        spec.cu_seqlens = cu;
        struct omma_attention_plan *plan;
        struct omma_attention_plan_info info;
        assert_ok(omma_attention_plan_create(context, &spec, &plan, &error), &error);
        omma_attention_plan_get_info(plan, &info);
        const struct ommai_attention_tile_kernel *expected = context->tile[dtype], *window = context->window[dtype];
        if (mode == OMMA_ATTENTION_ENCODER && longest == OMMAI_ATTENTION_BLOCK && window) expected = window;
        assert_string_equal(info.kernel, expected->name);
        omma_attention_plan_destroy(plan);
      }
    }
  }
  omma_attention_context_destroy(context);
}

/* One segment of 60,000 next to hundreds of 64: it comes first, in many jobs. */
static void heavy_segments_come_first(void **state) {
  (void)state;
  enum { COUNT = 1000 };
  int32_t cu[COUNT + 1] = {0};
  for (int i = 0; i < COUNT; i++) cu[i + 1] = cu[i] + (i == 500 ? 60000 : 64);
  struct omma_attention_context *context = scalar_context(NULL);
  struct omma_attention_spec spec = usual_spec(cu[COUNT]);
  spec.n_heads = 16;
  spec.head_dim = 72;
  spec.n_segments = COUNT;
  spec.cu_seqlens = cu;
  struct omma_attention_plan *plan;
  struct omma_error error;
  assert_ok(omma_attention_plan_create(context, &spec, &plan, &error), &error);
  assert_int_equal(plan->units[0].segment, 500);
  assert_int_equal(plan->units[1].segment, 0);
  assert_true(plan->units[0].attend_per_pair > 1000);
  omma_attention_plan_destroy(plan);
  omma_attention_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_needed_for_no_tokens),
      cmocka_unit_test(every_failed_allocation_is_reported),
      cmocka_unit_test(bounds_hold),
      cmocka_unit_test(bounds_are_reached),
      cmocka_unit_test(bounds_know_that_segments_share_the_keys),
      cmocka_unit_test(tiles_cover_all_rows),
      cmocka_unit_test(flops_count_useful_work),
      cmocka_unit_test(flops_know_the_window),
      cmocka_unit_test(work_does_not_grow_with_what_is_hidden),
      cmocka_unit_test(zero_has_one_sign),
      cmocka_unit_test(windows_have_their_kernel),
      cmocka_unit_test(heavy_segments_come_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
