/* Two teams (thread pools) for callers of the operator that have none of their own: the library's
 * pool, and the OpenMP runtime that the host program already has. Results are the same bits on
 * either, and on any number of workers. */
#ifndef OMMA_TEAM_H
#define OMMA_TEAM_H

#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OMMA_TEAM_MAX_THREADS 1024

/* Threads that compute at the same time here: the least of the CPUs in the affinity mask of the
 * calling thread, their physical cores, and the quota of the control groups (cgroups); at least
 * 1. */
OMMA_API int omma_team_cpu_count(void);

/* Creates a pool of n_threads workers: n_threads - 1 threads of its own and the calling thread of
 * each run. With `pin`, its own threads are bound to distinct CPUs of the affinity mask.
 * `allocator` NULL: the C library's. Any thread may call `run`, but only one run may be in progress
 * at a time: the callers must ensure this. After a run the threads spin for a millisecond, then
 * sleep; a pool with more workers than CPUs sleeps at once. A child made by fork() does not have
 * these threads and must not use or destroy its parent's pool. The caller destroys the team.
 * Errors: ARGUMENT (n_threads not in 1 .. OMMA_TEAM_MAX_THREADS), MEMORY, INTERNAL (a thread cannot
 * be started). */
OMMA_API enum omma_status omma_team_create(int n_threads, bool pin, const struct omma_allocator *allocator,
                                           const struct omma_team **team, struct omma_error *error);
/* Destroys a team made by omma_team_create. No run may be in progress. NULL is allowed. */
OMMA_API void omma_team_destroy(const struct omma_team *team);

/* The entry `GOMP_parallel` of an OpenMP runtime. It calls body(data) on up to n_threads threads at
 * once, the caller among them, and returns when all calls have returned. GNU's libgomp and LLVM's
 * and Intel's libomp export it under this name. */
typedef void (*omma_openmp_parallel)(void (*body)(void *data), void *data, unsigned n_threads, unsigned flags);

/* A team on the host's OpenMP threads. It is for programs whose own OpenMP threads spin between
 * regions and would take the CPUs from a second pool. The caller owns the struct and must not move
 * it while `team` is in use; nothing needs destruction. Any number of threads may run on it at the
 * same time. */
struct omma_openmp_team {
  struct omma_team team;
  omma_openmp_parallel parallel;
};
/* Fills `team`. The caller looks `parallel` up (by dlsym, for example), so that the library needs
 * no OpenMP. The runtime may use fewer threads than n_threads, as it does inside another parallel
 * region. Errors: ARGUMENT (parallel NULL, n_threads not in 1 .. OMMA_TEAM_MAX_THREADS). */
OMMA_API enum omma_status omma_openmp_team_init(struct omma_openmp_team *team, omma_openmp_parallel parallel, int n_threads,
                                                struct omma_error *error);

#ifdef __cplusplus
}
#endif

#endif
