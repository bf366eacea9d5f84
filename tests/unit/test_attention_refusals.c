/* What the operator refuses, in which words, and that it has touched nothing by then: tensors, page
 * table, workspace and plan memory are pages that cannot be read or written, arrays end at such a
 * page, and the allocator counts. */
#include <math.h>
#include <omma/attention.h>
#include <stdlib.h>

#include "attention/attention_plan.h"
#include "support/guarded.h"

/* A context on the scalar kernels, and memory that ends the program when it is touched. */
struct fixture {
  struct test_allocator allocator;
  struct omma_attention_context *context;
  struct guarded nothing;
  struct omma_error error;
};

static int set_up(void **state) {
  struct fixture *f = calloc(1, sizeof *f);
  test_allocator_init(&f->allocator);
  struct omma_attention_options options = {.isa = "scalar", .allocator = &f->allocator.interface};
  assert_ok(omma_attention_context_create(&options, &f->context, &f->error), &f->error);
  f->nothing = guarded_untouchable(1 << 16);
  *state = f;
  return 0;
}

static int tear_down(void **state) {
  struct fixture *f = *state;
  omma_attention_context_destroy(f->context);
  assert_int_equal(f->allocator.n_live, 0);
  guarded_free(&f->nothing);
  free(f);
  return 0;
}

static struct omma_attention_spec usual_spec(int64_t n_tokens) {
  return (struct omma_attention_spec){.n_heads = 4, .head_dim = 64, .n_tokens = n_tokens};
}

/* Both ways to a plan refuse the spec with these words, name a field, and leave memory alone. */
static void assert_refused(struct fixture *f, const struct omma_attention_spec *spec, enum omma_status status,
                           const char *part) {
  struct omma_attention_plan *plan = (void *)1, *placed = (void *)1;
  int64_t before = f->allocator.n_allocations;
  assert_fails(omma_attention_plan_create(f->context, spec, &plan, &f->error), status, part, &f->error);
  assert_null(plan);
  assert_int_equal(f->error.status, status);
  assert_fails(omma_attention_plan_place(f->context, spec, f->nothing.data, f->nothing.size, &placed, &f->error), status, part,
               &f->error);
  assert_null(placed);
  assert_int_equal(f->allocator.n_allocations, before);
}

/* ---- specs whose numbers are wrong: arrays are not looked at ---- */

