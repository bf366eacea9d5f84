/* The sleep mode: engines give the system their memory, and requests get status 503 until somebody
 * wakes the server.
 *
 * Steps, into sleep or out of it, are carried out one after the other by a worker, in the order in
 * which they come. With a step into sleep no more requests are taken in; it waits until none is
 * worked on. A step out of sleep gives up those into it that still wait for that. */
#pragma once

#include <omma/omma.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "server/core/api_error.h"
#include "server/core/job_queue.h"

struct ommai_sleep;

/* Embedded in what asks for the step. */
struct ommai_sleep_step {
  struct ommai_job job; /* first: a job is its step */
  TAILQ_ENTRY(ommai_sleep_step) listed;
  struct ommai_sleep *sleep;
  int level; /* to sleep at, from 1; 0: to wake up */
  /* The step is over, or was given up for that reason (NULL: not); may free it. The server stays
   * until this returns. Any thread. */
  void (*end)(struct ommai_sleep_step *step, const struct ommai_api_error *error);
};

struct ommai_sleep {
  struct omma_engine *engine;
  struct ommai_job_queue *jobs;
  atomic_bool refuses;            /* requests: it sleeps, or is about to */
  atomic_int level;               /* at which it sleeps; 0: it is awake */
  atomic_int_least64_t n_working; /* requests that are worked on */
  pthread_mutex_t lock;           /* of all below; the last to be taken but for the job queue's */
  TAILQ_HEAD(ommai_sleep_steps, ommai_sleep_step) steps;
  struct ommai_sleep_step *running; /* the first of them; NULL: it waits */
};

/* jobs are set before the first step. */
void ommai_sleep_init(struct ommai_sleep *sleep, struct omma_engine *engine);
/* No step may be left. */
void ommai_sleep_destroy(struct ommai_sleep *sleep);

/* Takes a step with its level and end. IO thread, as it alone takes requests in. */
void ommai_sleep_begin(struct ommai_sleep *sleep, struct ommai_sleep_step *step);

/* A request is worked on, where `refuses` is not set (IO thread); no more (any thread, which may
 * hold the lock of its call). */
void ommai_sleep_work_begins(struct ommai_sleep *sleep);
void ommai_sleep_work_ends(struct ommai_sleep *sleep);
