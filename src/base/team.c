#include "base/team.h"

#include <omma/team.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/allocator.h"
#include "base/checked.h"
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

/* Workers are groups of neighbours, as they are bound to neighbouring CPUs, which mostly share a
 * cache. A line of memory that many write to and read is one of a group. */
enum { CACHE_LINE = 64 };

struct worker {
  struct ommai_team *team;
  struct group *group;
  pthread_t thread;
  int index; /* worker 0 is the caller of run */
};

struct group {
  /* Moves on for each run that has tasks for the group, and to stop. Workers look at it. */
  _Alignas(CACHE_LINE) atomic_uint_fast64_t generation;
  _Alignas(CACHE_LINE) atomic_int_fast64_t n_taken; /* of the group's tasks */
  _Alignas(CACHE_LINE) atomic_int n_inside;         /* own threads in the run */
  atomic_int n_sleeping;
  int n_own; /* threads, without the caller */
  pthread_mutex_t mutex;
  pthread_cond_t wake;
};

struct ommai_team {
  struct omma_team interface;
  struct omma_allocator allocator;
  int n_threads;
  int64_t spin_ns;
  struct worker *workers; /* [n_threads]; entry 0 has no thread */
  struct group *groups;   /* [n_groups] */
  int n_groups;
  int n_started;

  /* The run in progress. Written before generations move on. Group g of those with tasks has tasks
   * g, g + n_used, g + 2 n_used, ... */
  omma_task task;
  void *task_context;
  int64_t n_tasks;
  int n_used;
  bool stop;

  _Alignas(CACHE_LINE) atomic_int groups_inside;
  atomic_bool caller_sleeps;
  pthread_mutex_t mutex;
  pthread_cond_t idle; /* the last group left the run */
};

/* The tasks of a group that are left. */
static void take_tasks_of(struct ommai_team *team, int g, int worker) {
  struct group *group = &team->groups[g];
  /* looked at first: to add to a counter takes its line from those who have tasks left */
  while (g + atomic_load_explicit(&group->n_taken, memory_order_relaxed) * team->n_used < team->n_tasks) {
    int64_t task = g + atomic_fetch_add_explicit(&group->n_taken, 1, memory_order_relaxed) * team->n_used;
    if (task >= team->n_tasks) return;
    team->task(team->task_context, task, worker);
  }
}

/* Those of the worker's own group, then of the others. */
static void take_tasks(struct ommai_team *team, int own, int worker) {
  for (int i = 0; i < team->n_used; i++) take_tasks_of(team, (own + i) % team->n_used, worker);
}

static bool has_run(void *group, uint_fast64_t seen) { return atomic_load(&((struct group *)group)->generation) != seen; }

static bool all_have_left(void *team, uint_fast64_t unused) {
  (void)unused;
  return atomic_load(&((struct ommai_team *)team)->groups_inside) == 0;
}

/* Looks for a while; false where what is waited for did not come. */
static bool look_for(int64_t spin_ns, bool (*came)(void *, uint_fast64_t), void *where, uint_fast64_t seen) {
  if (spin_ns == 0) return false;
  int64_t start = ommai_clock_ns(), waited = 0;
  do {
    for (int round = 0; round < SPIN_ROUNDS; round++) {
      if (came(where, seen)) return true;
      RELAX();
    }
    waited = ommai_clock_ns() - start;
    /* whoever else wants this CPU may be the one that is waited for */
    if (waited > SPIN_ALONE_NS) sched_yield();
  } while (waited < spin_ns);
  return false;
}

/* Waits until the generation differs from `seen`, and returns it. One that goes to sleep says so
 * and looks again; who begins a run does the reverse. So one of the two sees the other, and nobody
 * takes the mutex while all are awake. */
static uint_fast64_t wait_for_run(struct ommai_team *team, struct group *group, uint_fast64_t seen) {
  if (!look_for(team->spin_ns, has_run, group, seen)) {
    pthread_mutex_lock(&group->mutex);
    atomic_fetch_add(&group->n_sleeping, 1);
    while (!has_run(group, seen)) pthread_cond_wait(&group->wake, &group->mutex);
    atomic_fetch_sub(&group->n_sleeping, 1);
    pthread_mutex_unlock(&group->mutex);
  }
  return atomic_load(&group->generation);
}

static void begin_generation(struct group *group) {
  atomic_fetch_add(&group->generation, 1);
  if (atomic_load(&group->n_sleeping) == 0) return;
  pthread_mutex_lock(&group->mutex);
  pthread_cond_broadcast(&group->wake);
  pthread_mutex_unlock(&group->mutex);
}

/* The last of a group speaks for it, the last group for all. */
static void leave_run(struct ommai_team *team, struct group *group) {
  if (atomic_fetch_sub(&group->n_inside, 1) != 1 || atomic_fetch_sub(&team->groups_inside, 1) != 1) return;
  if (!atomic_load(&team->caller_sleeps)) return;
  pthread_mutex_lock(&team->mutex);
  pthread_cond_signal(&team->idle);
  pthread_mutex_unlock(&team->mutex);
}

