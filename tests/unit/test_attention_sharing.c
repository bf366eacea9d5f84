/* Plans and teams: any number of workers in any order gives the same bits; a plan is read-only
 * memory that any number of threads use at the same time; a run takes nothing from the context's
 * allocator. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/allocator.h"
#include "base/team.h"
#include "support/attention_case.h"
#include "support/guarded.h"

static struct omma_attention_context *make_context(const struct omma_allocator *allocator) {
  struct omma_attention_options options = {.allocator = allocator};
  struct omma_attention_context *context;
  struct omma_error error;
  assert_ok(omma_attention_context_create(&options, &context, &error), &error);
  return context;
}

/* ---- teams ---- */

/* Tasks from the last to the first, on every worker in turn. */
static void run_backward(void *context, int64_t n_tasks, omma_task task, void *task_context) {
  const struct omma_team *team = context;
  for (int64_t i = n_tasks; i-- > 0;) task(task_context, i, (int)(i % team->n_workers));
}

static struct attention_case team_case(enum omma_attention_mode mode, enum omma_dtype dtype) {
  static const struct attention_segment segments[] = {{65, 65, 1, false},   {0, 0, 2, false},  {300, 300, 3, false},
                                                      {1, 1, 4, false},     {7, 40, 5, false}, {1, 1100, 6, false},
                                                      {140, 140, 7, false}, {2, 64, 8, false}};
  return (struct attention_case){.mode = mode,
                                 .dtype = dtype,
                                 .n_heads = 6,
                                 .n_kv_heads = 2,
                                 .head_dim = 40,
                                 .v_head_dim = 24,
                                 .n_segments = sizeof segments / sizeof *segments,
                                 .segments = segments,
                                 .tail_rows = 5};
}

static void assert_same_on(const struct omma_attention_context *context, struct attention_case problem,
                           const struct omma_team *team, const float *expected, const char *what) {
  problem.team = team;
  float *found = attention_case_run(context, &problem);
  int64_t rows = attention_case_row(&problem, problem.n_segments) + problem.tail_rows;
  if (memcmp(found, expected, (size_t)(rows * problem.n_heads * problem.v_head_dim) * sizeof *found) != 0) {
    fail_msg("mode %d, type %d, %s of %d: other bits", (int)problem.mode, (int)problem.dtype, what, team ? team->n_workers : 1);
  }
  free(found);
}

static void any_number_of_workers_gives_the_same_bits(void **state) {
  (void)state;
  static const int sizes[] = {1, 2, 3, 4, 5, 7, 8, 13, 16};
  struct omma_attention_context *context = make_context(NULL);
  struct omma_error error;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i += test_small() ? 4 : 1) {
    struct ommai_team *team;
    assert_ok(ommai_team_create(sizes[i], false, &ommai_default_allocator, &team, &error), &error);
    for (int mode = OMMA_ATTENTION_ENCODER; mode <= OMMA_ATTENTION_DECODE; mode++) {
      for (int dtype = OMMA_F32; dtype <= (mode == OMMA_ATTENTION_ENCODER ? OMMA_F16 : OMMA_BF16); dtype++) {
        struct attention_case problem = team_case(mode, dtype);
        float *expected = attention_case_run(context, &problem);
        assert_same_on(context, problem, NULL, expected, "again");
        assert_same_on(context, problem, ommai_team_interface(team), expected, "team");
        struct omma_team backward = {.n_workers = sizes[i], .run = run_backward};
        backward.context = &backward;
        assert_same_on(context, problem, &backward, expected, "backward");
        free(expected);
      }
    }
    ommai_team_destroy(team);
  }
  omma_attention_context_destroy(context);
}

/* ---- one plan, several threads ---- */

enum { THREADS = 4, TOKENS = 400, HEADS = 4, DIM = 72, VALUES = TOKENS * HEADS * DIM };

/* A thread's own tensors and workspace, and what a run alone gave. */
struct user {
  const struct omma_attention_plan *plan;
  float *q, *k, *v, *out, *expected;
  void *workspace;
  size_t size;
  int n_runs, n_wrong;
};

static void run_once(struct user *user) {
  const struct omma_attention_tensors tensors = {.q = user->q, .k = user->k, .v = user->v, .out = user->out};
  struct omma_error error;
  if (omma_attention_run(user->plan, &tensors, user->workspace, user->size, NULL, &error) != OMMA_OK) user->n_wrong++;
}

static void *use_plan(void *argument) {
  struct user *user = argument;
  for (int i = 0; i < user->n_runs; i++) {
    memset(user->out, 0xff, VALUES * sizeof *user->out);
    run_once(user);
    if (memcmp(user->out, user->expected, VALUES * sizeof *user->out) != 0) user->n_wrong++;
  }
  return NULL;
}

