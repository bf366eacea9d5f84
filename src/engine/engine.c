/* The engine: a bounded queue of typed jobs and the one thread that computes.
 *
 * The thread owns the resources (team, KV pages, workspaces) and the job in progress; nobody else touches them. It alone takes jobs out
 * of the queue and ends them, so that a request seen there stays until the thread is done with it. The queue, the
 * counters and the cancel marks are shared under one mutex, which is never held while the thread computes or calls back. */
#include <omma/omma.h>
#include <pthread.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/encode_call.h"
#include "engine/encode_job.h"
#include "engine/engine_limits.h"
#include "engine/resources.h"
#include "engine/sequence.h"

enum job_kind { JOB_GENERATE, JOB_ENCODE };

struct job {
  uint64_t id;
  enum job_kind kind;
  bool cancelled;
  int64_t submitted; /* ommai_clock_ns */
  const struct omma_request *request;
  struct omma_callbacks callbacks;
  struct ommai_encode_call *encode;
};

struct omma_engine {
  struct omma_allocator allocator;
  struct omma_model *model;
  struct ommai_resources resources; /* the thread's */
  struct ommai_sequence *sequence;  /* the thread's */
  pthread_t thread;
  bool has_thread;
  const struct omma_request **waiting; /* the thread's: [queue_limit] */

  pthread_mutex_t mutex;
  pthread_cond_t work;     /* a job was queued, or stop */
  pthread_cond_t finished; /* an encode call is through */
  struct job *queue;       /* ring [queue_limit] */
  int64_t queue_limit, queue_first, n_queued;
  uint64_t next_id, running_id; /* 0: none */
  bool running_cancelled, some_cancelled, stop;
  struct omma_engine_stats stats;
};

static struct job *queued(struct omma_engine *engine, int64_t index) {
  return &engine->queue[(engine->queue_first + index) % engine->queue_limit];
}

/* ---- the thread ---- */

static void count_finish(struct omma_engine *engine, const struct omma_result *result) {
  pthread_mutex_lock(&engine->mutex);
  engine->stats.n_finished[result->finish]++;
  engine->stats.prompt_tokens += result->n_prompt_tokens;
  engine->stats.generation_tokens += result->n_completion_tokens;
  pthread_mutex_unlock(&engine->mutex);
}

static void finish_generate(struct omma_engine *engine, const struct job *job, struct omma_result *result) {
  count_finish(engine, result);
  if (job->callbacks.on_finish) job->callbacks.on_finish(job->callbacks.context, result);
}

static void finish_encode(struct omma_engine *engine, struct ommai_encode_call *call, enum omma_status status,
                          const struct omma_error *error) {
  pthread_mutex_lock(&engine->mutex);
  call->status = status;
  if (status != OMMA_OK) call->error = *error;
  call->finished = true;
  pthread_cond_broadcast(&engine->finished);
  pthread_mutex_unlock(&engine->mutex);
}

static double seconds_since(int64_t start) { return (double)(ommai_clock_ns() - start) * 1e-9; }

/* Ends a job that never ran. */
static void drop(struct omma_engine *engine, const struct job *job) {
  struct omma_error error;
  if (job->kind == JOB_ENCODE) {
    ommai_fail(&error, OMMA_ERROR_CANCELLED, "encode: the engine is going down");
    finish_encode(engine, job->encode, OMMA_ERROR_CANCELLED, &error);
    return;
  }
  struct omma_result result = {
      .finish = OMMA_FINISH_CANCELLED, .stop_token = -1, .n_prompt_tokens = (int64_t)job->request->n_tokens};
  result.timings.queue = seconds_since(job->submitted);
  finish_generate(engine, job, &result);
}

