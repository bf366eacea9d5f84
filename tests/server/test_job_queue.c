/* Workers and the jobs in front of them: large ones leave a worker to the others. */
#include "server/core/job_queue.h"

#include <semaphore.h>

#include "base/allocator.h"
#include "support/test.h"

enum { N_WORKERS = 3, N_LARGE = 5 };

static sem_t begun, may_end, done;

static void run_large(struct ommai_job *job) {
  (void)job;
  sem_post(&begun);
  sem_wait(&may_end);
}

static void run_small(struct ommai_job *job) {
  (void)job;
  sem_post(&done);
}

/* Two of the three workers are at large jobs, more of which wait; a small one that comes last runs
 * at once. */
static void small_jobs_pass_large_ones(void **state) {
  (void)state;
  struct ommai_job large[N_LARGE] = {{0}}, small = {.run = run_small};
  struct ommai_job_queue *queue;
  struct omma_error error;
  sem_init(&begun, 0, 0);
  sem_init(&may_end, 0, 0);
  sem_init(&done, 0, 0);
  assert_ok(ommai_job_queue_create(N_WORKERS, 0, &ommai_default_allocator, &queue, &error), &error);
  for (int i = 0; i < N_LARGE; i++) {
    large[i] = (struct ommai_job){.run = run_large, .large = true};
    assert_true(ommai_job_queue_push(queue, &large[i], 0));
  }
  for (int i = 0; i < N_WORKERS - 1; i++) sem_wait(&begun);
  assert_true(ommai_job_queue_push(queue, &small, 0));
  sem_wait(&done);
  assert_int_not_equal(sem_trywait(&begun), 0); /* no third large one */
  for (int i = 0; i < N_LARGE; i++) sem_post(&may_end);
  ommai_job_queue_destroy(queue);
  for (int i = N_WORKERS - 1; i < N_LARGE; i++) assert_int_equal(sem_trywait(&begun), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(small_jobs_pass_large_ones)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
