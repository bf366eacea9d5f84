#include "engine/job_ring.h"

#include <string.h>

#include "base/allocator.h"
#include "base/assert.h"
#include "base/error.h"

enum omma_status ommai_job_ring_init(struct ommai_job_ring *ring, int64_t limit, int64_t max_running, bool by_priority,
                                     const struct omma_allocator *allocator, struct omma_error *error) {
  *ring = (struct ommai_job_ring){
      .allocator = *allocator, .limit = limit, .max_running = max_running, .by_priority = by_priority, .next_id = 1};
  pthread_mutex_init(&ring->mutex, NULL);
  pthread_cond_init(&ring->changed, NULL);
  ring->waiting = ommai_allocate(allocator, (size_t)limit, sizeof *ring->waiting);
  ring->running = ommai_allocate(allocator, (size_t)max_running, sizeof *ring->running);
  if (ring->waiting && ring->running) return OMMA_OK;
  return ommai_fail_memory(error, "queue", (size_t)limit * sizeof *ring->waiting);
}

void ommai_job_ring_free(struct ommai_job_ring *ring) {
  if (!ring->next_id) return;
  ommai_release(&ring->allocator, ring->waiting, (size_t)ring->limit, sizeof *ring->waiting);
  ommai_release(&ring->allocator, ring->running, (size_t)ring->max_running, sizeof *ring->running);
  pthread_mutex_destroy(&ring->mutex);
  pthread_cond_destroy(&ring->changed);
  *ring = (struct ommai_job_ring){0};
}

enum omma_status ommai_job_ring_push(struct ommai_job_ring *ring, const struct ommai_job *job, uint64_t *id,
                                     struct omma_error *error) {
  enum omma_status status = OMMA_OK;
  pthread_mutex_lock(&ring->mutex);
  if (ring->stop) {
    status = ommai_fail(error, OMMA_ERROR_CANCELLED, "engine: going down");
  } else if (ring->n_waiting == ring->limit) {
    status = ommai_fail(error, OMMA_ERROR_BUSY, "engine: %lld requests are waiting, the limit", (long long)ring->limit);
  } else {
    struct ommai_job *slot = &ring->waiting[ring->n_waiting++];
    *slot = *job;
    slot->id = ring->next_id++;
    if (id) *id = slot->id;
    pthread_cond_signal(&ring->changed);
  }
  pthread_mutex_unlock(&ring->mutex);
  return status;
}

void ommai_job_ring_cancel(struct ommai_job_ring *ring, uint64_t id) {
  pthread_mutex_lock(&ring->mutex);
  for (int64_t i = 0; i < ring->n_waiting; i++) {
    if (ring->waiting[i].id == id) ring->some_cancelled = ring->waiting[i].cancelled = true;
  }
  for (int64_t i = 0; i < ring->n_running; i++) {
    if (ring->running[i].id == id) ring->some_cancelled = ring->running[i].cancelled = true;
  }
  if (ring->some_cancelled) pthread_cond_signal(&ring->changed);
  pthread_mutex_unlock(&ring->mutex);
}

void ommai_job_ring_stop(struct ommai_job_ring *ring) {
  pthread_mutex_lock(&ring->mutex);
  ring->stop = true;
  pthread_cond_signal(&ring->changed);
  pthread_mutex_unlock(&ring->mutex);
}

void ommai_job_ring_counts(struct ommai_job_ring *ring, int64_t *n_waiting, int64_t *n_running) {
  pthread_mutex_lock(&ring->mutex);
  *n_waiting = ring->n_waiting;
  *n_running = ring->n_running;
  pthread_mutex_unlock(&ring->mutex);
}

bool ommai_job_ring_wait(struct ommai_job_ring *ring, bool has_work) {
  pthread_mutex_lock(&ring->mutex);
  while (!has_work && ring->n_waiting == 0 && !ring->some_cancelled && !ring->stop) {
    pthread_cond_wait(&ring->changed, &ring->mutex);
  }
  bool go_on = !ring->stop;
  pthread_mutex_unlock(&ring->mutex);
  return go_on;
}

bool ommai_job_ring_first(struct ommai_job_ring *ring, struct ommai_job *job) {
  int64_t best = 0;
  pthread_mutex_lock(&ring->mutex);
  for (int64_t i = 1; i < ring->n_waiting && ring->by_priority; i++) {
    if (ring->waiting[i].priority < ring->waiting[best].priority) best = i;
  }
  bool found = ring->n_waiting > 0;
  if (found) *job = ring->waiting[best];
  pthread_mutex_unlock(&ring->mutex);
  return found;
}

static void remove_waiting(struct ommai_job_ring *ring, int64_t index) {
  OMMAI_ASSERT_LOCKED(&ring->mutex);
  OMMAI_ASSERT(index >= 0 && index < ring->n_waiting);
  ring->n_waiting--;
  memmove(&ring->waiting[index], &ring->waiting[index + 1], (size_t)(ring->n_waiting - index) * sizeof *ring->waiting);
}

void ommai_job_ring_take(struct ommai_job_ring *ring, uint64_t id) {
  int64_t i = 0;
  pthread_mutex_lock(&ring->mutex);
  while (ring->waiting[i].id != id) i++;
  if (ring->waiting[i].request) {
    OMMAI_ASSERT(ring->n_running < ring->max_running);
    ring->running[ring->n_running++] = (struct ommai_running_job){id, ring->waiting[i].cancelled};
    ring->some_cancelled = ring->some_cancelled || ring->waiting[i].cancelled;
  }
  remove_waiting(ring, i);
  pthread_mutex_unlock(&ring->mutex);
}

void ommai_job_ring_done(struct ommai_job_ring *ring, uint64_t id) {
  int64_t i = 0;
  pthread_mutex_lock(&ring->mutex);
  while (ring->running[i].id != id) i++;
  OMMAI_ASSERT(i < ring->n_running);
  ring->running[i] = ring->running[--ring->n_running];
  pthread_mutex_unlock(&ring->mutex);
}

bool ommai_job_ring_take_cancelled(struct ommai_job_ring *ring, struct ommai_job *job) {
  bool found = false;
  pthread_mutex_lock(&ring->mutex);
  for (int64_t i = 0; i < ring->n_waiting && (ring->some_cancelled || ring->stop) && !found; i++) {
    if (!ring->waiting[i].cancelled && !ring->stop) continue;
    *job = ring->waiting[i];
    remove_waiting(ring, i);
    found = true;
  }
  pthread_mutex_unlock(&ring->mutex);
  return found;
}

bool ommai_job_ring_running_cancelled(struct ommai_job_ring *ring, uint64_t *id) {
  bool found = false;
  pthread_mutex_lock(&ring->mutex);
  for (int64_t i = 0; i < ring->n_running && ring->some_cancelled && !found; i++) {
    if (!ring->running[i].cancelled) continue;
    ring->running[i].cancelled = false;
    *id = ring->running[i].id;
    found = true;
  }
  if (!found) { /* unless one was cancelled in the queue meanwhile */
    ring->some_cancelled = false;
    for (int64_t i = 0; i < ring->n_waiting; i++) ring->some_cancelled = ring->some_cancelled || ring->waiting[i].cancelled;
  }
  pthread_mutex_unlock(&ring->mutex);
  return found;
}
