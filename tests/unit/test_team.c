/* The public teams: every task once, worker numbers in range, fewer threads than asked for,
 * refusals, failing allocations. */
#include <omma/team.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/allocator.h"
#include "base/cpu_room.h"
#include "base/team.h"
#include "support/test.h"

enum { N_TASKS = 1000, MAX_WORKERS = 4 };

struct tally {
  int counts[N_TASKS];
  int inside[MAX_WORKERS]; /* running tasks per worker: two at once would share scratch memory */
  int bad_workers;
};

static void tally_task(void *context, int64_t task, int worker) {
  struct tally *tally = context;
  if (worker < 0 || worker >= MAX_WORKERS || __atomic_fetch_add(&tally->inside[worker], 1, __ATOMIC_SEQ_CST) != 0) {
    __atomic_fetch_add(&tally->bad_workers, 1, __ATOMIC_SEQ_CST);
    return;
  }
  tally->counts[task]++;
  __atomic_fetch_sub(&tally->inside[worker], 1, __ATOMIC_SEQ_CST);
}

static void check_team(const struct omma_team *team) {
  for (int64_t n_tasks = 0; n_tasks <= N_TASKS; n_tasks += n_tasks < 3 ? 1 : 331) {
    struct tally tally = {0};
    team->run(team->context, n_tasks, tally_task, &tally);
    assert_int_equal(tally.bad_workers, 0);
    for (int64_t task = 0; task < N_TASKS; task++) assert_int_equal(tally.counts[task], task < n_tasks);
  }
}

static void pool_runs_each_task_once(void **state) {
  (void)state;
  struct omma_error error;
  const struct omma_team *team;
  for (int n_threads = 1; n_threads <= MAX_WORKERS; n_threads++) {
    assert_ok(omma_team_create(n_threads, n_threads % 2, NULL, &team, &error), &error);
    assert_int_equal(team->n_workers, n_threads);
    check_team(team);
    omma_team_destroy(team);
  }
  omma_team_destroy(NULL);
  assert_true(omma_team_cpu_count() >= 1);
}

static enum omma_status make_and_destroy(const struct omma_allocator *allocator, struct omma_error *error) {
  const struct omma_team *team = NULL;
  enum omma_status status = omma_team_create(2, false, allocator, &team, error);
  if (status == OMMA_OK) omma_team_destroy(team);
  return status;
}

static void pool_refuses_and_survives(void **state) {
  (void)state;
  struct omma_error error;
  const struct omma_team *team;
  assert_fails(omma_team_create(0, false, NULL, &team, &error), OMMA_ERROR_ARGUMENT, "threads: expected 1 to 1024, found 0",
               &error);
  assert_fails(omma_team_create(1025, false, NULL, &team, &error), OMMA_ERROR_ARGUMENT, "found 1025", &error);
  assert_fails(omma_team_create(1, false, NULL, NULL, &error), OMMA_ERROR_ARGUMENT, "team: expected a pointer", &error);
  test_fail_every_allocation(make_and_destroy, 11);
}

/* Some more work each time, so that workers and caller end in all orders. */
static void count_task(void *context, int64_t task, int worker) {
  (void)worker;
  int64_t n = __atomic_fetch_add((int64_t *)context, 1, __ATOMIC_RELAXED);
  for (volatile int64_t left = (n + task) % 256; left > 0; left--) continue;
}

/* More threads than CPUs go to sleep at once: whoever falls asleep just as the others are done is
 * woken. */
static void no_one_sleeps_on(void **state) {
  (void)state;
  struct omma_error error;
  const struct omma_team *team;
  const int64_t n_runs = test_small() ? 20000 : 50000;
  int64_t count = 0;
  int n_threads = omma_team_cpu_count() + 1;
  assert_ok(omma_team_create(n_threads, false, NULL, &team, &error), &error);
  for (int64_t run = 0; run < n_runs; run++) team->run(team->context, n_threads, count_task, &count);
  assert_int_equal(count, n_runs * n_threads);
  omma_team_destroy(team);
}

struct places {
  cpu_set_t of[MAX_WORKERS];
  atomic_int n_seen;
};

