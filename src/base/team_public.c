/* The teams of <omma/team.h>: the pool under its public name, and one on a host's OpenMP
 * runtime. */
#include <omma/team.h>
#include <stdatomic.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/team.h"

int omma_team_cpu_count(void) { return ommai_team_cpu_count(); }

enum omma_status omma_team_create(int n_threads, bool pin, const struct omma_allocator *allocator,
                                  const struct omma_team **team, struct omma_error *error) {
  if (!team) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "team", "team: expected a pointer, found NULL");
  struct ommai_team *pool;
  OMMAI_TRY(ommai_team_create(n_threads, pin, allocator ? allocator : &ommai_default_allocator, &pool, error));
  *team = ommai_team_interface(pool);
  return OMMA_OK;
}

void omma_team_destroy(const struct omma_team *team) {
  if (team) ommai_team_destroy(team->context);
}

/* One run on OpenMP threads. They take worker numbers as they arrive: a runtime may give fewer
 * threads than it was asked for, and its own numbering is another entry to look up. */
struct openmp_run {
  omma_task task;
  void *task_context;
  int64_t n_tasks;
  atomic_int_fast64_t next_task;
  atomic_int next_worker;
};

static void openmp_body(void *data) {
  struct openmp_run *run = data;
  int worker = atomic_fetch_add_explicit(&run->next_worker, 1, memory_order_relaxed);
  for (;;) {
    int64_t task = atomic_fetch_add_explicit(&run->next_task, 1, memory_order_relaxed);
    if (task >= run->n_tasks) return;
    run->task(run->task_context, task, worker);
  }
}

static void openmp_run(void *context, int64_t n_tasks, omma_task task, void *task_context) {
  const struct omma_openmp_team *team = context;
  struct openmp_run run = {.task = task, .task_context = task_context, .n_tasks = n_tasks};
  if (n_tasks <= 1 || team->team.n_workers == 1) {
    openmp_body(&run);
  } else {
    team->parallel(openmp_body, &run, (unsigned)team->team.n_workers, 0);
  }
}

enum omma_status omma_openmp_team_init(struct omma_openmp_team *team, omma_openmp_parallel parallel, int n_threads,
                                       struct omma_error *error) {
  if (!team || !parallel) {
    const char *missing = team ? "parallel" : "team";
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, missing, "%s: expected a pointer, found NULL", missing);
  }
  if (n_threads < 1 || n_threads > OMMA_TEAM_MAX_THREADS) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "threads", "threads: expected 1 to %d, found %d", OMMA_TEAM_MAX_THREADS,
                            n_threads);
  }
  *team = (struct omma_openmp_team){.team = {team, n_threads, openmp_run}, .parallel = parallel};
  return OMMA_OK;
}
