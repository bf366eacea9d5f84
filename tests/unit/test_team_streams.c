/* Tasks over a stream: each once, a worker's own in rising order, others' from their ends, on teams
 * of every kind. */
#include <omma/team.h>

#include "base/team_streams.h"
#include "support/test.h"

enum { MAX_TASKS = 1000 };

/* The tasks in the order in which a worker took them. */
struct record {
  int64_t tasks[MAX_TASKS];
  int workers[MAX_TASKS];
  int64_t n;
};

static void record_task(void *context, int64_t task, int worker) {
  struct record *record = context;
  int64_t at = __atomic_fetch_add(&record->n, 1, __ATOMIC_SEQ_CST);
  assert_true(at < MAX_TASKS);
  record->tasks[at] = task;
  record->workers[at] = worker;
}

static void check_each_once(const struct record *record, int64_t n_tasks) {
  int counts[MAX_TASKS] = {0};
  assert_int_equal(record->n, n_tasks);
  for (int64_t i = 0; i < n_tasks; i++) counts[record->tasks[i]]++;
  for (int64_t i = 0; i < n_tasks; i++) assert_int_equal(counts[i], 1);
}

/* A team that calls the worker that its script names, and then worker 0. */
struct scripted {
  const int *workers;
  int64_t n;
};

static void run_scripted(void *context, int64_t n_tasks, omma_task task, void *task_context) {
  const struct scripted *script = context;
  for (int64_t i = 0; i < n_tasks; i++) task(task_context, i, i < script->n ? script->workers[i] : 0);
}

static void workers_walk_through_their_parts(void **state) {
  (void)state;
  static const int workers[] = {1, 0, 1, 1, 0, 2, 2};
  static const int64_t expected[] = {3, 0, 4, 5, 1,
                                     /* of parts 0 to 2, 3 to 5, 6 to 9; 0 ends on the others'
                                      * last */
                                     6, 7, 2, 9, 8};
  struct scripted script = {workers, sizeof workers / sizeof *workers};
  const struct omma_team team = {&script, 3, run_scripted};
  struct record record = {.n = 0};
  ommai_team_run_streams(&team, 10, record_task, &record);
  check_each_once(&record, 10);
  for (int i = 0; i < 10; i++) assert_int_equal(record.tasks[i], expected[i]);
}

static void any_team_runs_each_task_once(void **state) {
  (void)state;
  struct omma_error error;
  static const int crowd[] = {99, 63, 64, 0, 35, 99, 1};
  struct scripted script = {crowd, sizeof crowd / sizeof *crowd};
  const struct omma_team many = {&script, 100, run_scripted};
  const struct omma_team *team;
  assert_ok(omma_team_create(3, false, NULL, &team, &error), &error);
  for (int64_t n_tasks = 0; n_tasks <= MAX_TASKS; n_tasks += n_tasks < 5 ? 1 : 199) {
    const struct omma_team *teams[] = {NULL, team, &many};
    for (int i = 0; i < 3; i++) {
      struct record record = {.n = 0};
      ommai_team_run_streams(teams[i], n_tasks, record_task, &record);
      check_each_once(&record, n_tasks);
    }
  }
  omma_team_destroy(team);
}

static void one_worker_goes_in_order(void **state) {
  (void)state;
  struct record record = {.n = 0};
  ommai_team_run_streams(NULL, 7, record_task, &record);
  for (int i = 0; i < 7; i++) assert_int_equal(record.tasks[i], i);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(workers_walk_through_their_parts),
      cmocka_unit_test(any_team_runs_each_task_once),
      cmocka_unit_test(one_worker_goes_in_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
