#include "engine/request_queue.h"

#include <string.h>

#include "base/allocator.h"
#include "base/assert.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"

enum omma_status ommai_request_queue_init(struct ommai_request_queue *queue, const struct ommai_queue_limits *limits,
                                          int64_t n_slots, int64_t max_running, const struct omma_allocator *allocator,
                                          struct omma_error *error) {
  *queue = (struct ommai_request_queue){
      .allocator = *allocator, .limits = *limits, .n_slots = n_slots, .max_running = max_running, .next_id = 1};
  TAILQ_INIT(&queue->waiting);
  pthread_mutex_init(&queue->mutex, NULL);
  pthread_cond_init(&queue->changed, NULL);
  ommai_clock_condition_init(&queue->settled);
  queue->running = ommai_allocate(allocator, (size_t)max_running, sizeof *queue->running);
  return queue->running ? OMMA_OK : ommai_fail_memory(error, "queue", (size_t)max_running * sizeof *queue->running);
}

void ommai_request_queue_free(struct ommai_request_queue *queue) {
  if (!queue->next_id) return;
  OMMAI_ASSERT(TAILQ_EMPTY(&queue->waiting));
  ommai_release(&queue->allocator, queue->running, (size_t)queue->max_running, sizeof *queue->running);
  pthread_mutex_destroy(&queue->mutex);
  pthread_cond_destroy(&queue->changed);
  pthread_cond_destroy(&queue->settled);
  *queue = (struct ommai_request_queue){0};
}

/* Of all that has no slot yet. */
static size_t bytes_without_slot(const struct ommai_request_queue *queue) {
  size_t bytes = queue->waiting_bytes;
  for (int64_t i = queue->n_slots; i < queue->n_running; i++) bytes += queue->running[i].bytes;
  return bytes;
}

/* Whether there is room for one more. One that has the queue to itself always fits. */
static enum omma_status check_room(const struct ommai_request_queue *queue, size_t bytes, struct omma_error *error) {
  const struct ommai_queue_limits *limits = &queue->limits;
  int64_t n_waiting = queue->n_waiting + ommai_max_i64(queue->n_running - queue->n_slots, 0);
  size_t taken = bytes_without_slot(queue);
  if (queue->stop) return ommai_fail(error, OMMA_ERROR_CANCELLED, "engine: going down");
  if (queue->sleep) return ommai_fail_field(error, OMMA_ERROR_BUSY, "asleep", "engine: asleep, or about to be");
  if (limits->requests && n_waiting >= limits->requests) {
    return ommai_fail_field(error, OMMA_ERROR_BUSY, "queue_limit", "engine: %lld requests are waiting, the limit",
                            (long long)limits->requests);
  }
  size_t room = (size_t)limits->bytes > taken ? (size_t)limits->bytes - taken : 0;
  if (n_waiting == 0 || bytes <= room) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_BUSY, "queue_bytes",
                          "engine: %lld requests of %zu bytes are waiting, and %zu more are beyond the limit of %lld",
                          (long long)n_waiting, taken, bytes, (long long)limits->bytes);
}

/* Behind all that go before it: those of its priority came earlier. */
static void insert(struct ommai_request_queue *queue, struct ommai_queued_request *queued) {
  OMMAI_ASSERT_LOCKED(&queue->mutex);
  struct ommai_queued_request *before = TAILQ_LAST(&queue->waiting, ommai_waiting_requests);
  while (before && before->priority > queued->priority) before = TAILQ_PREV(before, ommai_waiting_requests, listed);
  if (before) {
    TAILQ_INSERT_AFTER(&queue->waiting, before, queued, listed);
  } else {
    TAILQ_INSERT_HEAD(&queue->waiting, queued, listed);
  }
  queue->n_waiting++;
  queue->waiting_bytes += queued->bytes;
}

