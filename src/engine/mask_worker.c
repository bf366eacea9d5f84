#include "engine/mask_worker.h"

static void *worker_main(void *argument) {
  struct ommai_mask_worker *worker = argument;
  pthread_mutex_lock(&worker->mutex);
  while (!worker->stop) {
    if (worker->n_tasks == 0) {
      pthread_cond_wait(&worker->changed, &worker->mutex);
      continue;
    }
    const struct ommai_mask_task *tasks = worker->tasks;
    int64_t n = worker->n_tasks;
    pthread_mutex_unlock(&worker->mutex);
    for (int64_t i = 0; i < n; i++) ommai_structured_answer_prepare(tasks[i].answer, tasks[i].guesses, tasks[i].n_guesses);
    pthread_mutex_lock(&worker->mutex);
    worker->n_tasks = 0;
    pthread_cond_signal(&worker->changed);
  }
  pthread_mutex_unlock(&worker->mutex);
  return NULL;
}

static bool start(struct ommai_mask_worker *worker) {
  if (worker->has_thread) return true;
  pthread_mutex_init(&worker->mutex, NULL);
  pthread_cond_init(&worker->changed, NULL);
  worker->has_thread = pthread_create(&worker->thread, NULL, worker_main, worker) == 0;
  if (worker->has_thread) return true;
  pthread_cond_destroy(&worker->changed);
  pthread_mutex_destroy(&worker->mutex);
  return false;
}

void ommai_mask_worker_begin(struct ommai_mask_worker *worker, const struct ommai_mask_task *tasks, int64_t n_tasks) {
  if (n_tasks == 0 || !start(worker)) return;
  pthread_mutex_lock(&worker->mutex);
  worker->tasks = tasks;
  worker->n_tasks = n_tasks;
  pthread_cond_signal(&worker->changed);
  pthread_mutex_unlock(&worker->mutex);
}

void ommai_mask_worker_wait(struct ommai_mask_worker *worker) {
  if (!worker->has_thread) return;
  pthread_mutex_lock(&worker->mutex);
  while (worker->n_tasks) pthread_cond_wait(&worker->changed, &worker->mutex);
  pthread_mutex_unlock(&worker->mutex);
}

void ommai_mask_worker_free(struct ommai_mask_worker *worker) {
  if (!worker->has_thread) return;
  pthread_mutex_lock(&worker->mutex);
  worker->stop = true;
  pthread_cond_signal(&worker->changed);
  pthread_mutex_unlock(&worker->mutex);
  pthread_join(worker->thread, NULL);
  pthread_cond_destroy(&worker->changed);
  pthread_mutex_destroy(&worker->mutex);
}
