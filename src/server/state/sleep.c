#include "server/state/sleep.h"

void ommai_sleep_init(struct ommai_sleep *sleep, struct omma_engine *engine) {
  sleep->engine = engine;
  TAILQ_INIT(&sleep->steps);
  pthread_mutex_init(&sleep->lock, NULL);
}

void ommai_sleep_destroy(struct ommai_sleep *sleep) { pthread_mutex_destroy(&sleep->lock); }

/* Under the lock, where level or steps have changed. */
static void set_refuses(struct ommai_sleep *sleep) {
  bool refuses = atomic_load(&sleep->level) > 0;
  const struct ommai_sleep_step *step;
  TAILQ_FOREACH(step, &sleep->steps, listed) refuses = refuses || step->level > 0;
  atomic_store(&sleep->refuses, refuses);
}

static void advance(struct ommai_sleep *sleep);

/* On a worker. What ends the step may free it and, once it returns, the server. */
static void run(struct ommai_job *job) {
  struct ommai_sleep_step *step = (struct ommai_sleep_step *)job;
  struct ommai_sleep *sleep = step->sleep;
  struct omma_error cause;
  struct ommai_api_error error;
  bool slept = step->level > 0 && omma_engine_sleep(sleep->engine, &cause) == OMMA_OK;
  if (!slept) omma_engine_wake(sleep->engine);
  bool failed = step->level > 0 && !slept;
  if (failed) ommai_api_fail_from(&error, &cause);
  pthread_mutex_lock(&sleep->lock);
  TAILQ_REMOVE(&sleep->steps, step, listed);
  sleep->running = NULL;
  atomic_store(&sleep->level, failed ? 0 : step->level);
  set_refuses(sleep);
  pthread_mutex_unlock(&sleep->lock);
  advance(sleep);
  step->end(step, failed ? &error : NULL);
}

/* Has the first step carried out where it need not wait. */
static void advance(struct ommai_sleep *sleep) {
  pthread_mutex_lock(&sleep->lock);
  struct ommai_sleep_step *step = TAILQ_FIRST(&sleep->steps);
  bool ready = step && !sleep->running && (step->level == 0 || atomic_load(&sleep->n_working) == 0);
  if (ready) {
    sleep->running = step;
    step->job.run = run;
    ommai_job_queue_push_urgent(sleep->jobs, &step->job);
  }
  pthread_mutex_unlock(&sleep->lock);
}

/* Under the lock. */
static void take_waiting(struct ommai_sleep *sleep, struct ommai_sleep_steps *taken) {
  struct ommai_sleep_step *step = TAILQ_FIRST(&sleep->steps), *next;
  for (; step; step = next) {
    next = TAILQ_NEXT(step, listed);
    if (step == sleep->running || step->level == 0) continue;
    TAILQ_REMOVE(&sleep->steps, step, listed);
    TAILQ_INSERT_TAIL(taken, step, listed);
  }
}

void ommai_sleep_begin(struct ommai_sleep *sleep, struct ommai_sleep_step *step) {
  struct ommai_sleep_steps given_up = TAILQ_HEAD_INITIALIZER(given_up);
  struct ommai_api_error error;
  step->sleep = sleep;
  pthread_mutex_lock(&sleep->lock);
  if (step->level == 0) take_waiting(sleep, &given_up);
  TAILQ_INSERT_TAIL(&sleep->steps, step, listed);
  set_refuses(sleep);
  pthread_mutex_unlock(&sleep->lock);
  advance(sleep);
  ommai_api_fail(&error, 503, NULL, "The server was woken up before it slept.");
  while ((step = TAILQ_FIRST(&given_up))) {
    TAILQ_REMOVE(&given_up, step, listed);
    step->end(step, &error);
  }
}

void ommai_sleep_work_begins(struct ommai_sleep *sleep) { atomic_fetch_add(&sleep->n_working, 1); }

/* Either this thread sees that requests are refused, or the one that refuses them sees that none is
 * left. */
void ommai_sleep_work_ends(struct ommai_sleep *sleep) {
  if (atomic_fetch_sub(&sleep->n_working, 1) == 1 && atomic_load(&sleep->refuses)) advance(sleep);
}
