#include "engine/request_queue.h"

#include <string.h>

#include "base/allocator.h"
#include "base/assert.h"
#include "base/error.h"

enum omma_status ommai_request_queue_init(struct ommai_request_queue *queue, int64_t limit, int64_t max_running,
                                          bool by_priority, const struct omma_allocator *allocator, struct omma_error *error) {
  *queue = (struct ommai_request_queue){
      .allocator = *allocator, .limit = limit, .max_running = max_running, .by_priority = by_priority, .next_id = 1};
  pthread_mutex_init(&queue->mutex, NULL);
  pthread_cond_init(&queue->changed, NULL);
  queue->waiting = ommai_allocate(allocator, (size_t)limit, sizeof *queue->waiting);
  queue->running = ommai_allocate(allocator, (size_t)max_running, sizeof *queue->running);
  if (queue->waiting && queue->running) return OMMA_OK;
  return ommai_fail_memory(error, "queue", (size_t)limit * sizeof *queue->waiting);
}

void ommai_request_queue_free(struct ommai_request_queue *queue) {
  if (!queue->next_id) return;
  ommai_release(&queue->allocator, queue->waiting, (size_t)queue->limit, sizeof *queue->waiting);
  ommai_release(&queue->allocator, queue->running, (size_t)queue->max_running, sizeof *queue->running);
  pthread_mutex_destroy(&queue->mutex);
  pthread_cond_destroy(&queue->changed);
  *queue = (struct ommai_request_queue){0};
}

enum omma_status ommai_request_queue_push(struct ommai_request_queue *queue, const struct ommai_queued_request *queued,
                                          uint64_t *id, struct omma_error *error) {
  enum omma_status status = OMMA_OK;
  pthread_mutex_lock(&queue->mutex);
  if (queue->stop) {
    status = ommai_fail(error, OMMA_ERROR_CANCELLED, "engine: going down");
  } else if (queue->n_waiting == queue->limit) {
    status = ommai_fail(error, OMMA_ERROR_BUSY, "engine: %lld requests are waiting, the limit", (long long)queue->limit);
  } else {
    struct ommai_queued_request *slot = &queue->waiting[queue->n_waiting++];
    *slot = *queued;
    slot->id = queue->next_id++;
    if (id) *id = slot->id;
    pthread_cond_signal(&queue->changed);
  }
  pthread_mutex_unlock(&queue->mutex);
  return status;
}

void ommai_request_queue_cancel(struct ommai_request_queue *queue, uint64_t id) {
  pthread_mutex_lock(&queue->mutex);
  for (int64_t i = 0; i < queue->n_waiting; i++) {
    if (queue->waiting[i].id == id) queue->some_cancelled = queue->waiting[i].cancelled = true;
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
  pthread_mutex_unlock(&queue->mutex);
}

void ommai_request_queue_counts(struct ommai_request_queue *queue, int64_t *n_waiting, int64_t *n_running) {
  pthread_mutex_lock(&queue->mutex);
  *n_waiting = queue->n_waiting;
  *n_running = queue->n_running;
  pthread_mutex_unlock(&queue->mutex);
}

bool ommai_request_queue_wait(struct ommai_request_queue *queue, bool has_work) {
  pthread_mutex_lock(&queue->mutex);
  while (!has_work && queue->n_waiting == 0 && !queue->some_cancelled && !queue->stop) {
    pthread_cond_wait(&queue->changed, &queue->mutex);
  }
  bool go_on = !queue->stop;
  pthread_mutex_unlock(&queue->mutex);
  return go_on;
}

bool ommai_request_queue_first(struct ommai_request_queue *queue, struct ommai_queued_request *queued) {
  int64_t best = 0;
  pthread_mutex_lock(&queue->mutex);
  for (int64_t i = 1; i < queue->n_waiting && queue->by_priority; i++) {
    if (queue->waiting[i].priority < queue->waiting[best].priority) best = i;
  }
  bool found = queue->n_waiting > 0;
  if (found) *queued = queue->waiting[best];
  pthread_mutex_unlock(&queue->mutex);
  return found;
}

static void remove_waiting(struct ommai_request_queue *queue, int64_t index) {
  OMMAI_ASSERT_LOCKED(&queue->mutex);
  OMMAI_ASSERT(index >= 0 && index < queue->n_waiting);
  queue->n_waiting--;
  memmove(&queue->waiting[index], &queue->waiting[index + 1], (size_t)(queue->n_waiting - index) * sizeof *queue->waiting);
}

void ommai_request_queue_take(struct ommai_request_queue *queue, uint64_t id) {
  int64_t i = 0;
  pthread_mutex_lock(&queue->mutex);
  while (queue->waiting[i].id != id) i++;
  if (queue->waiting[i].request) {
    OMMAI_ASSERT(queue->n_running < queue->max_running);
    queue->running[queue->n_running++] = (struct ommai_running_request){id, queue->waiting[i].cancelled};
    queue->some_cancelled = queue->some_cancelled || queue->waiting[i].cancelled;
  }
  remove_waiting(queue, i);
  pthread_mutex_unlock(&queue->mutex);
}

void ommai_request_queue_done(struct ommai_request_queue *queue, uint64_t id) {
  int64_t i = 0;
  pthread_mutex_lock(&queue->mutex);
  while (queue->running[i].id != id) i++;
  OMMAI_ASSERT(i < queue->n_running);
  queue->running[i] = queue->running[--queue->n_running];
  pthread_mutex_unlock(&queue->mutex);
}

bool ommai_request_queue_take_cancelled(struct ommai_request_queue *queue, struct ommai_queued_request *queued) {
  bool found = false;
  pthread_mutex_lock(&queue->mutex);
  for (int64_t i = 0; i < queue->n_waiting && (queue->some_cancelled || queue->stop) && !found; i++) {
    if (!queue->waiting[i].cancelled && !queue->stop) continue;
    *queued = queue->waiting[i];
    remove_waiting(queue, i);
    found = true;
  }
  pthread_mutex_unlock(&queue->mutex);
  return found;
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
    queue->some_cancelled = false;
    for (int64_t i = 0; i < queue->n_waiting; i++) queue->some_cancelled = queue->some_cancelled || queue->waiting[i].cancelled;
  }
  pthread_mutex_unlock(&queue->mutex);
  return found;
}
