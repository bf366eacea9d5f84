/* The engine's queue: what was submitted and waits, and which of it is being worked on.
 * Thread-safe; the engine's thread alone takes requests out and ends them, so that a request seen
 * there stays until that thread is done with it. */
#pragma once

#include <omma/omma.h>
#include <pthread.h>
#include <sys/queue.h>

#include "engine/encode_call.h"

/* A request for an answer, or an encode call. */
struct ommai_queued_request {
  TAILQ_ENTRY(ommai_queued_request) listed;
  uint64_t id;
  int64_t submitted; /* by the runner's clock */
  int64_t priority;  /* lower goes first; 0 for all, where the order is by age alone */
  size_t bytes;      /* that it takes while it waits */
  bool cancelled;
  int64_t reported_place;             /* in the queue, from 1; 0: not yet. The engine's thread's */
  const struct omma_request *request; /* or */
  struct omma_callbacks callbacks;
  struct ommai_encode_call *encode;
};

struct ommai_running_request {
  uint64_t id;
  size_t bytes; /* that it took while it waited */
  bool cancelled;
};

/* How much may wait. Requests that were taken before there is a slot for them still count as
 * waiting. */
struct ommai_queue_limits {
  int64_t requests; /* 0: as many as the bytes allow */
  int64_t bytes;
};

/* Awake; falling asleep: nothing is taken in, and what was goes on; asleep: and nothing is left,
 * nor memory for it. */
enum ommai_queue_sleep { OMMAI_QUEUE_AWAKE, OMMAI_QUEUE_FALLS_ASLEEP, OMMAI_QUEUE_ASLEEP };

struct ommai_request_queue {
  struct omma_allocator allocator;
  pthread_mutex_t mutex;
  pthread_cond_t changed; /* a request, a cancellation, sleep, or stop */
  pthread_cond_t settled; /* it falls asleep no more */
  enum ommai_queue_sleep sleep;
  /* in the order in which they go */
  TAILQ_HEAD(ommai_waiting_requests, ommai_queued_request) waiting;
  struct ommai_queue_limits limits;
  int64_t n_waiting;
  size_t waiting_bytes;
  struct ommai_running_request *running; /* [max_running], the oldest first */
  int64_t n_slots, max_running, n_running;
  uint64_t next_id;
  bool some_cancelled, stop;
};

/* Errors: MEMORY; what was made stays for free. */
enum omma_status ommai_request_queue_init(struct ommai_request_queue *queue, const struct ommai_queue_limits *limits,
                                          int64_t n_slots, int64_t max_running, const struct omma_allocator *allocator,
                                          struct omma_error *error);
/* Takes a zeroed queue. Nothing may wait. */
void ommai_request_queue_free(struct ommai_request_queue *queue);

/* ---- any thread ---- */

/* Queues a copy. Errors: BUSY (full, or with the field "asleep": it sleeps or falls asleep),
 * MEMORY, CANCELLED (after stop). */
enum omma_status ommai_request_queue_push(struct ommai_request_queue *queue, const struct ommai_queued_request *queued,
                                          uint64_t *id, struct omma_error *error);
/* Marks a request; unknown ids are ignored. */
void ommai_request_queue_cancel(struct ommai_request_queue *queue, uint64_t id);
/* From now on nothing is taken in, and everything is cancelled. */
void ommai_request_queue_stop(struct ommai_request_queue *queue);
/* An awake queue falls asleep. */
void ommai_request_queue_sleep(struct ommai_request_queue *queue);
/* Whether it sleeps or falls asleep. */
bool ommai_request_queue_refuses(struct ommai_request_queue *queue);
/* Waits until it falls asleep no more, for at most `ns` nanoseconds, and returns what it does. */
enum ommai_queue_sleep ommai_request_queue_settle(struct ommai_request_queue *queue, int64_t ns);
void ommai_request_queue_wake(struct ommai_request_queue *queue);
/* Fills n_waiting (those that were not taken), waiting_bytes and n_running (those that were). */
void ommai_request_queue_count(struct ommai_request_queue *queue, struct omma_engine_stats *stats);

/* ---- the engine's thread ---- */

/* Waits until a request waits or is cancelled, or the queue falls asleep, unless the thread has
 * other work; false once stopped. */
bool ommai_request_queue_wait(struct ommai_request_queue *queue, bool has_work);
/* The waiting request after this one, or that goes first of all (after NULL); NULL: there is none.
 * It stays until this thread takes it. */
struct ommai_queued_request *ommai_request_queue_next(struct ommai_request_queue *queue,
                                                      const struct ommai_queued_request *before);
/* The request waits no more, and what the queue had of it is gone; *taken is a copy. One for an
 * answer counts as running until done; an encode call does not. */
void ommai_request_queue_take(struct ommai_request_queue *queue, struct ommai_queued_request *queued,
                              struct ommai_queued_request *taken);
void ommai_request_queue_done(struct ommai_request_queue *queue, uint64_t id);
/* Takes out one waiting request that was cancelled. */
bool ommai_request_queue_take_cancelled(struct ommai_request_queue *queue, struct ommai_queued_request *queued);
/* Whether it falls asleep with nothing left in it; and that it sleeps now, unless it was woken. */
bool ommai_request_queue_may_sleep(struct ommai_request_queue *queue);
void ommai_request_queue_sleeps(struct ommai_request_queue *queue);
/* One running request that was cancelled, reported once. */
bool ommai_request_queue_running_cancelled(struct ommai_request_queue *queue, uint64_t *id);