static void make_user(struct user *user, const struct omma_attention_plan *plan, uint64_t seed) {
  struct test_random random = {seed};
  float *values = malloc(5 * VALUES * sizeof *values);
  for (int i = 0; i < 3 * VALUES; i++) values[i] = test_random_normal(&random);
  *user = (struct user){.plan = plan,
                        .q = values,
                        .k = values + VALUES,
                        .v = values + 2 * VALUES,
                        .out = values + 3 * VALUES,
                        .expected = values + 4 * VALUES,
                        .size = omma_attention_plan_workspace_size(plan, 1),
                        .n_runs = test_small() ? 3 : 20};
  user->workspace = aligned_alloc(64, (user->size + 63) / 64 * 64);
  run_once(user);
  memcpy(user->expected, user->out, VALUES * sizeof *user->out);
}

/* The plan lies in memory that cannot be written, so that nothing of a run can be kept in it. */
static void a_plan_serves_several_threads_at_once(void **state) {
  (void)state;
  static const int32_t borders[] = {0, 64, 64, 128, 390, 395};
  struct omma_attention_context *context = make_context(NULL);
  struct omma_attention_spec spec = {
      .n_heads = HEADS, .head_dim = DIM, .n_tokens = TOKENS, .n_segments = 5, .cu_seqlens = borders};
  struct omma_error error;
  struct omma_attention_plan *plan;
  size_t bound = omma_attention_plan_size_bound(context, &spec);
  struct guarded memory = guarded_new((bound + 4095) / 4096 * 4096, true);
  assert_ok(omma_attention_plan_place(context, &spec, memory.data, memory.size, &plan, &error), &error);
  assert_int_equal(mprotect(memory.data, memory.size, PROT_READ), 0);
  struct user users[THREADS];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) make_user(&users[i], plan, (uint64_t)i + 1);
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, use_plan, &users[i]), 0);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(users[i].n_wrong, 0);
    free(users[i].q);
    free(users[i].workspace);
  }
  omma_attention_plan_destroy(plan);
  guarded_free(&memory);
  omma_attention_context_destroy(context);
}

/* ---- memory ---- */

/* Hundreds of sizes in the memory reserved for the largest: nothing is taken from the allocator
 * after the context. */
static void nothing_is_allocated_over_many_sizes(void **state) {
  (void)state;
  enum { LARGEST = 700, N_HEADS = 2, HEAD_DIM = 24, COUNT = LARGEST * N_HEADS * HEAD_DIM };
  struct test_allocator allocator;
  test_allocator_init(&allocator);
  struct omma_attention_context *context = make_context(&allocator.interface);
  struct omma_attention_spec spec = {.n_heads = N_HEADS, .head_dim = HEAD_DIM, .n_tokens = LARGEST, .n_segments = 8};
  static const int32_t none[9];
  spec.cu_seqlens = none;
  size_t plan_bytes = omma_attention_plan_size_bound(context, &spec), bytes = omma_attention_workspace_bound(context, &spec, 1);
  struct guarded memory = guarded_new((plan_bytes + 63) / 64 * 64, true), workspace = guarded_new((bytes + 63) / 64 * 64, true);
  float *data = calloc(COUNT, sizeof *data), *out = malloc(COUNT * sizeof *out);
  const struct omma_attention_tensors tensors = {.q = data, .k = data, .v = data, .out = out};
  int64_t before = allocator.n_allocations;
  struct test_random random = {3};
  for (int round = 0; round < (test_small() ? 20 : 300); round++) {
    int32_t borders[9] = {0};
    for (int i = 0; i < 8; i++)
      borders[i + 1] = borders[i] + (int32_t)test_random_range(&random, 0, (LARGEST - borders[i]) / 2);
    struct omma_attention_plan *plan;
    struct omma_error error;
    spec.cu_seqlens = borders;
    assert_ok(omma_attention_plan_place(context, &spec, memory.data, memory.size, &plan, &error), &error);
    assert_ok(omma_attention_run(plan, &tensors, workspace.data, workspace.size, NULL, &error), &error);
    omma_attention_plan_destroy(plan);
  }
  assert_int_equal(allocator.n_allocations, before);
  free(data);
  free(out);
  guarded_free(&memory);
  guarded_free(&workspace);
  omma_attention_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_number_of_workers_gives_the_same_bits),
      cmocka_unit_test(a_plan_serves_several_threads_at_once),
      cmocka_unit_test(nothing_is_allocated_over_many_sizes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
