#include "engine/mask_worker.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"

/* ---- the late thread's place behind others ---- */

/* Under full load it gets some 3 % of a core, so that late masks are made at all; and how long it
 * may keep a core that a thread of the engine wants back. */
enum { LATE_NICE = 15, LATE_SLICE_NS = 100000 };

/* sched_setattr(2), for which C libraries have no declaration yet. */
struct scheduling {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
};

/* On Linux both are of the calling thread alone; before 6.12 a slice changes nothing. */
static void give_way(void) {
  int nice = getpriority(PRIO_PROCESS, 0) + LATE_NICE;
  (void)setpriority(PRIO_PROCESS, 0, nice);
#ifdef SYS_sched_setattr
  struct scheduling scheduling = {
      .size = sizeof scheduling, .policy = SCHED_OTHER, .nice = nice < 19 ? nice : 19, .runtime = LATE_SLICE_NS};
  (void)syscall(SYS_sched_setattr, 0, &scheduling, 0);
#endif
}

/* ---- masks of a step ---- */

int64_t ommai_mask_step_work(int64_t n_answers, int64_t step_ns) {
  int64_t share = step_ns / OMMAI_MASK_STEP_SHARE / (1000000000 / OMMAI_GRAMMAR_STEPS_PER_SECOND);
  if (n_answers == 1 || step_ns == 0 || share > OMMAI_MASK_STEP_WORK) return OMMAI_MASK_STEP_WORK;
  return ommai_max_i64(share, OMMAI_MASK_SHORT_STEP_WORK);
}

/* Each wish may take its share of what is left: one that is hard leaves the others theirs. */
static void make_all(const struct ommai_mask_wish *wishes, int64_t n, int64_t max_work) {
  int64_t work = 0;
  for (int64_t i = 0; i < n; i++) {
    (void)ommai_grammar_matcher_make(&wishes[i], (max_work - work) / (n - i), false, &work);
    work = ommai_min_i64(work, max_work);
  }
}

static void *worker_main(void *argument) {
  pthread_setname_np(pthread_self(), "omma-masks");
  struct ommai_mask_worker *worker = argument;
  pthread_mutex_lock(&worker->mutex);
  while (!worker->stop) {
    if (worker->n_wishes == 0) {
      pthread_cond_wait(&worker->changed, &worker->mutex);
      continue;
    }
    const struct ommai_mask_wish *wishes = worker->wishes;
    int64_t n = worker->n_wishes, work = worker->step_work;
    pthread_mutex_unlock(&worker->mutex);
    make_all(wishes, n, work);
    pthread_mutex_lock(&worker->mutex);
    worker->n_wishes = 0;
    pthread_cond_broadcast(&worker->changed);
  }
  pthread_mutex_unlock(&worker->mutex);
  return NULL;
}

void ommai_mask_worker_begin(struct ommai_mask_worker *worker, const struct ommai_mask_wish *wishes, int64_t n_wishes,
                             int64_t work) {
  if (n_wishes == 0) return;
  if (!worker->has_thread) worker->has_thread = pthread_create(&worker->thread, NULL, worker_main, worker) == 0;
  if (!worker->has_thread) {
    make_all(wishes, n_wishes, work);
    return;
  }
  pthread_mutex_lock(&worker->mutex);
  worker->wishes = wishes;
  worker->n_wishes = n_wishes;
  worker->step_work = work;
  pthread_cond_broadcast(&worker->changed);
  pthread_mutex_unlock(&worker->mutex);
}

void ommai_mask_worker_wait(struct ommai_mask_worker *worker) {
  pthread_mutex_lock(&worker->mutex);
  while (worker->n_wishes) pthread_cond_wait(&worker->changed, &worker->mutex);
  pthread_mutex_unlock(&worker->mutex);
}

/* ---- late masks ---- */

/* Under the mutex: whose turn it is, or NULL. */
static struct ommai_late_mask *next_late(const struct ommai_mask_worker *worker) {
  struct ommai_late_mask *next = NULL;
  for (int64_t i = 0; i < worker->n_late; i++) {
    struct ommai_late_mask *late = &worker->late[i];
    if (late->stage == OMMAI_LATE_WAITS && !late->is_recalled && (!next || late->turn < next->turn)) next = late;
  }
  return next;
}

/* One turn at a mask. Others may be taken back meanwhile, but not this one. */
static void run_late(struct ommai_mask_worker *worker, struct ommai_late_mask *late) {
  const struct ommai_mask_wish wish = late->wish;
  int64_t work = 0;
  late->stage = OMMAI_LATE_RUNS;
  pthread_mutex_unlock(&worker->mutex);
  bool done = ommai_grammar_matcher_make(&wish, OMMAI_MASK_TURN_WORK, true, &work);
  pthread_mutex_lock(&worker->mutex);
  for (late = worker->late; late->stage != OMMAI_LATE_RUNS; late++) continue;
  late->work += work;
  late->turn = ++worker->n_turns;
  late->wish.matcher->too_hard = !done && late->work > OMMAI_MASK_MAX_WORK;
  late->stage = done || late->wish.matcher->too_hard ? OMMAI_LATE_DONE : OMMAI_LATE_WAITS;
  pthread_cond_broadcast(&worker->changed);
}