/* Takes one cancelled job out of the queue (any job when the engine stops); false when there is none. */
static bool take_cancelled(struct omma_engine *engine, struct job *out) {
  bool found = false;
  pthread_mutex_lock(&engine->mutex);
  for (int64_t i = 0; i < engine->n_queued && !found; i++) {
    if (!queued(engine, i)->cancelled && !engine->stop) continue;
    *out = *queued(engine, i);
    for (int64_t j = i; j + 1 < engine->n_queued; j++) *queued(engine, j) = *queued(engine, j + 1);
    engine->n_queued--;
    found = true;
  }
  if (!found) engine->some_cancelled = false;
  pthread_mutex_unlock(&engine->mutex);
  return found;
}

/* Looks after the queue between two steps; true when the running job must end. */
static bool between_steps(struct omma_engine *engine) {
  pthread_mutex_lock(&engine->mutex);
  bool end = engine->running_cancelled || engine->stop;
  bool purge = engine->some_cancelled;
  pthread_mutex_unlock(&engine->mutex);
  struct job job;
  while (purge && take_cancelled(engine, &job)) drop(engine, &job);
  return end;
}

/* What others may know of the thread's own resources. */
static void publish(struct omma_engine *engine) {
  const struct ommai_kv_cache *kv = engine->resources.kv;
  const struct ommai_encoder_cache *cache = &engine->resources.encoder_cache;
  pthread_mutex_lock(&engine->mutex);
  engine->stats.kv_pages_used = kv->n_pages - kv->n_free;
  engine->stats.encoder_cache_bytes = cache->bytes;
  engine->stats.encoder_cache_hits = cache->n_hits;
  engine->stats.encoder_cache_misses = cache->n_misses;
  engine->stats.encoder_cache_evictions = cache->n_evictions;
  engine->stats.workspace_bytes =
      (int64_t)(engine->resources.sizes.language_workspace + engine->resources.vision_workspace_size);
  pthread_mutex_unlock(&engine->mutex);
}

static void count_pictures(struct omma_engine *engine, const struct ommai_encode_job *encode) {
  pthread_mutex_lock(&engine->mutex);
  engine->stats.images += encode->first;
  engine->stats.encoder_passes += encode->n_passes;
  for (int64_t i = 0; i < encode->first; i++) {
    const struct ommai_vision_input *input = &encode->inputs[i];
    int64_t n_planes = ommai_vision_input_planes(&engine->model->config.vision, input);
    engine->stats.patches += n_planes * input->grid_rows * input->grid_columns;
  }
  pthread_mutex_unlock(&engine->mutex);
}

/* Pictures of waiting requests go through the tower with those of the first. */
static void invite_waiting(struct omma_engine *engine) {
  int64_t n = 0;
  pthread_mutex_lock(&engine->mutex);
  for (int64_t i = 0; i < engine->n_queued; i++) {
    const struct job *job = queued(engine, i);
    if (job->kind == JOB_GENERATE && !job->cancelled) engine->waiting[n++] = job->request;
  }
  pthread_mutex_unlock(&engine->mutex);
  for (int64_t i = 0; i < n && ommai_sequence_invite(engine->sequence, engine->waiting[i]); i++) continue;
}

static void run_generate(struct omma_engine *engine, const struct job *job) {
  struct ommai_sequence *sequence = engine->sequence;
  struct omma_error error;
  double queue_seconds = seconds_since(job->submitted);
  bool done = false;
  enum omma_status status = ommai_sequence_start(&engine->resources, job->request, &job->callbacks, sequence, &error);
  if (status == OMMA_OK) invite_waiting(engine);
  while (status == OMMA_OK && !done) {
    if (between_steps(engine)) {
      sequence->result.finish = OMMA_FINISH_CANCELLED;
      break;
    }
    status = ommai_sequence_step(sequence, &done, &error);
    publish(engine);
  }
  struct omma_result result = sequence->result;
  result.timings.queue = queue_seconds;
  if (status != OMMA_OK) {
    result.finish = OMMA_FINISH_ERROR;
    result.error = error;
  }
  count_pictures(engine, &sequence->encode);
  ommai_sequence_free(sequence);
  publish(engine);
  finish_generate(engine, job, &result);
}

