#include "server/core/job_queue.h"

#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

#include "base/allocator.h"
#include "base/error.h"

/* The place of the grammars' thread behind others: under full load it gets a tenth of a core. */
enum { GRAMMAR_NICE = 10 };

struct job_list {
  struct ommai_job *head, *tail;
};

struct ommai_job_queue {
  const struct omma_allocator *allocator;
  pthread_mutex_t lock;
  pthread_cond_t filled;
  struct job_list urgent, media, normal;
  struct ommai_job *grammars; /* by their turns */
  int64_t turn;               /* of the last one that was taken */
  int n_grammars;             /* waiting and being run */
  int64_t n_waiting, limit;   /* media and normal */
  int n_media;                /* being run */
  bool stopping;
  pthread_t *threads;
  int n_workers, n_started;
  pthread_t grammar_thread;
  bool has_grammar_thread;
};

static void append(struct job_list *list, struct ommai_job *job) {
  job->next = NULL;
  if (list->tail) {
    list->tail->next = job;
  } else {
    list->head = job;
  }
  list->tail = job;
}

static struct ommai_job *take_first(struct job_list *list) {
  struct ommai_job *job = list->head;
  if (!job) return NULL;
  list->head = job->next;
  if (!list->head) list->tail = NULL;
  return job;
}

/* The next job, and whether it is one of media; or NULL when there is none and the queue is going
 * down. */
static struct ommai_job *wait_for_job(struct ommai_job_queue *queue, bool *media) {
  struct ommai_job *job;
  pthread_mutex_lock(&queue->lock);
  for (;;) {
    *media = false;
    job = take_first(&queue->urgent);
    if (job) break;
    *media = queue->n_media < queue->n_workers - 1;
    job = *media ? take_first(&queue->media) : NULL;
    if (!job) {
      *media = false;
      job = take_first(&queue->normal);
    }
    queue->n_waiting -= job != NULL;
    queue->n_media += *media;
    if (job || (queue->stopping && !queue->media.head && !queue->n_grammars)) break;
    pthread_cond_wait(&queue->filled, &queue->lock);
  }
  pthread_mutex_unlock(&queue->lock);
  return job;
}

/* One less is being run of `count`: n_media or n_grammars, which others may have waited for. */
static void end_job(struct ommai_job_queue *queue, int *count) {
  pthread_mutex_lock(&queue->lock);
  (*count)--;
  pthread_cond_broadcast(&queue->filled);
  pthread_mutex_unlock(&queue->lock);
}

static void *work(void *context) {
  pthread_setname_np(pthread_self(), "omma-worker");
  struct ommai_job_queue *queue = context;
  struct ommai_job *job;
  bool media;
  while ((job = wait_for_job(queue, &media))) {
    job->run(job);
    if (media) end_job(queue, &queue->n_media);
  }
  return NULL;
}

/* The next job of a grammar, or NULL when there is none and the queue is going down. */
static struct ommai_job *wait_for_grammar(struct ommai_job_queue *queue) {
  pthread_mutex_lock(&queue->lock);
  while (!queue->grammars && !queue->stopping) pthread_cond_wait(&queue->filled, &queue->lock);
  struct ommai_job *job = queue->grammars;
  if (job) {
    queue->grammars = job->next;
    queue->turn = job->turn;
    queue->n_waiting--;
  }
  pthread_mutex_unlock(&queue->lock);
  return job;
}

static void *compile(void *context) {
  pthread_setname_np(pthread_self(), "omma-grammars");
  /* of this thread alone, on Linux: the engine's answers go on meanwhile */
  (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + GRAMMAR_NICE);
  struct ommai_job_queue *queue = context;
  struct ommai_job *job;
  while ((job = wait_for_grammar(queue))) {
    job->run(job);
    end_job(queue, &queue->n_grammars);
  }
  return NULL;
}

static enum omma_status start_threads(struct ommai_job_queue *queue, struct omma_error *error) {
  int reason = pthread_create(&queue->grammar_thread, NULL, compile, queue);
  queue->has_grammar_thread = reason == 0;
  while (!reason && queue->n_started < queue->n_workers) {
    reason = pthread_create(&queue->threads[queue->n_started], NULL, work, queue);
    queue->n_started += reason == 0;
  }
  if (!reason) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_INTERNAL, "worker thread %d of %d cannot be made: %s", queue->n_started + 1,
                    queue->n_workers, strerror(reason));
}