static void *late_main(void *argument) {
  pthread_setname_np(pthread_self(), "omma-late-masks");
  give_way();
  struct ommai_mask_worker *worker = argument;
  pthread_mutex_lock(&worker->mutex);
  while (!worker->stop) {
    struct ommai_late_mask *late = next_late(worker);
    if (late) {
      run_late(worker, late);
    } else {
      pthread_cond_wait(&worker->changed, &worker->mutex);
    }
  }
  pthread_mutex_unlock(&worker->mutex);
  return NULL;
}

void ommai_mask_worker_add_late(struct ommai_mask_worker *worker, const struct ommai_mask_wish *wish) {
  if (!worker->has_late_thread) {
    worker->has_late_thread = pthread_create(&worker->late_thread, NULL, late_main, worker) == 0;
  }
  if (!worker->has_late_thread) {
    int64_t work = 0;
    wish->matcher->too_hard = !ommai_grammar_matcher_make(wish, OMMAI_MASK_MAX_WORK, true, &work);
    return;
  }
  pthread_mutex_lock(&worker->mutex);
  wish->matcher->grammar->is_late = true;
  worker->late[worker->n_late++] = (struct ommai_late_mask){.wish = *wish, .turn = ++worker->n_turns};
  pthread_cond_broadcast(&worker->changed);
  pthread_mutex_unlock(&worker->mutex);
}

/* Under the mutex. */
static void remove_late(struct ommai_mask_worker *worker, int64_t index) {
  worker->late[index].wish.matcher->grammar->is_late = false;
  worker->late[index] = worker->late[--worker->n_late];
}

void ommai_mask_worker_reap(struct ommai_mask_worker *worker) {
  if (worker->n_late == 0) return;
  pthread_mutex_lock(&worker->mutex);
  for (int64_t i = worker->n_late; i-- > 0;) {
    if (worker->late[i].stage == OMMAI_LATE_DONE) remove_late(worker, i);
  }
  pthread_mutex_unlock(&worker->mutex);
}

void ommai_mask_worker_recall(struct ommai_mask_worker *worker, struct omma_grammar *grammar) {
  int64_t i = 0;
  if (!grammar || !grammar->is_late) return;
  ommai_token_masks_stop(grammar->masks, true);
  pthread_mutex_lock(&worker->mutex);
  while (worker->late[i].wish.matcher->grammar != grammar) i++;
  worker->late[i].is_recalled = true;
  while (worker->late[i].stage == OMMAI_LATE_RUNS) pthread_cond_wait(&worker->changed, &worker->mutex);
  remove_late(worker, i);
  pthread_mutex_unlock(&worker->mutex);
  ommai_token_masks_stop(grammar->masks, false);
}

/* Under the mutex. */
static bool has_done(const struct ommai_mask_worker *worker) {
  for (int64_t i = 0; i < worker->n_late; i++) {
    if (worker->late[i].stage == OMMAI_LATE_DONE) return true;
  }
  return worker->n_late == 0;
}

void ommai_mask_worker_wait_late(struct ommai_mask_worker *worker, int64_t ns) {
  if (worker->n_late == 0) return;
  int64_t end_ns = ommai_clock_ns() + ns;
  const struct timespec deadline = ommai_clock_timespec(end_ns);
  pthread_mutex_lock(&worker->mutex);
  while (!has_done(worker) && !pthread_cond_timedwait(&worker->changed, &worker->mutex, &deadline)) continue;
  pthread_mutex_unlock(&worker->mutex);
}

/* ---- creation ---- */

size_t ommai_mask_worker_bytes(int64_t max_answers) { return (size_t)max_answers * sizeof(struct ommai_late_mask); }

enum omma_status ommai_mask_worker_init(struct ommai_mask_worker *worker, int64_t max_answers,
                                        const struct omma_allocator *allocator, struct omma_error *error) {
  *worker = (struct ommai_mask_worker){.capacity = max_answers};
  worker->late = ommai_allocate(allocator, (size_t)max_answers, sizeof *worker->late);
  if (!worker->late) return ommai_fail_memory(error, "decode", ommai_mask_worker_bytes(max_answers));
  worker->allocator = allocator;
  pthread_mutex_init(&worker->mutex, NULL);
  ommai_clock_condition_init(&worker->changed);
  return OMMA_OK;
}

void ommai_mask_worker_free(struct ommai_mask_worker *worker) {
  if (!worker->allocator) return;
  pthread_mutex_lock(&worker->mutex);
  worker->stop = true;
  pthread_cond_broadcast(&worker->changed);
  pthread_mutex_unlock(&worker->mutex);
  if (worker->has_thread) pthread_join(worker->thread, NULL);
  if (worker->has_late_thread) pthread_join(worker->late_thread, NULL);
  pthread_cond_destroy(&worker->changed);
  pthread_mutex_destroy(&worker->mutex);
  ommai_release(worker->allocator, worker->late, (size_t)worker->capacity, sizeof *worker->late);
}