enum omma_status ommai_request_queue_push(struct ommai_request_queue *queue, const struct ommai_queued_request *queued,
                                          uint64_t *id, struct omma_error *error) {
  struct ommai_queued_request *own = ommai_allocate(&queue->allocator, 1, sizeof *own);
  if (!own) return ommai_fail_memory(error, "queue", sizeof *own);
  *own = *queued;
  own->bytes += sizeof *own;
  pthread_mutex_lock(&queue->mutex);
  enum omma_status status = check_room(queue, own->bytes, error);
  if (status == OMMA_OK) {
    own->id = queue->next_id++;
    if (id) *id = own->id;
    insert(queue, own);
    pthread_cond_signal(&queue->changed);
  }
  pthread_mutex_unlock(&queue->mutex);
  if (status != OMMA_OK) ommai_release(&queue->allocator, own, 1, sizeof *own);
  return status;
}

void ommai_request_queue_cancel(struct ommai_request_queue *queue, uint64_t id) {
  struct ommai_queued_request *waiting;
  pthread_mutex_lock(&queue->mutex);
  TAILQ_FOREACH(waiting, &queue->waiting, listed) {
    if (waiting->id == id) queue->some_cancelled = waiting->cancelled = true;
  }
  for (int64_t i = 0; i < queue->n_running; i++) {
    if (queue->running[i].id == id) queue->some_cancelled = queue->running[i].cancelled = true;
  }
  if (queue->some_cancelled) pthread_cond_signal(&queue->changed);
  pthread_mutex_unlock(&queue->mutex);
}

void ommai_request_queue_stop(struct ommai_request_queue *queue) {
  pthread_mutex_lock(&queue->mutex);
  queue->stop = true;
  pthread_cond_signal(&queue->changed);
  pthread_cond_broadcast(&queue->settled);
  pthread_mutex_unlock(&queue->mutex);
}

/* ---- sleep ---- */

void ommai_request_queue_sleep(struct ommai_request_queue *queue) {
  pthread_mutex_lock(&queue->mutex);
  if (!queue->sleep) queue->sleep = OMMAI_QUEUE_FALLS_ASLEEP;
  pthread_cond_signal(&queue->changed);
  pthread_mutex_unlock(&queue->mutex);
}

bool ommai_request_queue_refuses(struct ommai_request_queue *queue) {
  pthread_mutex_lock(&queue->mutex);
  bool refuses = queue->sleep != OMMAI_QUEUE_AWAKE;
  pthread_mutex_unlock(&queue->mutex);
  return refuses;
}

enum ommai_queue_sleep ommai_request_queue_settle(struct ommai_request_queue *queue, int64_t ns) {
  int64_t until = ommai_clock_ns() + ns;
  const struct timespec deadline = ommai_clock_timespec(until);
  pthread_mutex_lock(&queue->mutex);
  while (queue->sleep == OMMAI_QUEUE_FALLS_ASLEEP && !queue->stop) {
    if (pthread_cond_timedwait(&queue->settled, &queue->mutex, &deadline) != 0) break;
  }
  enum ommai_queue_sleep found = queue->stop ? OMMAI_QUEUE_AWAKE : queue->sleep;
  pthread_mutex_unlock(&queue->mutex);
  return found;
}

/* Under the mutex. */
static void settle(struct ommai_request_queue *queue, enum ommai_queue_sleep sleep) {
  OMMAI_ASSERT_LOCKED(&queue->mutex);
  queue->sleep = sleep;
  pthread_cond_broadcast(&queue->settled);
}

void ommai_request_queue_wake(struct ommai_request_queue *queue) {
  pthread_mutex_lock(&queue->mutex);
  settle(queue, OMMAI_QUEUE_AWAKE);
  pthread_mutex_unlock(&queue->mutex);
}

bool ommai_request_queue_may_sleep(struct ommai_request_queue *queue) {
  pthread_mutex_lock(&queue->mutex);
  bool may = queue->sleep == OMMAI_QUEUE_FALLS_ASLEEP && queue->n_waiting == 0 && queue->n_running == 0;
  pthread_mutex_unlock(&queue->mutex);
  return may;
}

void ommai_request_queue_sleeps(struct ommai_request_queue *queue) {
  pthread_mutex_lock(&queue->mutex);
  if (queue->sleep == OMMAI_QUEUE_FALLS_ASLEEP) settle(queue, OMMAI_QUEUE_ASLEEP);
  pthread_mutex_unlock(&queue->mutex);
}