enum omma_status ommai_job_queue_create(int n_workers, int64_t limit, const struct omma_allocator *allocator,
                                        struct ommai_job_queue **queue, struct omma_error *error) {
  enum omma_status status;
  struct ommai_job_queue *made = ommai_allocate(allocator, 1, sizeof *made);
  if (!made) return ommai_fail_memory(error, "job queue", sizeof *made);
  made->allocator = allocator;
  made->limit = limit;
  made->n_workers = n_workers;
  pthread_mutex_init(&made->lock, NULL);
  pthread_cond_init(&made->filled, NULL);
  made->threads = ommai_allocate(allocator, (size_t)n_workers, sizeof *made->threads);
  if (!made->threads) {
    status = ommai_fail_memory(error, "worker threads", (size_t)n_workers * sizeof *made->threads);
    goto failed;
  }
  OMMAI_TRY_GOTO(start_threads(made, error), failed);
  *queue = made;
  return OMMA_OK;
failed:
  ommai_job_queue_destroy(made);
  return status;
}

void ommai_job_queue_destroy(struct ommai_job_queue *queue) {
  if (!queue) return;
  pthread_mutex_lock(&queue->lock);
  queue->stopping = true;
  pthread_cond_broadcast(&queue->filled);
  pthread_mutex_unlock(&queue->lock);
  if (queue->has_grammar_thread) pthread_join(queue->grammar_thread, NULL);
  for (int i = 0; i < queue->n_started; i++) pthread_join(queue->threads[i], NULL);
  pthread_cond_destroy(&queue->filled);
  pthread_mutex_destroy(&queue->lock);
  ommai_release(queue->allocator, queue->threads, (size_t)queue->n_workers, sizeof *queue->threads);
  ommai_release(queue->allocator, queue, 1, sizeof *queue);
}

/* False where there are as many as may wait, n_others elsewhere among them; unlimited: never. */
static bool push(struct ommai_job_queue *queue, struct job_list *list, struct ommai_job *job, bool unlimited,
                 int64_t n_others) {
  pthread_mutex_lock(&queue->lock);
  bool accepted = unlimited || queue->limit == 0 || queue->n_waiting < queue->limit - n_others;
  if (accepted) {
    append(list, job);
    queue->n_waiting += list != &queue->urgent;
    pthread_cond_broadcast(&queue->filled);
  }
  pthread_mutex_unlock(&queue->lock);
  return accepted;
}

bool ommai_job_queue_push(struct ommai_job_queue *queue, struct ommai_job *job, int64_t n_others) {
  return push(queue, job->large ? &queue->media : &queue->normal, job, false, n_others);
}

void ommai_job_queue_push_media(struct ommai_job_queue *queue, struct ommai_job *job) {
  push(queue, &queue->media, job, true, 0);
}

/* Its client's next turn: one after those that the client waits for already. */
void ommai_job_queue_push_grammar(struct ommai_job_queue *queue, struct ommai_job *job) {
  pthread_mutex_lock(&queue->lock);
  struct ommai_job **place = &queue->grammars;
  job->turn = queue->turn + 1;
  for (const struct ommai_job *other = queue->grammars; other; other = other->next) {
    if (other->client == job->client && other->turn >= job->turn) job->turn = other->turn + 1;
  }
  while (*place && (*place)->turn <= job->turn) place = &(*place)->next;
  job->next = *place;
  *place = job;
  queue->n_waiting++;
  queue->n_grammars++;
  pthread_cond_broadcast(&queue->filled);
  pthread_mutex_unlock(&queue->lock);
}

void ommai_job_queue_push_again(struct ommai_job_queue *queue, struct ommai_job *job) {
  push(queue, &queue->normal, job, true, 0);
}

void ommai_job_queue_push_urgent(struct ommai_job_queue *queue, struct ommai_job *job) {
  push(queue, &queue->urgent, job, true, 0);
}
