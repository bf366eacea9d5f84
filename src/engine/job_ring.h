/* The engine's queue: what was submitted and waits, and which of it is being worked on.
 * Thread-safe; the engine's thread alone takes jobs out and ends them, so that a request seen
 * there stays until that thread is done with it. */
#ifndef OMMAI_ENGINE_JOB_RING_H
#define OMMAI_ENGINE_JOB_RING_H

#include <omma/omma.h>
#include <pthread.h>

#include "engine/encode_call.h"

struct ommai_job {
  uint64_t id;
  int64_t submitted; /* ommai_clock_ns */
  int64_t priority;  /* lower goes first, where the order is by priority */
  bool cancelled;
  const struct omma_request *request; /* or */
  struct omma_callbacks callbacks;
  struct ommai_encode_call *encode;
};

struct ommai_running_job {
  uint64_t id;
  bool cancelled;
};

struct ommai_job_ring {
  struct omma_allocator allocator;
  pthread_mutex_t mutex;
  pthread_cond_t changed;    /* a job came or was cancelled, or stop */
  struct ommai_job *waiting; /* [limit], oldest first */
  int64_t limit, n_waiting;
  struct ommai_running_job *running; /* [max_running] */
  int64_t max_running, n_running;
  uint64_t next_id;
  bool by_priority, some_cancelled, stop;
};

/* Errors: MEMORY; what was made stays for free. */
enum omma_status ommai_job_ring_init(struct ommai_job_ring *ring, int64_t limit, int64_t max_running, bool by_priority,
                                     const struct omma_allocator *allocator, struct omma_error *error);
/* Takes a zeroed ring. */
void ommai_job_ring_free(struct ommai_job_ring *ring);

/* ---- any thread ---- */

/* Errors: BUSY (full), CANCELLED (after stop). */
enum omma_status ommai_job_ring_push(struct ommai_job_ring *ring, const struct ommai_job *job, uint64_t *id,
                                     struct omma_error *error);
/* Marks a job; unknown ids are ignored. */
void ommai_job_ring_cancel(struct ommai_job_ring *ring, uint64_t id);
/* From now on nothing is taken in, and everything is cancelled. */
void ommai_job_ring_stop(struct ommai_job_ring *ring);
void ommai_job_ring_counts(struct ommai_job_ring *ring, int64_t *n_waiting, int64_t *n_running);

/* ---- the engine's thread ---- */

/* Sleeps until a job waits or is cancelled, unless the thread has other work; false once
 * stopped. */
bool ommai_job_ring_wait(struct ommai_job_ring *ring, bool has_work);
/* A copy of the waiting job that goes first: the oldest, or of the lowest priority the oldest.
 * False when none waits. */
bool ommai_job_ring_first(struct ommai_job_ring *ring, struct ommai_job *job);
/* Job `id` waits no more; a request counts as running until done. */
void ommai_job_ring_take(struct ommai_job_ring *ring, uint64_t id);
void ommai_job_ring_done(struct ommai_job_ring *ring, uint64_t id);
/* Takes out one waiting job that was cancelled. */
bool ommai_job_ring_take_cancelled(struct ommai_job_ring *ring, struct ommai_job *job);
/* One running job that was cancelled, reported once. */
bool ommai_job_ring_running_cancelled(struct ommai_job_ring *ring, uint64_t *id);

#endif
