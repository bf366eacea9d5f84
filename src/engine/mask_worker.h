/* A thread that makes the masks of structured answers while the network runs: which tokens may
 * come next is known as soon as the last one was sampled, but only needed after the step. One of
 * these for each engine; the thread starts with the first answer that has a grammar. */
#ifndef OMMAI_ENGINE_MASK_WORKER_H
#define OMMAI_ENGINE_MASK_WORKER_H

#include <pthread.h>

#include "request/structured_answer.h"

/* Masks for an answer: after its last token, and after each guess. */
struct ommai_mask_task {
  const struct ommai_structured_answer *answer;
  const int32_t *guesses; /* [n_guesses] */
  int64_t n_guesses;
};

/* Zero-initialised: it has no thread. */
struct ommai_mask_worker {
  pthread_t thread;
  bool has_thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed; /* there are tasks, they are done, or it is to stop */
  const struct ommai_mask_task *tasks;
  int64_t n_tasks; /* 0: none, or done */
  bool stop;
};

/* Hands over the tasks, which must stay until ommai_mask_worker_wait: until then nobody else may
 * touch the answers or their grammars' masks. Does nothing where a thread cannot be had: then
 * masks are made when they are asked for. */
void ommai_mask_worker_begin(struct ommai_mask_worker *worker, const struct ommai_mask_task *tasks, int64_t n_tasks);
/* Until the tasks are done; returns at once where there are none. */
void ommai_mask_worker_wait(struct ommai_mask_worker *worker);
void ommai_mask_worker_free(struct ommai_mask_worker *worker);

#endif
