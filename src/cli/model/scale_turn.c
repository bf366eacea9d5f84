#include "cli/model/scale_turn.h"

#include <omma/omma.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/clock.h"
#include "cli/core/diagnostics.h"

enum { READ_BYTES = 1 << 28, BLOCK_BYTES = 1 << 15, LINE_WORDS = 8, AHEAD_BYTES = 1 << 13 };

int ommai_scale_reading_create(struct ommai_scale_reading *reading) {
  reading->memory = ommai_allocate_uninitialised(&ommai_huge_page_allocator, READ_BYTES, 1);
  if (!reading->memory) return ommai_failed("bench scale: out of memory: %d bytes to read", READ_BYTES);
  memset(reading->memory, 1, READ_BYTES); /* pages that never were written are all one */
  return OMMAI_EXIT_DONE;
}

void ommai_scale_reading_release(struct ommai_scale_reading *reading) {
  ommai_release(&ommai_huge_page_allocator, reading->memory, READ_BYTES, 1);
  *reading = (struct ommai_scale_reading){0};
}

/* A run's tasks are cut into as many pieces at most, in each of which every worker has a turn: what
 * neighbouring tasks share, such as weights, lies in a cache of all then as when they run
 * together. */
enum { MAX_PIECES = 16 };

/* After that time one that waits for its turn offers its CPU to others: of which one may be whose
 * turn it is. */
enum { SPIN_NS = 1000000 };

struct turns {
  omma_task task;
  void *context;
  int64_t n_tasks;
  int n_workers;
  const struct ommai_scale_reading *reading;
  double *seconds;
  int n_pieces;
  atomic_int n_there, turn;
  atomic_int_fast64_t waited_ns, n_read;
};

/* A word of each line; those that follow are on their way between blocks too. */
static void read_block(const struct ommai_scale_reading *reading, size_t offset) {
  const volatile uint64_t *words = reading->memory + offset / sizeof(uint64_t);
  for (size_t i = 0; i < BLOCK_BYTES / sizeof(uint64_t); i += LINE_WORDS) {
    __builtin_prefetch((const char *)(words + i) + AHEAD_BYTES);
    (void)words[i];
  }
}

/* Until that turn. Goes on reading where it left off. */
static void wait_for_turn(struct turns *turns, int worker, int turn, size_t *n_read) {
  const struct ommai_scale_reading *reading = turns->reading;
  int64_t start = ommai_clock_ns();
  size_t first = *n_read, own = READ_BYTES / (size_t)turns->n_workers * (size_t)worker / BLOCK_BYTES * BLOCK_BYTES;
  while (atomic_load(&turns->turn) < turn) {
    int64_t waited = ommai_clock_ns() - start;
    if (waited > SPIN_NS) sched_yield();
    if (reading->gbps * (double)waited <= (double)(*n_read - first)) continue;
    read_block(reading, (own + *n_read) % READ_BYTES);
    *n_read += BLOCK_BYTES;
  }
  atomic_fetch_add(&turns->waited_ns, ommai_clock_ns() - start);
  atomic_fetch_add(&turns->n_read, (int64_t)(*n_read - first));
}

/* One for each worker: none ends before all have begun. */
static void take_turns(void *context, int64_t share, int worker) {
  static _Thread_local size_t n_read;
  struct turns *turns = context;
  int64_t n = turns->n_workers, next = worker;
  (void)share;
  atomic_fetch_add(&turns->n_there, 1);
  while (atomic_load(&turns->n_there) < turns->n_workers) sched_yield();
  for (int piece = 0; piece < turns->n_pieces; piece++) {
    int64_t end = (piece + 1) * turns->n_tasks / turns->n_pieces;
    wait_for_turn(turns, worker, piece * turns->n_workers + worker, &n_read);
    int64_t before = ommai_clock_ns();
    for (; next < end; next += n) {
      turns->task(turns->context, next, worker);
      int64_t now = ommai_clock_ns();
      turns->seconds[next] = (double)(now - before) * 1e-9;
      before = now;
    }
    atomic_fetch_add(&turns->turn, 1);
  }
  wait_for_turn(turns, worker, turns->n_pieces * turns->n_workers, &n_read);
}

struct ommai_scale_waiting ommai_scale_run_in_turn(const struct omma_team *team, int64_t n_tasks, omma_task task, void *context,
                                                   const struct ommai_scale_reading *reading, double *seconds) {
  int64_t each = ommai_max_i64(n_tasks / team->n_workers, 1);
  struct turns turns = {.task = task,
                        .context = context,
                        .n_tasks = n_tasks,
                        .n_workers = team->n_workers,
                        .reading = reading,
                        .seconds = seconds,
                        .n_pieces = (int)ommai_min_i64(each, MAX_PIECES)};
  team->run(team->context, team->n_workers, take_turns, &turns);
  return (struct ommai_scale_waiting){(double)turns.waited_ns * 1e-9, (double)turns.n_read};
}
