/* The inside of omma_engine.
 *
 * Its thread owns the resources (runner, pages, caches) and the scheduler with the live
 * sequences; nobody else touches them. Others talk to it through the request queue. It
 * counts in statistics of its own, and copies them under a mutex that is never held while it
 * computes or calls back. */
#pragma once

#include <omma/omma.h>
#include <pthread.h>

#include "engine/encode_call.h"
#include "engine/request_queue.h"
#include "engine/resources.h"
#include "engine/scheduler.h"

/* What the thread and others both touch. */
struct ommai_engine_shared {
  struct ommai_request_queue queue;
  pthread_mutex_t mutex;          /* of all below */
  pthread_cond_t finished;        /* an encode call is through */
  struct omma_engine_stats stats; /* as the thread last published them */
};

struct omma_engine {
  struct omma_allocator allocator;
  struct omma_model *model;
  struct ommai_resources resources;    /* the thread's, but for its sizes and caches */
  struct ommai_scheduler scheduler;    /* the thread's */
  int64_t logged_pages, logged_images; /* evictions that the log has; the thread's */
  int64_t reported_waiting;            /* when all that wait got their places; the thread's */
  struct ommai_engine_shared *shared;
  pthread_t thread;
  bool has_thread, is_complete;
};

/* An engine over runners from `source`, without a thread: its work is done by ommai_engine_turn, of
 * whoever made it. Errors: as omma_engine_create. */
enum omma_status ommai_engine_create(struct omma_model *model, const struct ommai_runner_source *source,
                                     const struct omma_engine_options *options, struct omma_engine **out,
                                     struct omma_error *error);
/* Between waits for requests: looks after the queue, then one step or slice of whatever is due. */
void ommai_engine_turn(struct omma_engine *engine);

/* Queues the images and waits until their outputs are complete. Thread-safe. Errors: BUSY,
 * CANCELLED, MEMORY, INTERNAL. */
enum omma_status ommai_engine_encode(struct omma_engine *engine, struct ommai_encode_call *call, struct omma_error *error);
