#include "cli/model/vector_run.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/diagnostics.h"
#include "cli/core/interrupt.h"

struct place {
  struct ommai_vector_run *run;
  struct omma_request *request; /* NULL: it failed before */
  uint64_t id;
  bool done; /* under the mutex */
  float *values;
  size_t capacity;       /* of values */
  int64_t n_rows, width; /* n_rows 0: it failed */
  struct omma_error error;
};

struct ommai_vector_run {
  struct omma_engine *engine;
  ommai_vector_taker take;
  void *context;
  pthread_mutex_t mutex;
  size_t first, count; /* of the places in use, a ring */
  struct place places[OMMAI_VECTOR_RUN_ROOM];
};

struct ommai_vector_run *ommai_vector_run_create(struct omma_engine *engine, ommai_vector_taker take, void *context) {
  struct ommai_vector_run *run = calloc(1, sizeof *run);
  if (!run) return NULL;
  run->engine = engine;
  run->take = take;
  run->context = context;
  pthread_mutex_init(&run->mutex, NULL);
  return run;
}

/* ---- on the engine's thread ---- */

static void on_vectors(void *context, const struct omma_vectors *vectors) {
  struct place *place = context;
  size_t n = (size_t)(vectors->n_rows * vectors->width);
  if (n > place->capacity) {
    free(place->values);
    place->values = malloc(n * sizeof *place->values);
    place->capacity = place->values ? n : 0;
    if (!place->values) return;
  }
  memcpy(place->values, vectors->values, n * sizeof *place->values);
  place->n_rows = vectors->n_rows;
  place->width = vectors->width;
}

static void on_finish(void *context, const struct omma_result *result) {
  struct place *place = context;
  struct ommai_vector_run *run = place->run;
  if (result->finish == OMMA_FINISH_ERROR) {
    place->error = result->error;
  } else if (!place->n_rows) {
    place->error = (struct omma_error){.status = OMMA_ERROR_MEMORY, .message = "out of memory: vectors"};
  }
  pthread_mutex_lock(&run->mutex);
  place->done = true;
  pthread_mutex_unlock(&run->mutex);
  ommai_interrupt_wake();
}

/* ---- on the caller's ---- */

static bool is_done(struct ommai_vector_run *run, const struct place *place) {
  pthread_mutex_lock(&run->mutex);
  bool done = place->done;
  pthread_mutex_unlock(&run->mutex);
  return done;
}

/* Hands the oldest one on, and waits for it. */
static int take_oldest(struct ommai_vector_run *run) {
  struct place *place = &run->places[run->first];
  while (!is_done(run, place)) {
    if (ommai_interrupted()) return ommai_interrupt_status();
    ommai_interrupt_wait();
  }
  omma_request_destroy(place->request);
  place->request = NULL;
  run->first = (run->first + 1) % OMMAI_VECTOR_RUN_ROOM;
  run->count--;
  const struct omma_vectors vectors = {place->n_rows, place->width, place->values};
  return run->take(run->context, place->n_rows ? &vectors : NULL, &place->error);
}

int ommai_vector_run_add(struct ommai_vector_run *run, struct omma_request *request, const struct omma_error *error) {
  int code = run->count == OMMAI_VECTOR_RUN_ROOM ? take_oldest(run) : OMMAI_EXIT_DONE;
  if (code != OMMAI_EXIT_DONE) {
    omma_request_destroy(request);
    return code;
  }
  struct place *place = &run->places[(run->first + run->count++) % OMMAI_VECTOR_RUN_ROOM];
  *place =
      (struct place){.run = run, .request = request, .values = place->values, .capacity = place->capacity, .done = !request};
  const struct omma_callbacks callbacks = {.context = place, .on_vectors = on_vectors, .on_finish = on_finish};
  if (!request) {
    place->error = *error;
  } else if (omma_engine_submit(run->engine, request, &callbacks, &place->id, &place->error) != OMMA_OK) {
    place->done = true;
  }
  return OMMAI_EXIT_DONE;
}

int ommai_vector_run_finish(struct ommai_vector_run *run) {
  int code = OMMAI_EXIT_DONE;
  while (run->count && code == OMMAI_EXIT_DONE) code = take_oldest(run);
  return code;
}

void ommai_vector_run_destroy(struct ommai_vector_run *run) {
  if (!run) return;
  for (size_t i = 0; i < run->count; i++) {
    struct place *place = &run->places[(run->first + i) % OMMAI_VECTOR_RUN_ROOM];
    if (!is_done(run, place)) omma_engine_cancel(run->engine, place->id);
    while (!is_done(run, place)) ommai_interrupt_wait();
    omma_request_destroy(place->request);
  }
  pthread_mutex_destroy(&run->mutex);
  for (size_t i = 0; i < OMMAI_VECTOR_RUN_ROOM; i++) free(run->places[i].values);
  free(run);
}
