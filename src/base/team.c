#include "base/team.h"

#include <omma/team.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "base/cpu_room.h"
#include "base/error.h"

#if defined(__x86_64__)
#define RELAX() __builtin_ia32_pause()
#else
#define RELAX() ((void)0)
#endif

/* How long a worker looks for the next run, and the caller for the last worker, before it sleeps:
 * about the longest task of a layer, so that hardly anybody sleeps within a forward pass. To be
 * woken takes 50 us where the machine is idle and a millisecond where it is not. With fewer CPUs
 * than workers looking only takes time from whoever has the work. Under a quota of CPU time that
 * the CPUs could exceed it takes from the quota, and who has the work is stopped with the others:
 * there a worker looks no longer than a short task takes, SPIN_ALONE_NS. After that time one that
 * looks on offers its CPU to others; SPIN_ROUNDS: looks between two readings of the clock. */
enum { SPIN_NS = 1000000, SPIN_ALONE_NS = 30000, SPIN_ROUNDS = 32 };

struct worker {
  struct ommai_team *team;
  pthread_t thread;
  int index; /* worker 0 is the caller of run */
};

struct ommai_team {
  struct omma_team interface;
  struct omma_allocator allocator;
  int n_threads;
  int64_t spin_ns;
  struct worker *workers; /* [n_threads]; entry 0 has no thread */
  int n_started;

  pthread_mutex_t mutex;
  pthread_cond_t wake; /* a new run, or stop */
  pthread_cond_t idle; /* the last worker left the run */

  /* The run in progress. Written under the mutex before `generation` moves on. */
  omma_task task;
  void *task_context;
  int64_t n_tasks;
  atomic_int_fast64_t next_task;
  atomic_int n_inside; /* own threads that have not left the present run */
  atomic_uint_fast64_t generation;
  atomic_bool stop;
};

static void take_tasks(struct ommai_team *team, int worker) {
  for (;;) {
    int64_t task = atomic_fetch_add_explicit(&team->next_task, 1, memory_order_relaxed);
    if (task >= team->n_tasks) return;
    team->task(team->task_context, task, worker);
  }
}

static bool has_run(struct ommai_team *team, uint_fast64_t seen) {
  return atomic_load_explicit(&team->generation, memory_order_acquire) != seen;
}

static bool all_have_left(struct ommai_team *team, uint_fast64_t unused) {
  (void)unused;
  return atomic_load_explicit(&team->n_inside, memory_order_acquire) == 0;
}

/* Looks for a while; false where what is waited for did not come. */
static bool look_for(struct ommai_team *team, bool (*came)(struct ommai_team *, uint_fast64_t), uint_fast64_t seen) {
  if (team->spin_ns == 0) return false;
  int64_t start = ommai_clock_ns(), waited = 0;
  do {
    for (int round = 0; round < SPIN_ROUNDS; round++) {
      if (came(team, seen)) return true;
      RELAX();
    }
    waited = ommai_clock_ns() - start;
    /* whoever else wants this CPU may be the one that is waited for */
    if (waited > SPIN_ALONE_NS) sched_yield();
  } while (waited < team->spin_ns);
  return false;
}

/* Waits until the generation differs from `seen`; false when the team stops. */
static bool wait_for_run(struct ommai_team *team, uint_fast64_t seen) {
  if (look_for(team, has_run, seen)) return !atomic_load(&team->stop);
  pthread_mutex_lock(&team->mutex);
  while (!has_run(team, seen)) pthread_cond_wait(&team->wake, &team->mutex);
  pthread_mutex_unlock(&team->mutex);
  return !atomic_load(&team->stop);
}

static void *worker_main(void *argument) {
  pthread_setname_np(pthread_self(), "omma-team");
  struct worker *self = argument;
  struct ommai_team *team = self->team;
  uint_fast64_t seen = 0;
  while (wait_for_run(team, seen)) {
    seen = atomic_load_explicit(&team->generation, memory_order_acquire);
    take_tasks(team, self->index);
    if (atomic_fetch_sub_explicit(&team->n_inside, 1, memory_order_acq_rel) == 1) {
      pthread_mutex_lock(&team->mutex);
      pthread_cond_signal(&team->idle);
      pthread_mutex_unlock(&team->mutex);
    }
  }
  return NULL;
}

static void begin_generation(struct ommai_team *team) {
  pthread_mutex_lock(&team->mutex);
  atomic_fetch_add_explicit(&team->generation, 1, memory_order_release);
  pthread_cond_broadcast(&team->wake);
  pthread_mutex_unlock(&team->mutex);
}

