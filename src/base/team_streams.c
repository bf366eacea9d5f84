#include "base/team_streams.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "base/team.h"

enum { MAX_PARTS = 64, CACHE_LINE = 64 };

/* Tasks [begin, end) that nobody took yet: begin in the high half. Tasks only ever leave a part, so
 * an empty one stays so. */
struct part {
  _Alignas(CACHE_LINE) atomic_uint_fast64_t left;
};

struct streams {
  struct part parts[MAX_PARTS];
  int n_parts; /* workers beyond take turns in them */
  omma_task task;
  void *context;
};

static uint_fast64_t range_of(int64_t begin, int64_t end) { return (uint_fast64_t)begin << 32 | (uint_fast64_t)end; }

/* The first or last task of a part; -1: there is none. */
static int64_t take(struct part *part, bool first) {
  uint_fast64_t left = atomic_load_explicit(&part->left, memory_order_relaxed);
  for (;;) {
    int64_t begin = (int64_t)(left >> 32), end = (int64_t)(left & UINT32_MAX);
    if (begin == end) return -1;
    uint_fast64_t rest = first ? range_of(begin + 1, end) : range_of(begin, end - 1);
    if (atomic_compare_exchange_weak_explicit(&part->left, &left, rest, memory_order_relaxed, memory_order_relaxed)) {
      return first ? begin : end - 1;
    }
  }
}

/* There is a task for each call: as many are made as there are tasks, and each takes one. */
static void run_one(void *context, int64_t call, int worker) {
  struct streams *streams = context;
  int own = worker % streams->n_parts;
  int64_t task = take(&streams->parts[own], true);
  (void)call;
  for (int other = own + 1; task < 0; other++) task = take(&streams->parts[other % streams->n_parts], false);
  streams->task(streams->context, task, worker);
}

void ommai_team_run_streams(const struct omma_team *team, int64_t n_tasks, omma_task task, void *context) {
  struct streams streams;
  if (!team || team->n_workers == 1 || n_tasks < 2 || n_tasks > UINT32_MAX) {
    ommai_team_run(team, n_tasks, task, context);
    return;
  }
  streams.n_parts = team->n_workers < MAX_PARTS ? team->n_workers : MAX_PARTS;
  streams.task = task;
  streams.context = context;
  for (int64_t i = 0; i < streams.n_parts; i++) {
    atomic_init(&streams.parts[i].left, range_of(i * n_tasks / streams.n_parts, (i + 1) * n_tasks / streams.n_parts));
  }
  ommai_team_run(team, n_tasks, run_one, &streams);
}
