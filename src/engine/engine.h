/* The inside of omma_engine.
 *
 * Its thread owns the resources (runner, pages, caches) and the scheduler with the live
 * sequences; nobody else touches them. Others talk to it through the request queue. It counts in
 * statistics of its own, and copies them under a mutex that is never held while it computes or
 * calls back. */
#pragma once

#include <omma/omma.h>
#include <pthread.h>
#include <stdatomic.h>

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

struct ommai_engine_set;

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
  struct ommai_engine_set *set; /* of several, which callers see as the first; NULL: alone */
  int index;                    /* among them */
  /* When the turn at hand began, by ommai_clock_ns(); 0: there is none. Of one of several. */
  atomic_int_least64_t turn_began;
};

/* An engine over a runner from `source`, the one of sizes->limits.engine, without a thread. Errors:
 * as omma_engine_create. */
enum omma_status ommai_engine_create_one(struct omma_model *model, const struct ommai_runner_source *source,
                                         const struct ommai_engine_sizes *sizes, const struct omma_engine_options *options,
                                         struct omma_engine **out, struct omma_error *error);
/* Starts its thread. Errors: INTERNAL. */
enum omma_status ommai_engine_start_one(struct omma_engine *engine, struct omma_error *error);

/* Between waits for requests: looks after the queue, then one step or slice of whatever is due. Of
 * one engine, alone or of several. */
void ommai_engine_turn(struct omma_engine *engine);

/* As omma_engine_submit, to this engine itself; the callbacks and the request were checked. */
enum omma_status ommai_engine_submit_alone(struct omma_engine *engine, const struct omma_request *request,
                                           const struct omma_callbacks *callbacks, uint64_t *id, struct omma_error *error);

/* The parts of an engine's end: it takes nothing more; its thread ends, or does not within `ns`
 * (then false, and the engine stays with it; ns below 0: it is waited for); its memory. */
void ommai_engine_begin_stop(struct omma_engine *engine);
bool ommai_engine_end_stop(struct omma_engine *engine, int64_t ns);
void ommai_engine_free(struct omma_engine *engine);

/* As omma_engine_get_stats_of, of this engine itself. */
void ommai_engine_get_stats_alone(const struct omma_engine *engine, struct omma_engine_stats *stats);

/* Queues the images and waits until their outputs are complete. Thread-safe. Errors: BUSY,
 * CANCELLED, MEMORY, INTERNAL. */
enum omma_status ommai_engine_encode_alone(struct omma_engine *engine, struct ommai_encode_call *call,
                                           struct omma_error *error);