static void team_run(void *context, int64_t n_tasks, omma_task task, void *task_context) {
  struct ommai_team *team = context;
  if (n_tasks <= 1 || team->n_threads == 1) {
    for (int64_t i = 0; i < n_tasks; i++) task(task_context, i, 0);
    return;
  }
  team->task = task;
  team->task_context = task_context;
  team->n_tasks = n_tasks;
  atomic_store_explicit(&team->next_task, 0, memory_order_relaxed);
  atomic_store_explicit(&team->n_inside, team->n_threads - 1, memory_order_relaxed);
  begin_generation(team);
  take_tasks(team, 0);
  if (look_for(team, all_have_left, 0)) return;
  pthread_mutex_lock(&team->mutex);
  while (!all_have_left(team, 0)) pthread_cond_wait(&team->idle, &team->mutex);
  pthread_mutex_unlock(&team->mutex);
}

int ommai_team_cpu_count(void) {
  struct ommai_cpu_room room;
  ommai_cpu_room_here(&room);
  return room.threads;
}

/* How long one of n_threads workers looks for what it waits for. */
static int64_t spin_time(const struct ommai_cpu_room *room, int n_threads) {
  if (n_threads > room->threads) return 0;
  return room->quota > 0 && room->quota < room->cpus ? SPIN_ALONE_NS : SPIN_NS;
}

/* The CPUs to bind threads to: one of each core where they are enough, of the fastest kind of core
 * before all; else all allowed ones. False where there are fewer than threads. */
static bool find_cpus(const struct ommai_cpu_room *room, int n_threads, cpu_set_t *cpus) {
  *cpus = room->fast_cores >= n_threads ? room->one_of_each_fast_core : room->one_of_each_core;
  if (room->cores >= n_threads) return true;
  return sched_getaffinity(0, sizeof *cpus, cpus) == 0 && CPU_COUNT(cpus) >= n_threads;
}

/* Binds own threads to the second, third, ... of these CPUs; a team larger than the machine is left
 * to the scheduler. */
static void pin_workers(struct ommai_team *team, const struct ommai_cpu_room *room) {
  cpu_set_t allowed;
  if (!find_cpus(room, team->n_threads, &allowed)) return;
  int index = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE && index < team->n_threads; cpu++) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    if (index > 0) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      pthread_setaffinity_np(team->workers[index].thread, sizeof one, &one);
    }
    index++;
  }
}

enum omma_status ommai_team_create(int n_threads, bool pin, const struct omma_allocator *allocator, struct ommai_team **out,
                                   struct omma_error *error) {
  if (n_threads < 1 || n_threads > OMMA_TEAM_MAX_THREADS) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "threads", "threads: expected 1 to %d, found %d", OMMA_TEAM_MAX_THREADS,
                            n_threads);
  }
  struct ommai_team *team = ommai_allocate(allocator, 1, sizeof *team);
  if (!team) return ommai_fail_memory(error, "thread team", sizeof *team);
  struct ommai_cpu_room room;
  ommai_cpu_room_here(&room);
  team->allocator = *allocator;
  team->n_threads = n_threads;
  team->spin_ns = spin_time(&room, n_threads);
  team->interface = (struct omma_team){team, n_threads, team_run};
  pthread_mutex_init(&team->mutex, NULL);
  pthread_cond_init(&team->wake, NULL);
  pthread_cond_init(&team->idle, NULL);
  team->workers = ommai_allocate(allocator, (size_t)n_threads, sizeof *team->workers);
  if (!team->workers) {
    ommai_team_destroy(team);
    return ommai_fail_memory(error, "thread team", (size_t)n_threads * sizeof(struct worker));
  }
  for (int i = 1; i < n_threads; i++) {
    team->workers[i] = (struct worker){.team = team, .index = i};
    if (pthread_create(&team->workers[i].thread, NULL, worker_main, &team->workers[i]) != 0) {
      ommai_team_destroy(team);
      return ommai_fail(error, OMMA_ERROR_INTERNAL, "thread team: cannot start thread %d of %d", i, n_threads);
    }
    team->n_started++;
  }
  if (pin) pin_workers(team, &room);
  *out = team;
  return OMMA_OK;
}

void ommai_team_destroy(struct ommai_team *team) {
  if (!team) return;
  atomic_store(&team->stop, true);
  begin_generation(team);
  for (int i = 1; i <= team->n_started; i++) pthread_join(team->workers[i].thread, NULL);
  pthread_mutex_destroy(&team->mutex);
  pthread_cond_destroy(&team->wake);
  pthread_cond_destroy(&team->idle);
  struct omma_allocator allocator = team->allocator;
  ommai_release(&allocator, team->workers, (size_t)team->n_threads, sizeof *team->workers);
  ommai_release(&allocator, team, 1, sizeof *team);
}

const struct omma_team *ommai_team_interface(const struct ommai_team *team) { return &team->interface; }

static void serial_run(void *context, int64_t n_tasks, omma_task task, void *task_context) {
  (void)context;
  for (int64_t i = 0; i < n_tasks; i++) task(task_context, i, 0);
}

const struct omma_team ommai_serial_team = {NULL, 1, serial_run};

void ommai_team_run(const struct omma_team *team, int64_t n_tasks, omma_task task, void *context) {
  if (!team) team = &ommai_serial_team;
  team->run(team->context, n_tasks, task, context);
}