static void run_encode(struct omma_engine *engine, const struct job *job) {
  struct ommai_encode_call *call = job->encode;
  struct ommai_encode_job encode = {.resources = &engine->resources,
                                    .inputs = call->inputs,
                                    .n_inputs = call->n_inputs,
                                    .separate = call->separate,
                                    .clocks = call->clocks};
  struct omma_error error;
  enum omma_status status = OMMA_OK;
  bool done = false;
  while (status == OMMA_OK && !done) {
    if (between_steps(engine)) {
      status = ommai_fail(&error, OMMA_ERROR_CANCELLED, "encode: the engine is going down");
      break;
    }
    status = ommai_encode_step(&encode, &done, &error);
    if (status == OMMA_OK && call->progress) {
      int64_t at, total;
      ommai_encode_progress(&encode, &at, &total);
      call->progress(call->progress_context, at, total);
    }
  }
  count_pictures(engine, &encode);
  call->n_slices = encode.n_slices;
  call->longest_slice_ns = encode.longest_slice_ns;
  finish_encode(engine, call, status, &error);
}

/* Waits for a job and takes it; false when the engine stops. */
static bool take_job(struct omma_engine *engine, struct job *job) {
  pthread_mutex_lock(&engine->mutex);
  engine->running_id = 0;
  while (engine->n_queued == 0 && !engine->stop) pthread_cond_wait(&engine->work, &engine->mutex);
  bool stop = engine->stop;
  if (!stop) {
    *job = *queued(engine, 0);
    engine->queue_first = (engine->queue_first + 1) % engine->queue_limit;
    engine->n_queued--;
    engine->running_id = job->id;
    engine->running_cancelled = job->cancelled;
  }
  pthread_mutex_unlock(&engine->mutex);
  return !stop;
}

static void *engine_main(void *argument) {
  struct omma_engine *engine = argument;
  struct job job;
  while (take_job(engine, &job)) {
    if (job.kind == JOB_GENERATE) {
      run_generate(engine, &job);
    } else {
      run_encode(engine, &job);
    }
  }
  while (take_cancelled(engine, &job)) drop(engine, &job);
  return NULL;
}

/* ---- creation ---- */

static enum omma_status set_up(struct omma_engine *engine, const struct ommai_engine_sizes *sizes, struct omma_error *error) {
  engine->queue_limit = sizes->queue_limit;
  engine->queue = ommai_allocate(&engine->allocator, (size_t)sizes->queue_limit, sizeof *engine->queue);
  engine->waiting = ommai_allocate(&engine->allocator, (size_t)sizes->queue_limit, sizeof *engine->waiting);
  engine->sequence = ommai_allocate(&engine->allocator, 1, sizeof *engine->sequence);
  if (!engine->queue || !engine->waiting || !engine->sequence)
    return ommai_fail_memory(error, "engine", (size_t)sizes->queue_limit * sizeof *engine->queue);
  OMMAI_TRY(ommai_resources_create(engine->model, sizes, &engine->resources, error));
  engine->stats.alive = true;
  engine->stats.kv_pages = engine->resources.kv->n_pages;
  if (pthread_create(&engine->thread, NULL, engine_main, engine) != 0) {
    return ommai_fail(error, OMMA_ERROR_INTERNAL, "engine: cannot start its thread");
  }
  engine->has_thread = true;
  return OMMA_OK;
}