static void shapes_are_refused_by_name(void **state) {
  struct fixture *f = *state;
  struct omma_attention_spec spec;
  const void *array = f->nothing.data;
#define REFUSED(change, status, part)                                          \
  do {                                                                         \
    spec = usual_spec(100);                                                    \
    spec.n_segments = 3;                                                       \
    spec.cu_seqlens = array;                                                   \
    change;                                                                    \
    assert_refused(f, &spec, OMMA_ERROR_##status, part);                       \
    assert_int_equal(omma_attention_plan_size_bound(f->context, &spec), 0);    \
    assert_int_equal(omma_attention_workspace_bound(f->context, &spec, 2), 0); \
    assert_true(f->error.field[0] != '\0');                                    \
  } while (0)
  REFUSED(spec.mode = 3, ARGUMENT, "mode: expected an enum omma_attention_mode, found 3");
  REFUSED(spec.dtype = 7, ARGUMENT, "dtype: expected an enum omma_dtype, found 7");
  REFUSED(spec.index_type = 2, ARGUMENT, "index_type: expected an enum omma_index_type, found 2");
  REFUSED((spec.mode = OMMA_ATTENTION_CAUSAL, spec.dtype = OMMA_F16), UNSUPPORTED,
          "dtype: f16 is served in the encoder mode only");
  REFUSED((spec.mode = OMMA_ATTENTION_DECODE, spec.dtype = OMMA_F16), UNSUPPORTED,
          "dtype: f16 is served in the encoder mode only");
  REFUSED(spec.bf16_kv = true, UNSUPPORTED, "bf16_kv: the encoder mode takes keys and values of its queries' type");
  REFUSED(spec.int8_kv = true, UNSUPPORTED, "int8_kv: the encoder mode takes keys and values of its queries' type");
  REFUSED(spec.n_heads = 0, ARGUMENT, "n_heads: expected at least 1, found 0");
  REFUSED(spec.n_heads = INT32_MIN, ARGUMENT, "n_heads: expected at least 1, found -2147483648");
  REFUSED(spec.n_heads = 4097, LIMIT, "n_heads: expected at most 4096, found 4097");
  REFUSED(spec.n_kv_heads = 3, ARGUMENT, "n_kv_heads: expected a divisor of n_heads = 4, found 3");
  REFUSED(spec.n_kv_heads = -1, ARGUMENT, "n_kv_heads: expected a divisor of n_heads = 4, found -1");
  REFUSED(spec.n_kv_heads = 8, ARGUMENT, "n_kv_heads: expected a divisor of n_heads = 4, found 8");
  REFUSED((spec.n_heads = 10, spec.n_kv_heads = 4), ARGUMENT, "n_kv_heads: expected a divisor of n_heads = 10, found 4");
  REFUSED(spec.head_dim = 0, ARGUMENT, "head_dim: expected at least 1, found 0");
  REFUSED(spec.head_dim = -64, ARGUMENT, "head_dim: expected at least 1, found -64");
  REFUSED(spec.head_dim = 257, UNSUPPORTED, "head_dim: expected at most 256, found 257");
  REFUSED(spec.head_dim = INT32_MAX, UNSUPPORTED, "head_dim: expected at most 256, found 2147483647");
  REFUSED((spec.mode = OMMA_ATTENTION_CAUSAL, spec.head_dim = 257), UNSUPPORTED, "head_dim: expected at most 256, found 257");
  REFUSED((spec.mode = OMMA_ATTENTION_DECODE, spec.head_dim = 1025), UNSUPPORTED,
          "head_dim: expected at most 1024, found 1025");
  REFUSED((spec.mode = OMMA_ATTENTION_DECODE, spec.v_head_dim = 1025), UNSUPPORTED,
          "v_head_dim: expected at most 1024, found 1025");
  REFUSED(spec.v_head_dim = -2, ARGUMENT, "v_head_dim: expected at least 1, found -2");
  REFUSED(spec.v_head_dim = 300, UNSUPPORTED, "v_head_dim: expected at most 256, found 300");
  REFUSED(spec.scale = NAN, ARGUMENT, "scale: expected a finite number, found");
  REFUSED(spec.scale = INFINITY, ARGUMENT, "scale: expected a finite number, found inf");
  REFUSED(spec.scale = -INFINITY, ARGUMENT, "scale: expected a finite number, found -inf");
  REFUSED(spec.n_tokens = -1, ARGUMENT, "n_tokens: expected at least 0, found -1");
  REFUSED(spec.n_tokens = OMMA_ATTENTION_MAX_TOKENS + 1, LIMIT, "n_tokens: expected at most 2147483648, found 2147483649");
  REFUSED(spec.n_tokens = INT64_MAX, LIMIT, "n_tokens: expected at most 2147483648, found 9223372036854775807");
  REFUSED(spec.n_kv_tokens = INT64_MIN, ARGUMENT, "n_kv_tokens: expected at least 0, found -9223372036854775808");
  REFUSED(spec.n_kv_tokens = INT64_MAX, LIMIT, "n_kv_tokens: expected at most 2147483648");
  REFUSED(spec.n_segments = -1, ARGUMENT, "n_segments: expected at least 0, found -1");
  REFUSED(spec.n_segments = OMMA_ATTENTION_MAX_SEGMENTS + 1, LIMIT, "n_segments: expected at most 16777216, found 16777217");
  REFUSED(spec.batch = -1, ARGUMENT, "batch: expected at least 0, found -1");
  REFUSED(spec.batch = INT64_MAX, LIMIT, "batch: expected at most 16777216");
  REFUSED(spec.paged = true, ARGUMENT, "paged: the encoder mode reads no pages");
  REFUSED(spec.window = 64, ARGUMENT, "window: the encoder mode has no sliding window; expected 0, found 64");
  REFUSED((spec.mode = OMMA_ATTENTION_CAUSAL, spec.window = -1), ARGUMENT, "window: expected at least 0, found -1");
  REFUSED((spec.mode = OMMA_ATTENTION_DECODE, spec.window = INT64_MIN), ARGUMENT,
          "window: expected at least 0, found -9223372036854775808");
  REFUSED(spec.q_offsets = array, ARGUMENT, "q_offsets: the encoder mode has no positions; expected NULL");
  REFUSED((spec.cu_seqlens = NULL, spec.cu_seqlens_k = array), ARGUMENT, "cu_seqlens_k: given without cu_seqlens");
#undef REFUSED
}

static void batches_are_refused_by_name(void **state) {
  struct fixture *f = *state;
  struct omma_attention_spec spec = usual_spec(100);
  spec.batch = 3;
  assert_refused(f, &spec, OMMA_ERROR_ARGUMENT, "n_tokens: 100 rows do not divide into a batch of 3");
  spec.batch = 4;
  spec.n_kv_tokens = 30;
  assert_refused(f, &spec, OMMA_ERROR_ARGUMENT, "n_kv_tokens: 30 rows do not divide into a batch of 4");
  spec = usual_spec(100);
  spec.n_segments = 2;
  assert_refused(f, &spec, OMMA_ERROR_ARGUMENT, "n_segments: 2 segments without cu_seqlens; expected 0 or the batch of 1");
}

static void missing_arguments_are_named(void **state) {
  struct fixture *f = *state;
  struct omma_attention_spec spec = usual_spec(1);
  struct omma_attention_plan *plan;
  assert_fails(omma_attention_plan_create(NULL, &spec, &plan, &f->error), OMMA_ERROR_ARGUMENT, "context: expected a context",
               &f->error);
  assert_fails(omma_attention_plan_create(f->context, NULL, &plan, &f->error), OMMA_ERROR_ARGUMENT, "spec: expected a spec",
               &f->error);
  assert_fails(omma_attention_plan_create(f->context, &spec, NULL, &f->error), OMMA_ERROR_ARGUMENT, "plan: expected a pointer",
               &f->error);
  assert_fails(omma_attention_plan_place(f->context, &spec, f->nothing.data, 1 << 16, NULL, &f->error), OMMA_ERROR_ARGUMENT,
               "plan: expected a pointer", &f->error);
  assert_fails(omma_attention_plan_place(f->context, &spec, NULL, 0, &plan, &f->error), OMMA_ERROR_ARGUMENT,
               "memory: expected an address aligned to 64", &f->error);
  assert_fails(omma_attention_plan_place(f->context, &spec, f->nothing.data + 8, 1 << 15, &plan, &f->error),
               OMMA_ERROR_ARGUMENT, "memory: expected an address aligned to 64", &f->error);
  assert_fails(omma_attention_plan_place(f->context, &spec, f->nothing.data, 1, &plan, &f->error), OMMA_ERROR_MEMORY,
               "memory_size: the plan takes", &f->error);
  assert_fails(omma_attention_self_test(NULL, &f->error), OMMA_ERROR_ARGUMENT, "context: expected a context", &f->error);
  assert_int_equal(omma_attention_plan_create(f->context, NULL, &plan, NULL), OMMA_ERROR_ARGUMENT);
  omma_attention_context_destroy(NULL);
  omma_attention_plan_destroy(NULL);
}

/* ---- specs whose arrays are wrong: nothing after their end is read ---- */

/* A copy of `size` bytes that ends at a page without access. */
static struct guarded copy_of(const void *bytes, size_t size) {
  struct guarded copy = guarded_new(size, true);
  memcpy(copy.data, bytes, size);
  return copy;
}

static void assert_borders_refused(struct fixture *f, const int64_t borders[4], const char *part) {
  struct omma_attention_spec spec = usual_spec(100);
  struct guarded wide = copy_of(borders, 4 * sizeof *borders);
  spec.n_segments = 3;
  spec.index_type = OMMA_INDEX_INT64;
  spec.cu_seqlens = wide.data;
  assert_refused(f, &spec, OMMA_ERROR_ARGUMENT, part);
  assert_string_equal(f->error.field, "cu_seqlens");
  int32_t small[4];
  bool fits = true;
  for (int i = 0; i < 4; i++) {
    small[i] = (int32_t)borders[i];
    fits = fits && small[i] == borders[i];
  }
  if (fits) {
    struct guarded narrow = copy_of(small, sizeof small);
    spec.index_type = OMMA_INDEX_INT32;
    spec.cu_seqlens = narrow.data;
    assert_refused(f, &spec, OMMA_ERROR_ARGUMENT, part);
    guarded_free(&narrow);
  }
  guarded_free(&wide);
}

static void borders_are_refused_with_their_index(void **state) {
  static const struct {
    int64_t cu[4];
    const char *part;
  } wrong[] = {
      {{1, 2, 3, 100}, "cu_seqlens[0]: expected 0, found 1"},
      {{-1, 2, 3, 100}, "cu_seqlens[0]: expected 0, found -1"},
      {{INT64_MIN, 2, 3, 100}, "cu_seqlens[0]: expected 0, found -9223372036854775808"},
      {{0, -5, 40, 100}, "cu_seqlens[1]: expected at least the entry before, 0, found -5"},
      {{0, 30, 20, 100}, "cu_seqlens[2]: expected at least the entry before, 30, found 20"},
      {{0, 30, 40, INT32_MIN}, "cu_seqlens[3]: expected at least the entry before, 40, found -2147483648"},
      {{0, 30, 40, 101}, "cu_seqlens[3]: expected at most the 100 rows of q, found 101"},
      {{0, INT32_MAX, 40, 50}, "cu_seqlens[1]: expected at most the 100 rows of q, found 2147483647"},
      {{0, 1, 2, INT64_MAX}, "cu_seqlens[3]: expected at most the 100 rows of q, found 9223372036854775807"},
      {{0, 1, (INT64_C(1) << 32) + 2, 3}, "cu_seqlens[2]: expected at most the 100 rows of q, found 4294967298"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_borders_refused(*state, wrong[i].cu, wrong[i].part);
}

static void key_borders_are_refused_with_their_index(void **state) {
  struct fixture *f = *state;
  struct omma_attention_spec spec = usual_spec(100);
  const int64_t rows[4] = {0, 30, 40, 100}, falling[4] = {0, 30, 20, 50}, late[4] = {3, 30, 40, 50}, many[4] = {0, 30, 40, 121};
  spec.n_segments = 3;
  spec.n_kv_tokens = 120;
  spec.index_type = OMMA_INDEX_INT64;
  spec.cu_seqlens = rows;
  spec.cu_seqlens_k = falling;
  assert_refused(f, &spec, OMMA_ERROR_ARGUMENT, "cu_seqlens_k[2]: expected at least the entry before, 30, found 20");
  spec.cu_seqlens_k = late;
  assert_refused(f, &spec, OMMA_ERROR_ARGUMENT, "cu_seqlens_k[0]: expected 0, found 3");
  spec.cu_seqlens_k = many;
  assert_refused(f, &spec, OMMA_ERROR_ARGUMENT, "cu_seqlens_k[3]: expected at most the 120 rows of k, found 121");
  spec.cu_seqlens_k = NULL;
  spec.n_kv_tokens = 99;
  assert_refused(f, &spec, OMMA_ERROR_ARGUMENT, "cu_seqlens[3]: expected at most the 99 rows of k, found 100");
}

static void positions_are_refused_with_their_index(void **state) {
  struct fixture *f = *state;
  struct omma_attention_spec spec = usual_spec(100);
  const int32_t cu[3] = {0, 40, 100};
  int64_t offsets[2] = {0, -1};
  spec.mode = OMMA_ATTENTION_CAUSAL;
  spec.n_segments = 2;
  spec.cu_seqlens = cu;
  spec.q_offsets = offsets;
  assert_refused(f, &spec, OMMA_ERROR_ARGUMENT, "q_offsets[1]: expected 0 to 2147483648, found -1");
  offsets[1] = INT64_MAX;
  assert_refused(f, &spec, OMMA_ERROR_ARGUMENT, "q_offsets[1]: expected 0 to 2147483648, found 9223372036854775807");
  offsets[1] = 5;
  assert_refused(f, &spec, OMMA_ERROR_ARGUMENT,
                 "q_offsets[1]: segment 1 has 5 positions before its 60 query rows, but only 60 rows of keys");
  spec.paged = true;
  offsets[1] = OMMA_ATTENTION_MAX_TOKENS;
  assert_refused(f, &spec, OMMA_ERROR_LIMIT, "q_offsets[1]: 2147483648 positions and 60 rows are more than 2147483648 keys");
}

static void bounds_read_no_more_than_the_positions(void **state) {
  struct fixture *f = *state;
  struct omma_attention_spec spec = usual_spec(100);
  const int64_t offsets[2] = {0, 700};
  struct guarded copy = copy_of(offsets, sizeof offsets);
  spec.mode = OMMA_ATTENTION_CAUSAL;
  spec.batch = 2;
  spec.q_offsets = (const int64_t *)(const void *)copy.data;
  spec.paged = true;
  assert_true(omma_attention_plan_size_bound(f->context, &spec) > 0);
  assert_true(omma_attention_workspace_bound(f->context, &spec, 1) > 0);
  guarded_free(&copy);
}

/* Each of a thousand sequences has as many keys as a plan can count: together they are more bytes
 * than there are addresses. */
static void more_keys_than_addresses_are_refused(void **state) {
  enum { COUNT = 1000 };
  static int64_t offsets[COUNT];
  struct omma_attention_spec spec = usual_spec(COUNT);
  for (int i = 0; i < COUNT; i++) offsets[i] = OMMA_ATTENTION_MAX_TOKENS - 1;
  spec.mode = OMMA_ATTENTION_CAUSAL;
  spec.paged = true;
  spec.batch = COUNT;
  spec.n_heads = OMMA_ATTENTION_MAX_HEADS;
  spec.head_dim = OMMA_ATTENTION_MAX_HEAD_DIM;
  spec.q_offsets = offsets;
  assert_refused(*state, &spec, OMMA_ERROR_LIMIT, "keys and values of the segments so far are too large");
}

/* ---- runs ---- */

/* A plan of two segments with tensors and workspace that cannot be touched. */
struct run {
  struct omma_attention_plan *plan;
  struct omma_attention_tensors tensors;
  unsigned char *workspace;
  size_t size;
};

static struct run make_run(struct fixture *f, const struct omma_attention_spec *spec) {
  struct run run = {.workspace = f->nothing.data};
  assert_ok(omma_attention_plan_create(f->context, spec, &run.plan, &f->error), &f->error);
  run.size = omma_attention_plan_workspace_size(run.plan, 1);
  run.tensors =
      (struct omma_attention_tensors){.q = f->nothing.data, .k = f->nothing.data, .v = f->nothing.data, .out = f->nothing.data};
  return run;
}

/* The whole run and a part of it are refused alike. */
static void assert_run_refused(struct fixture *f, const struct run *run, const struct omma_team *team, const char *part) {
  assert_fails(omma_attention_run(run->plan, &run->tensors, run->workspace, run->size, team, &f->error), OMMA_ERROR_ARGUMENT,
               part, &f->error);
  assert_true(f->error.field[0] != '\0');
  assert_fails(omma_attention_run_range(run->plan, &run->tensors, run->workspace, run->size, team, 0, 1, &f->error),
               OMMA_ERROR_ARGUMENT, part, &f->error);
}

static void tensors_are_refused_by_name(void **state) {
  struct fixture *f = *state;
  struct omma_attention_spec spec = usual_spec(8);
  struct run good = make_run(f, &spec);
#define REFUSED(change, part)                        \
  do {                                               \
    struct run run = good;                           \
    struct omma_attention_tensors *t = &run.tensors; \
    change;                                          \
    assert_run_refused(f, &run, NULL, part);         \
  } while (0)
  REFUSED(t->q = NULL, "q: expected a pointer, found NULL");
  REFUSED(t->k = NULL, "k: expected a pointer, found NULL");
  REFUSED(t->v = NULL, "v: expected a pointer, found NULL");
  REFUSED(t->out = NULL, "out: expected a pointer, found NULL");
  REFUSED(t->q_token_stride = INT64_MAX, "q_token_stride: 8 steps of 9223372036854775807 elements overflow");
  REFUSED(t->q_head_stride = INT64_MIN, "q_head_stride: 4 steps of -9223372036854775808 elements overflow");
  REFUSED(t->k_token_stride = INT64_MAX / 2, "k_token_stride: 8 steps of");
  REFUSED(t->k_head_stride = INT64_MAX, "k_head_stride: 4 steps of");
  REFUSED(t->v_token_stride = INT64_MIN, "v_token_stride: 8 steps of");
  REFUSED(t->v_head_stride = INT64_MIN, "v_head_stride: 4 steps of");
  REFUSED(t->out_token_stride = INT64_MAX, "out_token_stride: 8 steps of");
  REFUSED(t->out_head_stride = INT64_MIN, "out_head_stride: 4 steps of");
  REFUSED(t->out_token_stride = 63, "out_token_stride: rows of 64 elements overlap at a stride of 63");
  REFUSED(t->out_head_stride = -1, "out_head_stride: rows of 64 elements overlap at a stride of -1");
  REFUSED(t->out_head_stride = 256, "out_head_stride: rows of different tokens and heads overlap at strides of 256 and 256");
  /* a head's eight rows take 512 elements, a token's four 256 */
  REFUSED((t->out_token_stride = 64, t->out_head_stride = 511),
          "out_head_stride: rows of different tokens and heads overlap at strides of 64 and 511");
  REFUSED((t->out_token_stride = 255, t->out_head_stride = 64),
          "out_head_stride: rows of different tokens and heads overlap at strides of 255 and 64");
#undef REFUSED
  omma_attention_plan_destroy(good.plan);
}

static void never_run(void *context, int64_t n_tasks, omma_task task, void *task_context) {
  (void)context, (void)n_tasks, (void)task, (void)task_context;
  fail_msg("%s", "a refused run must not call its team");
}

static void workspaces_and_teams_are_refused_by_name(void **state) {
  struct fixture *f = *state;
  struct omma_attention_spec spec = usual_spec(8);
  struct run good = make_run(f, &spec), run = good;
  run.workspace = NULL;
  assert_run_refused(f, &run, NULL, "workspace: expected an address aligned to 64, found");
  run.workspace = good.workspace + 8;
  assert_run_refused(f, &run, NULL, "workspace: expected an address aligned to 64, found");
  run = good;
  run.size--;
  char words[80];
  snprintf(words, sizeof words, "workspace_size: the plan needs %zu bytes for 1 worker, found %zu", good.size, run.size);
  assert_run_refused(f, &run, NULL, words);
  struct omma_team team = {.n_workers = 2, .run = never_run};
  assert_run_refused(f, &good, &team, "for 2 workers");
  team.n_workers = 0;
  assert_run_refused(f, &good, &team, "team: expected a run function and at least 1 worker, found 0");
  team = (struct omma_team){.n_workers = 1};
  assert_run_refused(f, &good, &team, "team: expected a run function");
  run = good;
  run.plan = NULL;
  assert_run_refused(f, &run, NULL, "plan: expected a plan, found NULL");
  assert_fails(omma_attention_run(good.plan, NULL, good.workspace, good.size, NULL, &f->error), OMMA_ERROR_ARGUMENT,
               "tensors: expected a pointer, found NULL", &f->error);
  omma_attention_plan_destroy(good.plan);
}

static void ranges_are_refused_by_name(void **state) {
  struct fixture *f = *state;
  struct omma_attention_spec spec = usual_spec(8);
  struct run run = make_run(f, &spec);
  struct omma_attention_plan_info info;
  omma_attention_plan_get_info(run.plan, &info);
  const struct {
    int64_t first, count;
    const char *part;
  } wrong[] = {{-1, 1, "first: expected 0 to"},
               {INT64_MIN, 1, "first: expected 0 to"},
               {info.n_steps + 1, 0, "first: expected 0 to"},
               {0, -1, "count: expected 0 to"},
               {0, info.n_steps + 1, "count: expected 0 to"},
               {1, INT64_MAX, "count: expected 0 to"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_fails(omma_attention_run_range(run.plan, &run.tensors, run.workspace, run.size, NULL, wrong[i].first, wrong[i].count,
                                          &f->error),
                 OMMA_ERROR_ARGUMENT, wrong[i].part, &f->error);
  }
  for (int64_t first = 0; first <= info.n_steps; first++) {
    assert_ok(omma_attention_run_range(run.plan, &run.tensors, run.workspace, run.size, NULL, first, 0, &f->error), &f->error);
  }
  omma_attention_plan_destroy(run.plan);
}

static void page_tables_are_refused_by_name(void **state) {
  struct fixture *f = *state;
  struct omma_attention_spec spec = usual_spec(2);
  const int64_t offsets[2] = {100, 300};
  spec.mode = OMMA_ATTENTION_DECODE;
  spec.batch = 2;
  spec.q_offsets = offsets;
  spec.paged = true;
  struct run run = make_run(f, &spec);
  run.tensors.page_table_stride = 5;
  assert_run_refused(f, &run, NULL, "page_table: expected a pointer, found NULL");
  run.tensors.page_table = (const int32_t *)(const void *)f->nothing.data;
  run.tensors.page_table_stride = 4;
  assert_run_refused(f, &run, NULL, "page_table_stride: expected at least the 5 pages of the longest segment, found 4");
  run.tensors.page_table_stride = INT64_MAX;
  assert_run_refused(f, &run, NULL, "page_table_stride: 2 steps of");
  run.tensors.page_table_stride = 5;
  run.tensors.k_page_stride = INT64_MAX / 4;
  assert_run_refused(f, &run, NULL, "k_page_stride: 2147483647 steps of");
  run.tensors.k_page_stride = 0;
  run.tensors.v_page_stride = INT64_MIN / 4;
  assert_run_refused(f, &run, NULL, "v_page_stride: 2147483647 steps of");
  omma_attention_plan_destroy(run.plan);
}

/* ---- levels and kernels ---- */

static void levels_are_refused_by_name(void **state) {
  struct fixture *f = *state;
  struct omma_attention_options options = {.isa = "mmx"};
  struct omma_attention_context *context = (void *)1;
  assert_fails(omma_attention_context_create(&options, &context, &f->error), OMMA_ERROR_ARGUMENT, "mmx", &f->error);
  assert_null(context);
  assert_fails(omma_attention_context_create(&options, NULL, &f->error), OMMA_ERROR_ARGUMENT, "context", &f->error);
  for (int level = 0; level < OMMAI_CPU_LEVELS; level++) {
    if (ommai_cpu_has(level)) continue;
    context = (void *)1;
    options.isa = ommai_cpu_level_name(level);
    assert_fails(omma_attention_context_create(&options, &context, &f->error), OMMA_ERROR_UNSUPPORTED, options.isa, &f->error);
    assert_null(context);
  }
}

static void kernels_are_named_where_there_is_one(void **state) {
  const struct omma_attention_context *context = ((struct fixture *)*state)->context;
  assert_string_equal(omma_attention_kernel_name(context, OMMA_ATTENTION_ENCODER, OMMA_F32, 72, 0), "tile_f32_scalar");
  assert_non_null(omma_attention_kernel_name(context, OMMA_ATTENTION_CAUSAL, OMMA_BF16, 192, 128));
  assert_non_null(omma_attention_kernel_name(context, OMMA_ATTENTION_DECODE, OMMA_BF16, 192, 128));
  assert_null(omma_attention_kernel_name(context, OMMA_ATTENTION_DECODE, OMMA_F16, 64, 64));
  assert_null(omma_attention_kernel_name(context, OMMA_ATTENTION_CAUSAL, OMMA_F16, 64, 64));
  assert_null(omma_attention_kernel_name(context, OMMA_ATTENTION_ENCODER, OMMA_F32, 300, 0));
  assert_null(omma_attention_kernel_name(context, OMMA_ATTENTION_ENCODER, OMMA_F32, 0, 0));
  assert_null(omma_attention_kernel_name(context, OMMA_ATTENTION_ENCODER, 9, 64, 0));
}

/* ---- self-test ---- */

/* The scalar kernel, but for the last row of a tile that it leaves out, or a state that it
 * doubles. */
static void attend_all_but_one(const struct ommai_attention_tile *tile) {
  struct ommai_attention_tile fewer = *tile;
  fewer.n_rows--;
  if (fewer.n_rows > 0) ommai_attention_tile_f32_scalar.attend(&fewer);
}

static void block_doubled(const struct ommai_attention_decode_block *job) {
  ommai_attention_decode_bf16_scalar.block(job);
  for (int32_t head = 0; head < job->n_heads; head++) job->state[head * job->state_stride + OMMAI_ATTENTION_STATE_OUT] *= 2;
}

static void the_self_test_names_a_wrong_kernel(void **state) {
  struct fixture *f = *state;
  struct omma_attention_context broken = *f->context;
  struct ommai_attention_tile_kernel tile = ommai_attention_tile_f32_scalar;
  assert_ok(omma_attention_self_test(&broken, &f->error), &f->error);
  tile.name = "tile_that_skips";
  tile.attend = attend_all_but_one;
  broken.tile[OMMA_F32] = &tile;
  assert_fails(omma_attention_self_test(&broken, &f->error), OMMA_ERROR_INTERNAL,
               "attention self-test: tile_that_skips, head_dim", &f->error);
  broken = *f->context;
  struct ommai_attention_decode_kernel decode = ommai_attention_decode_bf16_scalar;
  decode.name = "decode_that_doubles";
  decode.block = block_doubled;
  broken.decode[OMMA_BF16] = &decode;
  assert_fails(omma_attention_self_test(&broken, &f->error), OMMA_ERROR_INTERNAL,
               "attention self-test: decode_that_doubles, head_dim", &f->error);
}

int main(void) {
#define REFUSAL(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      REFUSAL(shapes_are_refused_by_name),
      REFUSAL(batches_are_refused_by_name),
      REFUSAL(missing_arguments_are_named),
      REFUSAL(borders_are_refused_with_their_index),
      REFUSAL(key_borders_are_refused_with_their_index),
      REFUSAL(positions_are_refused_with_their_index),
      REFUSAL(bounds_read_no_more_than_the_positions),
      REFUSAL(more_keys_than_addresses_are_refused),
      REFUSAL(tensors_are_refused_by_name),
      REFUSAL(workspaces_and_teams_are_refused_by_name),
      REFUSAL(ranges_are_refused_by_name),
      REFUSAL(page_tables_are_refused_by_name),
      REFUSAL(levels_are_refused_by_name),
      REFUSAL(kernels_are_named_where_there_is_one),
      REFUSAL(the_self_test_names_a_wrong_kernel),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
