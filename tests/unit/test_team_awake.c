/* Runs of the thread pool while all workers are awake take no mutex: the linker leads calls of
 * pthread_mutex_lock here (--wrap in tests/CMakeLists.txt), where they are counted. */
#include <omma/team.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/cpu_room.h"
#include "support/test.h"

static atomic_int n_locks;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex) {
  atomic_fetch_add(&n_locks, 1);
  return __real_pthread_mutex_lock(mutex);
}

/* Under load a worker may wait longer for a CPU than others look for work: then somebody sleeps,
 * and a run takes a mutex. So there are rounds until that did not happen in enough of them; if runs
 * always took one, it would happen in each. */
enum { RUNS = 500, ROUNDS = 10, SECONDS = 120 };

static void count_task(void *context, int64_t task, int worker) {
  (void)task, (void)worker;
  atomic_fetch_add_explicit((atomic_llong *)context, 1, memory_order_relaxed);
}

static int locks_of_runs(const struct omma_team *team) {
  atomic_llong n_done = 0;
  int before = atomic_load(&n_locks);
  for (int run = 0; run < RUNS; run++) team->run(team->context, team->n_workers, count_task, &n_done);
  assert_int_equal(n_done, (long long)RUNS * team->n_workers);
  return atomic_load(&n_locks) - before;
}

static void no_mutex_while_all_are_awake(void **state) {
  (void)state;
  enum { THREADS = 2 };
  struct omma_error error;
  const struct omma_team *team;
  int n_awake = 0;
  double end = ommai_clock_seconds() + SECONDS;
  if (omma_team_cpu_count() < THREADS) skip_because("one CPU: workers sleep at once");
  assert_ok(omma_team_create(THREADS, true, NULL, &team, &error), &error);
  while (n_awake < ROUNDS && ommai_clock_seconds() < end) n_awake += locks_of_runs(team) == 0;
  assert_int_equal(n_awake, ROUNDS);
  /* Whoever has looked for long enough sleeps, which is counted. */
  int before = atomic_load(&n_locks);
  while (atomic_load(&n_locks) == before && ommai_clock_seconds() < end) sched_yield();
  assert_true(atomic_load(&n_locks) > before);
  omma_team_destroy(team);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(no_mutex_while_all_are_awake)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
