/* Threads that make the masks of structured output while the network runs: which tokens may come
 * next is known as soon as the last one was sampled, but only needed after the step.
 *
 * One thread makes the masks of a step. The step waits for it, so its work has a limit. Masks
 * beyond that limit are late: a second thread of low priority makes them, and their answers sit out
 * steps until it has. Only one of the threads uses a grammar at a time; while the second one does,
 * all answers with that grammar sit out.
 *
 * One of these for each engine; the threads start when they are first needed. All functions are
 * called from the engine's thread. */
#pragma once

#include <omma/host.h>
#include <pthread.h>

#include "request/grammar_matcher.h"

/* Steps of work (grammar/recogniser.h) for all masks of one step of the engine, about 2 ms, or
 * where steps are short and others are in them an eighth of one, but about 0.2 ms; for a late mask
 * before it is another one's turn, about 20 ms; for one late mask in all, about 5 seconds. */
#define OMMAI_MASK_STEP_WORK INT64_C(200000)
#define OMMAI_MASK_SHORT_STEP_WORK INT64_C(20000)
#define OMMAI_MASK_STEP_SHARE 8
#define OMMAI_MASK_TURN_WORK INT64_C(2000000)
#define OMMAI_MASK_MAX_WORK INT64_C(500000000)

enum ommai_late_stage { OMMAI_LATE_WAITS, OMMAI_LATE_RUNS, OMMAI_LATE_DONE };

struct ommai_late_mask {
  struct ommai_mask_wish wish;
  enum ommai_late_stage stage;
  bool is_recalled;   /* it gets no further turn */
  int64_t work, turn; /* steps so far; the one with the lowest turn is next */
};

/* Zero-initialised: it has no threads. */
struct ommai_mask_worker {
  const struct omma_allocator *allocator; /* NULL: not initialised */
  pthread_t thread, late_thread;
  bool has_thread, has_late_thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed; /* there are wishes, they are done, or it is to stop */
  const struct ommai_mask_wish *wishes;
  int64_t n_wishes;             /* 0: none, or done */
  int64_t step_work;            /* of these wishes together */
  struct ommai_late_mask *late; /* [capacity] */
  int64_t n_late, capacity, n_turns;
  bool stop;
};

/* max_answers: that can be late at a time. Errors: MEMORY. */
enum omma_status ommai_mask_worker_init(struct ommai_mask_worker *worker, int64_t max_answers,
                                        const struct omma_allocator *allocator, struct omma_error *error);
/* Bytes that it allocates. */
size_t ommai_mask_worker_bytes(int64_t max_answers);
/* Nothing may be late. */
void ommai_mask_worker_free(struct ommai_mask_worker *worker);

/* The steps of work for the masks of a step of the engine in which n_answers are, and which is
 * expected to take step_ns; 0: not known. */
int64_t ommai_mask_step_work(int64_t n_answers, int64_t step_ns);
/* Hands over the wishes, which must stay until ommai_mask_worker_wait: until then nobody else may
 * touch the answers or their grammars' masks. Together they may take `work` steps. Where a thread
 * cannot be had they are made at once. */
void ommai_mask_worker_begin(struct ommai_mask_worker *worker, const struct ommai_mask_wish *wishes, int64_t n_wishes,
                             int64_t work);
/* Until the wishes are done, or their limit is reached; returns at once where there are none. */
void ommai_mask_worker_wait(struct ommai_mask_worker *worker);

/* Hands a wish to the second thread; its grammar is late from now on. What the wish points to must
 * stay until the grammar is no longer late. */
void ommai_mask_worker_add_late(struct ommai_mask_worker *worker, const struct ommai_mask_wish *wish);
/* Takes back grammars whose masks are made, or which are too hard. */
void ommai_mask_worker_reap(struct ommai_mask_worker *worker);
/* Takes back the grammar, made or not, where it is late; NULL is allowed. */
void ommai_mask_worker_recall(struct ommai_mask_worker *worker, struct omma_grammar *grammar);
/* Until a late mask is made or the time is over; returns at once where none is late. */
void ommai_mask_worker_wait_late(struct ommai_mask_worker *worker, int64_t ns);
