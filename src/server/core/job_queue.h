/* The worker threads and the bounded queue in front of them. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stdint.h>

/* Embedded in what the job is about; in one queue at a time. `run` may free it. */
struct ommai_job {
  struct ommai_job *next;
  void (*run)(struct ommai_job *job);
  uint64_t client; /* whose it is: clients that differ take turns at grammars */
  bool large;      /* begins with much to read: leaves a worker to the others, as media do */
  int64_t turn;    /* the queue's */
};

struct ommai_job_queue;

/* Starts n_workers threads, at least 2, and one for grammars. `limit` bounds the jobs that wait,
 * media among them; 0: as many as there are. Errors: MEMORY, INTERNAL (a thread cannot be made;
 * those made are joined). */
enum omma_status ommai_job_queue_create(int n_workers, int64_t limit, const struct omma_allocator *allocator,
                                        struct ommai_job_queue **queue, struct omma_error *error);

/* Runs everything that is still queued, then joins the workers. */
void ommai_job_queue_destroy(struct ommai_job_queue *queue);

/* Queues a job; false when `limit` jobs are waiting: media, and n_others that wait elsewhere, are
 * among them. Any thread. */
bool ommai_job_queue_push(struct ommai_job_queue *queue, struct ommai_job *job, int64_t n_others);

/* Queues the second part of a request that was taken from the queue, which decodes images: never
 * refused, since the first part was counted. Such jobs take all workers but one, which is left for
 * the others. Any thread. */
void ommai_job_queue_push_media(struct ommai_job_queue *queue, struct ommai_job *job);

/* Queues a job that compiles a grammar, of a request that was taken from the queue: never refused.
 * A thread of its own with low priority runs these, and no others; one of each client in turn. Any
 * thread. */
void ommai_job_queue_push_grammar(struct ommai_job_queue *queue, struct ommai_job *job);

/* Queues the rest of a request that was taken from the queue: never refused. Any thread. */
void ommai_job_queue_push_again(struct ommai_job_queue *queue, struct ommai_job *job);

/* Queues a job that frees things: before the others and never refused. Any thread. */
void ommai_job_queue_push_urgent(struct ommai_job_queue *queue, struct ommai_job *job);