enum omma_status omma_engine_create(struct omma_model *model, const struct omma_engine_options *options,
                                    struct omma_engine **out, struct omma_error *error) {
  struct ommai_engine_sizes sizes;
  if (model->config_only) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "model", "engine: the model was opened without its weights");
  }
  OMMAI_TRY(ommai_engine_sizes(model, options, &sizes, error));
  if (atomic_exchange(&model->has_engine, true)) {
    return ommai_fail(error, OMMA_ERROR_BUSY, "engine: the model has one already");
  }
  struct omma_engine *engine = ommai_allocate(&model->allocator, 1, sizeof *engine);
  if (!engine) {
    atomic_store(&model->has_engine, false);
    return ommai_fail_memory(error, "engine", sizeof *engine);
  }
  engine->allocator = model->allocator;
  engine->model = model;
  engine->next_id = 1;
  pthread_mutex_init(&engine->mutex, NULL);
  pthread_cond_init(&engine->work, NULL);
  pthread_cond_init(&engine->finished, NULL);
  enum omma_status status = set_up(engine, &sizes, error);
  if (status != OMMA_OK) {
    omma_engine_destroy(engine);
    return status;
  }
  *out = engine;
  return OMMA_OK;
}

void omma_engine_destroy(struct omma_engine *engine) {
  if (!engine) return;
  if (engine->has_thread) {
    pthread_mutex_lock(&engine->mutex);
    engine->stop = true;
    engine->stats.alive = false;
    pthread_cond_signal(&engine->work);
    pthread_mutex_unlock(&engine->mutex);
    pthread_join(engine->thread, NULL);
  }
  ommai_resources_free(&engine->resources);
  pthread_mutex_destroy(&engine->mutex);
  pthread_cond_destroy(&engine->work);
  pthread_cond_destroy(&engine->finished);
  struct omma_allocator allocator = engine->allocator;
  ommai_release(&allocator, engine->queue, (size_t)engine->queue_limit, sizeof *engine->queue);
  ommai_release(&allocator, engine->waiting, (size_t)engine->queue_limit, sizeof *engine->waiting);
  ommai_release(&allocator, engine->sequence, 1, sizeof *engine->sequence);
  atomic_store(&engine->model->has_engine, false);
  ommai_release(&allocator, engine, 1, sizeof *engine);
}

/* ---- calls from other threads ---- */

static enum omma_status enqueue(struct omma_engine *engine, const struct job *job, uint64_t *id, struct omma_error *error) {
  enum omma_status status = OMMA_OK;
  pthread_mutex_lock(&engine->mutex);
  if (engine->stop) {
    status = ommai_fail(error, OMMA_ERROR_CANCELLED, "engine: going down");
  } else if (engine->n_queued == engine->queue_limit) {
    status = ommai_fail(error, OMMA_ERROR_BUSY, "engine: %lld requests are waiting, the limit", (long long)engine->queue_limit);
  } else {
    struct job *slot = queued(engine, engine->n_queued++);
    *slot = *job;
    slot->id = engine->next_id++;
    if (id) *id = slot->id;
    pthread_cond_signal(&engine->work);
  }
  pthread_mutex_unlock(&engine->mutex);
  return status;
}

enum omma_status ommai_engine_check_length(const struct omma_engine *engine, size_t n_tokens, struct omma_error *error) {
  int64_t context = engine->resources.sizes.context;
  if ((int64_t)n_tokens < context) return OMMA_OK;
  return ommai_fail_field(
      error, OMMA_ERROR_LIMIT, "input_tokens",
      "This model's maximum context length is %lld tokens, as many as the memory for keys and values holds here. "
      "However, your prompt contains %zu input tokens. Please reduce the length of the input prompt",
      (long long)context, n_tokens);
}

int64_t omma_engine_max_model_len(const struct omma_engine *engine) { return engine->resources.sizes.context; }

enum omma_status omma_engine_submit(struct omma_engine *engine, const struct omma_request *request,
                                    const struct omma_callbacks *callbacks, uint64_t *id, struct omma_error *error) {
  static const struct omma_callbacks none = {0};
  OMMAI_TRY(ommai_engine_check_length(engine, request->n_tokens, error));
  const struct job job = {
      .kind = JOB_GENERATE, .submitted = ommai_clock_ns(), .request = request, .callbacks = callbacks ? *callbacks : none};
  return enqueue(engine, &job, id, error);
}