void ommai_request_queue_count(struct ommai_request_queue *queue, struct omma_engine_stats *stats) {
  pthread_mutex_lock(&queue->mutex);
  stats->n_waiting = queue->n_waiting;
  stats->waiting_bytes = (int64_t)bytes_without_slot(queue);
  stats->n_running = queue->n_running;
  pthread_mutex_unlock(&queue->mutex);
}

bool ommai_request_queue_wait(struct ommai_request_queue *queue, bool has_work) {
  pthread_mutex_lock(&queue->mutex);
  while (!has_work && queue->n_waiting == 0 && !queue->some_cancelled && !queue->stop &&
         queue->sleep != OMMAI_QUEUE_FALLS_ASLEEP) {
    pthread_cond_wait(&queue->changed, &queue->mutex);
  }
  bool go_on = !queue->stop;
  pthread_mutex_unlock(&queue->mutex);
  return go_on;
}

struct ommai_queued_request *ommai_request_queue_next(struct ommai_request_queue *queue,
                                                      const struct ommai_queued_request *before) {
  pthread_mutex_lock(&queue->mutex);
  struct ommai_queued_request *next = before ? TAILQ_NEXT(before, listed) : TAILQ_FIRST(&queue->waiting);
  pthread_mutex_unlock(&queue->mutex);
  return next;
}

static void remove_waiting(struct ommai_request_queue *queue, struct ommai_queued_request *queued,
                           struct ommai_queued_request *taken) {
  OMMAI_ASSERT_LOCKED(&queue->mutex);
  OMMAI_ASSERT(queue->n_waiting > 0 && queue->waiting_bytes >= queued->bytes);
  TAILQ_REMOVE(&queue->waiting, queued, listed);
  queue->n_waiting--;
  queue->waiting_bytes -= queued->bytes;
  *taken = *queued;
  ommai_release(&queue->allocator, queued, 1, sizeof *queued);
}

void ommai_request_queue_take(struct ommai_request_queue *queue, struct ommai_queued_request *queued,
                              struct ommai_queued_request *taken) {
  pthread_mutex_lock(&queue->mutex);
  if (queued->request) {
    OMMAI_ASSERT(queue->n_running < queue->max_running);
    queue->running[queue->n_running++] = (struct ommai_running_request){queued->id, queued->bytes, queued->cancelled};
    queue->some_cancelled = queue->some_cancelled || queued->cancelled;
  }
  remove_waiting(queue, queued, taken);
  pthread_mutex_unlock(&queue->mutex);
}

void ommai_request_queue_done(struct ommai_request_queue *queue, uint64_t id) {
  int64_t i = 0;
  pthread_mutex_lock(&queue->mutex);
  while (queue->running[i].id != id) i++;
  OMMAI_ASSERT(i < queue->n_running);
  queue->n_running--;
  memmove(&queue->running[i], &queue->running[i + 1], (size_t)(queue->n_running - i) * sizeof *queue->running);
  pthread_mutex_unlock(&queue->mutex);
}

bool ommai_request_queue_take_cancelled(struct ommai_request_queue *queue, struct ommai_queued_request *queued) {
  struct ommai_queued_request *waiting = NULL;
  pthread_mutex_lock(&queue->mutex);
  if (queue->some_cancelled || queue->stop) {
    TAILQ_FOREACH(waiting, &queue->waiting, listed) {
      if (waiting->cancelled || queue->stop) break;
    }
  }
  if (waiting) remove_waiting(queue, waiting, queued);
  pthread_mutex_unlock(&queue->mutex);
  return waiting != NULL;
}

bool ommai_request_queue_running_cancelled(struct ommai_request_queue *queue, uint64_t *id) {
  bool found = false;
  pthread_mutex_lock(&queue->mutex);
  for (int64_t i = 0; i < queue->n_running && queue->some_cancelled && !found; i++) {
    if (!queue->running[i].cancelled) continue;
    queue->running[i].cancelled = false;
    *id = queue->running[i].id;
    found = true;
  }
  if (!found) { /* unless one was cancelled in the queue meanwhile */
    const struct ommai_queued_request *waiting;
    queue->some_cancelled = false;
    TAILQ_FOREACH(waiting, &queue->waiting, listed) queue->some_cancelled = queue->some_cancelled || waiting->cancelled;
  }
  pthread_mutex_unlock(&queue->mutex);
  return found;
}
