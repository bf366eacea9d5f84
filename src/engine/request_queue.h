/* The engine's queue: what was submitted and waits, and which of it is being worked on.
 * Thread-safe; the engine's thread alone takes requests out and ends them, so that a request seen
 * there stays until that thread is done with it. */
#pragma once

#include <omma/omma.h>
#include <pthread.h>

#include "engine/encode_call.h"

/* A request for an answer, or an encode call. */
struct ommai_queued_request {
  uint64_t id;
  int64_t submitted; /* by the runner's clock */
  int64_t priority;  /* lower goes first, where the order is by priority */
  bool cancelled;
  const struct omma_request *request; /* or */
  struct omma_callbacks callbacks;
  struct ommai_encode_call *encode;
};

struct ommai_running_request {
  uint64_t id;
  bool cancelled;
};

struct ommai_request_queue {
  struct omma_allocator allocator;
  pthread_mutex_t mutex;
  pthread_cond_t changed;               /* a request came or was cancelled, or stop */
  struct ommai_queued_request *waiting; /* [limit], oldest first */
  int64_t limit, n_waiting;
  struct ommai_running_request *running; /* [max_running] */
  int64_t max_running, n_running;
  uint64_t next_id;
  bool by_priority, some_cancelled, stop;
};

/* Errors: MEMORY; what was made stays for free. */
enum omma_status ommai_request_queue_init(struct ommai_request_queue *queue, int64_t limit, int64_t max_running,
                                          bool by_priority, const struct omma_allocator *allocator, struct omma_error *error);
/* Takes a zeroed queue. */
void ommai_request_queue_free(struct ommai_request_queue *queue);

/* ---- any thread ---- */

/* Errors: BUSY (full), CANCELLED (after stop). */
enum omma_status ommai_request_queue_push(struct ommai_request_queue *queue, const struct ommai_queued_request *queued,
                                          uint64_t *id, struct omma_error *error);
/* Marks a request; unknown ids are ignored. */
void ommai_request_queue_cancel(struct ommai_request_queue *queue, uint64_t id);
/* From now on nothing is taken in, and everything is cancelled. */
void ommai_request_queue_stop(struct ommai_request_queue *queue);
void ommai_request_queue_counts(struct ommai_request_queue *queue, int64_t *n_waiting, int64_t *n_running);

/* ---- the engine's thread ---- */

/* Sleeps until a request waits or is cancelled, unless the thread has other work; false once
 * stopped. */
bool ommai_request_queue_wait(struct ommai_request_queue *queue, bool has_work);
/* A copy of the waiting request that goes first: the oldest, or of the lowest priority the oldest.
 * False when none waits. */
bool ommai_request_queue_first(struct ommai_request_queue *queue, struct ommai_queued_request *queued);
/* Request `id` waits no more. One for an answer counts as running until done; an encode call does
 * not. */
void ommai_request_queue_take(struct ommai_request_queue *queue, uint64_t id);
void ommai_request_queue_done(struct ommai_request_queue *queue, uint64_t id);
/* Takes out one waiting request that was cancelled. */
bool ommai_request_queue_take_cancelled(struct ommai_request_queue *queue, struct ommai_queued_request *queued);
/* One running request that was cancelled, reported once. */
bool ommai_request_queue_running_cancelled(struct ommai_request_queue *queue, uint64_t *id);