void omma_engine_cancel(struct omma_engine *engine, uint64_t id) {
  pthread_mutex_lock(&engine->mutex);
  if (id && id == engine->running_id) engine->running_cancelled = true;
  for (int64_t i = 0; i < engine->n_queued; i++) {
    if (queued(engine, i)->id != id) continue;
    queued(engine, i)->cancelled = true;
    engine->some_cancelled = true;
  }
  pthread_mutex_unlock(&engine->mutex);
}

void omma_engine_get_stats(const struct omma_engine *engine, struct omma_engine_stats *stats) {
  pthread_mutex_t *mutex = (pthread_mutex_t *)(uintptr_t)&engine->mutex;
  pthread_mutex_lock(mutex);
  *stats = engine->stats;
  stats->n_waiting = engine->n_queued;
  stats->n_running = engine->running_id != 0;
  pthread_mutex_unlock(mutex);
}

/* What omma_generate waits on. */
struct waiter {
  struct omma_callbacks inner;
  pthread_mutex_t mutex;
  pthread_cond_t finished;
  bool done;
  struct omma_result result;
};

static void waiter_progress(void *context, enum omma_stage stage, int64_t done, int64_t total) {
  struct waiter *waiter = context;
  if (waiter->inner.on_progress) waiter->inner.on_progress(waiter->inner.context, stage, done, total);
}

static bool waiter_token(void *context, const struct omma_token_event *event) {
  struct waiter *waiter = context;
  return !waiter->inner.on_token || waiter->inner.on_token(waiter->inner.context, event);
}

static void waiter_finish(void *context, const struct omma_result *result) {
  struct waiter *waiter = context;
  if (waiter->inner.on_finish) waiter->inner.on_finish(waiter->inner.context, result);
  pthread_mutex_lock(&waiter->mutex);
  waiter->result = *result;
  waiter->done = true;
  pthread_cond_signal(&waiter->finished);
  pthread_mutex_unlock(&waiter->mutex);
}

enum omma_status omma_generate(struct omma_engine *engine, const struct omma_request *request,
                               const struct omma_callbacks *callbacks, struct omma_result *result, struct omma_error *error) {
  struct waiter waiter = {0};
  if (callbacks) waiter.inner = *callbacks;
  pthread_mutex_init(&waiter.mutex, NULL);
  pthread_cond_init(&waiter.finished, NULL);
  const struct omma_callbacks wrapped = {&waiter, waiter_progress, waiter_token, waiter_finish};
  enum omma_status status = omma_engine_submit(engine, request, &wrapped, NULL, error);
  if (status == OMMA_OK) {
    pthread_mutex_lock(&waiter.mutex);
    while (!waiter.done) pthread_cond_wait(&waiter.finished, &waiter.mutex);
    pthread_mutex_unlock(&waiter.mutex);
    if (result) *result = waiter.result;
    if (waiter.result.finish == OMMA_FINISH_ERROR) {
      status = waiter.result.error.status;
      if (error) *error = waiter.result.error;
    }
  }
  pthread_mutex_destroy(&waiter.mutex);
  pthread_cond_destroy(&waiter.finished);
  return status;
}

enum omma_status ommai_engine_encode(struct omma_engine *engine, struct ommai_encode_call *call, struct omma_error *error) {
  const struct job job = {.kind = JOB_ENCODE, .submitted = ommai_clock_ns(), .encode = call};
  OMMAI_TRY(enqueue(engine, &job, NULL, error));
  pthread_mutex_lock(&engine->mutex);
  while (!call->finished) pthread_cond_wait(&engine->finished, &engine->mutex);
  pthread_mutex_unlock(&engine->mutex);
  if (call->status != OMMA_OK && error) *error = call->error;
  return call->status;
}

const struct omma_model *ommai_engine_model(const struct omma_engine *engine) { return engine->model; }