/* Each worker has one task: none ends before all have begun. */
static void note_place(void *context, int64_t task, int worker) {
  struct places *places = context;
  (void)task;
  pthread_getaffinity_np(pthread_self(), sizeof places->of[worker], &places->of[worker]);
  atomic_fetch_add(&places->n_seen, 1);
  while (atomic_load(&places->n_seen) < 2) sched_yield();
}

/* Where there is a thread for each CPU, nobody is on the caller's. */
static void a_bound_caller_has_a_cpu_of_its_own(void **state) {
  (void)state;
  struct omma_error error;
  struct ommai_team *team;
  struct places places = {.n_seen = 0};
  cpu_set_t all, before, now, both;
  assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
  assert_false(ommai_team_bind_caller(1, &before));
  if (CPU_COUNT(&all) < 2) skip_because("one CPU");
  CPU_ZERO(&both); /* of a machine of two */
  for (int cpu = 0; CPU_COUNT(&both) < 2; cpu++) {
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &both);
  }
  ommai_cpu_bind(&both, &before);
  assert_false(ommai_team_bind_caller(3, &now));
  assert_ok(ommai_team_create(2, true, &ommai_default_allocator, &team, &error), &error);
  assert_true(ommai_team_bind_caller(2, &now));
  assert_true(CPU_EQUAL(&now, &both));
  ommai_team_run(ommai_team_interface(team), 2, note_place, &places);
  ommai_team_destroy(team);
  ommai_cpu_bind(&before, &now);
  assert_true(CPU_EQUAL(&now, &places.of[0]));
  assert_int_equal(CPU_COUNT(&places.of[0]), 1);
  assert_int_equal(CPU_COUNT(&places.of[1]), 1);
  assert_false(CPU_EQUAL(&places.of[0], &places.of[1]));
}

struct body_call {
  void (*body)(void *);
  void *data;
};

static void *call_body(void *argument) {
  struct body_call *call = argument;
  call->body(call->data);
  return NULL;
}

/* GOMP_parallel as its contract has it. */
static void threads_parallel(void (*body)(void *), void *data, unsigned n_threads, unsigned flags) {
  (void)flags;
  pthread_t threads[MAX_WORKERS];
  struct body_call call = {body, data};
  for (unsigned i = 1; i < n_threads; i++) assert_int_equal(pthread_create(&threads[i], NULL, call_body, &call), 0);
  body(data);
  for (unsigned i = 1; i < n_threads; i++) pthread_join(threads[i], NULL);
}

/* What a runtime does inside another parallel region. */
static void lonely_parallel(void (*body)(void *), void *data, unsigned n_threads, unsigned flags) {
  (void)n_threads, (void)flags;
  body(data);
}

static void openmp_runs_each_task_once(void **state) {
  (void)state;
  struct omma_error error;
  struct omma_openmp_team team;
  for (int n_threads = 1; n_threads <= MAX_WORKERS; n_threads++) {
    assert_ok(omma_openmp_team_init(&team, threads_parallel, n_threads, &error), &error);
    assert_int_equal(team.team.n_workers, n_threads);
    check_team(&team.team);
    assert_ok(omma_openmp_team_init(&team, lonely_parallel, n_threads, &error), &error);
    check_team(&team.team);
  }
  assert_fails(omma_openmp_team_init(&team, NULL, 1, &error), OMMA_ERROR_ARGUMENT, "parallel: expected a pointer", &error);
  assert_fails(omma_openmp_team_init(NULL, lonely_parallel, 1, &error), OMMA_ERROR_ARGUMENT, "team: expected a pointer",
               &error);
  assert_fails(omma_openmp_team_init(&team, lonely_parallel, 0, &error), OMMA_ERROR_ARGUMENT, "expected 1 to 1024, found 0",
               &error);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pool_runs_each_task_once),
      cmocka_unit_test(pool_refuses_and_survives),
      cmocka_unit_test(no_one_sleeps_on),
      cmocka_unit_test(a_bound_caller_has_a_cpu_of_its_own),
      cmocka_unit_test(openmp_runs_each_task_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