static void *worker_main(void *argument) {
  pthread_setname_np(pthread_self(), "omma-team");
  struct worker *self = argument;
  struct ommai_team *team = self->team;
  uint_fast64_t seen = 0;
  for (;;) {
    seen = wait_for_run(team, self->group, seen);
    if (team->stop) return NULL;
    take_tasks(team, (int)(self->group - team->groups), self->index);
    leave_run(team, self->group);
  }
}

static void wait_for_all(struct ommai_team *team) {
  if (look_for(team->spin_ns, all_have_left, team, 0)) return;
  pthread_mutex_lock(&team->mutex);
  /* Exchanged, not stored: emulators of ARM on x86 let the look that follows overtake a store. */
  atomic_exchange(&team->caller_sleeps, true);
  while (!all_have_left(team, 0)) pthread_cond_wait(&team->idle, &team->mutex);
  atomic_store(&team->caller_sleeps, false);
  pthread_mutex_unlock(&team->mutex);
}

/* Groups for which there is no task are left asleep. */
static void team_run(void *context, int64_t n_tasks, omma_task task, void *task_context) {
  struct ommai_team *team = context;
  if (n_tasks <= 1 || team->n_threads == 1) {
    for (int64_t i = 0; i < n_tasks; i++) task(task_context, i, 0);
    return;
  }
  team->task = task;
  team->task_context = task_context;
  team->n_tasks = n_tasks;
  team->n_used = (int)ommai_min_i64(ommai_div_up(n_tasks, OMMAI_TEAM_GROUP), team->n_groups);
  atomic_store_explicit(&team->groups_inside, team->n_used, memory_order_relaxed);
  for (int g = 0; g < team->n_used; g++) {
    atomic_store_explicit(&team->groups[g].n_taken, 0, memory_order_relaxed);
    atomic_store_explicit(&team->groups[g].n_inside, team->groups[g].n_own, memory_order_relaxed);
  }
  for (int g = 0; g < team->n_used; g++) begin_generation(&team->groups[g]);
  take_tasks(team, 0, 0);
  wait_for_all(team);
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

bool ommai_team_bind_caller(int n_threads, cpu_set_t *before) {
  struct ommai_cpu_room room;
  cpu_set_t cpus, first;
  ommai_cpu_room_here(&room);
  if (n_threads == 1 || !find_cpus(&room, n_threads, &cpus) || CPU_COUNT(&cpus) != n_threads) return false;
  int cpu = 0;
  while (!CPU_ISSET(cpu, &cpus)) cpu++;
  CPU_ZERO(&first);
  CPU_SET(cpu, &first);
  ommai_cpu_bind(&first, before);
  return true;
}

/* Memory and what workers wait with; threads are not started yet. */
static bool make_groups(struct ommai_team *team) {
  team->n_groups = (int)ommai_div_up(team->n_threads, OMMAI_TEAM_GROUP);
  team->workers = ommai_allocate(&team->allocator, (size_t)team->n_threads, sizeof *team->workers);
  team->groups = ommai_allocate(&team->allocator, (size_t)team->n_groups, sizeof *team->groups);
  if (!team->workers || !team->groups) return false;
  for (int g = 0; g < team->n_groups; g++) {
    pthread_mutex_init(&team->groups[g].mutex, NULL);
    pthread_cond_init(&team->groups[g].wake, NULL);
  }
  for (int i = 1; i < team->n_threads; i++) {
    struct group *group = &team->groups[i / OMMAI_TEAM_GROUP];
    team->workers[i] = (struct worker){.team = team, .group = group, .index = i};
    group->n_own++;
  }
  return true;
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
  pthread_cond_init(&team->idle, NULL);
  if (!make_groups(team)) {
    ommai_team_destroy(team);
    return ommai_fail_memory(error, "thread team", (size_t)n_threads * sizeof(struct worker));
  }
  for (int i = 1; i < n_threads; i++) {
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
  bool made = team->workers && team->groups;
  team->stop = true;
  for (int g = 0; g < team->n_groups && made; g++) begin_generation(&team->groups[g]);
  for (int i = 1; i <= team->n_started; i++) pthread_join(team->workers[i].thread, NULL);
  for (int g = 0; g < team->n_groups && made; g++) {
    pthread_mutex_destroy(&team->groups[g].mutex);
    pthread_cond_destroy(&team->groups[g].wake);
  }
  pthread_mutex_destroy(&team->mutex);
  pthread_cond_destroy(&team->idle);
  struct omma_allocator allocator = team->allocator;
  ommai_release(&allocator, team->workers, (size_t)team->n_threads, sizeof *team->workers);
  ommai_release(&allocator, team->groups, (size_t)team->n_groups, sizeof *team->groups);
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
