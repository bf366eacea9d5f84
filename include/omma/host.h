/* What the host program may lend to the library: memory and threads. Both are optional; NULL means
 * the library's own. */
#ifndef OMMA_HOST_H
#define OMMA_HOST_H

#include <omma/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An allocator. `allocate` returns `size` bytes aligned to `alignment` (a power of two, 64 or
 * more), or NULL. `release` gets the same pointer and size back and is never called with NULL. Both
 * must be thread-safe. The library copies the struct; `context` must outlive every object made with
 * it. */
struct omma_allocator {
  void *context;
  void *(*allocate)(void *context, size_t size, size_t alignment);
  void (*release)(void *context, void *pointer, size_t size);
};

/* One task of a team's run: `task` in [0, n_tasks), `worker` in [0, n_workers). Two tasks that run
 * at the same time never have the same worker index, so scratch memory can be one block per
 * worker. */
typedef void (*omma_task)(void *context, int64_t task, int worker);

/* A thread pool. `run` executes every task exactly once, in any order, on any of its workers, and
 * returns when all are done. No task of the library waits for another task, so a team of one worker
 * (a plain loop) and nested teams work too. Results never depend on the team: what is summed is cut
 * by the shape of the problem alone. */
struct omma_team {
  void *context;
  int n_workers; /* 1 or more */
  void (*run)(void *context, int64_t n_tasks, omma_task task, void *task_context);
};

#ifdef __cplusplus
}
#endif

#endif
