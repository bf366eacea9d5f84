/* The public calls of an engine, which is one or several that callers see as one. */
#include "engine/engine_api.h"

#include "base/allocator.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/sized.h"
#include "engine/embeddings.h"
#include "engine/engine_measure.h"
#include "engine/engine_set.h"
#include "engine/engine_stats.h"
#include "request/request.h"
#include "runner/cpu_runner.h"

/* While somebody waits for engines to sleep, it is looked this often whether they are out. */
#define LOOK_NS INT64_C(100000000)

static enum omma_status create_set(struct omma_model *model, const struct ommai_runner_source *source,
                                   struct ommai_engine_sizes *sizes, const struct omma_engine_options *options,
                                   struct omma_engine **out, struct omma_error *error) {
  struct omma_engine *engines[OMMAI_MAX_ENGINES];
  struct ommai_engine_set *set;
  enum omma_status status = OMMA_OK;
  int n = 0;
  while (n < model->n_engines && status == OMMA_OK) {
    sizes->limits.engine = n;
    status = ommai_engine_create_one(model, source, sizes, options, &engines[n], error);
    if (status == OMMA_OK) n++;
  }
  if (status == OMMA_OK) status = ommai_engine_set_create(engines, n, options, &set, error);
  if (status == OMMA_OK) {
    *out = engines[0];
    return OMMA_OK;
  }
  while (n > 0) ommai_engine_free(engines[--n]);
  return status;
}

enum omma_status ommai_engine_create(struct omma_model *model, const struct ommai_runner_source *source,
                                     const struct omma_engine_options *options, struct omma_engine **out,
                                     struct omma_error *error) {
  static const struct omma_engine_options defaults = {0};
  struct ommai_engine_sizes sizes;
  OMMAI_TRY(ommai_engine_sizes(model, source, options, &sizes, error));
  if (atomic_exchange(&model->has_engine, true)) {
    return ommai_fail(error, OMMA_ERROR_BUSY, "engine: the model has one already");
  }
  enum omma_status status = model->n_engines > 1 ? create_set(model, source, &sizes, options ? options : &defaults, out, error)
                                                 : ommai_engine_create_one(model, source, &sizes, options, out, error);
  if (status != OMMA_OK) atomic_store(&model->has_engine, false);
  return status;
}

int omma_engine_count(const struct omma_engine *engine) { return engine->set ? ommai_engine_set_size(engine->set) : 1; }

/* The index-th of those that the caller sees as this one. */
static struct omma_engine *engine_at(const struct omma_engine *engine, int index) {
  return engine->set ? ommai_engine_set_at(engine->set, index) : (struct omma_engine *)(uintptr_t)engine;
}

enum omma_status ommai_engine_start(struct omma_engine *engine, struct omma_error *error) {
  for (int i = 0; i < omma_engine_count(engine); i++) OMMAI_TRY(ommai_engine_start_one(engine_at(engine, i), error));
  return OMMA_OK;
}

enum omma_status omma_engine_create(struct omma_model *model, const struct omma_engine_options *options,
                                    struct omma_engine **out, struct omma_error *error) {
  const struct ommai_runner_source source = ommai_cpu_runner_source(model);
  struct omma_engine *engine;
  OMMAI_TAKE_OPTIONS(omma_engine_options, options, error);
  if (model->config_only) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "model", "engine: the model was opened without its weights");
  }
  OMMAI_TRY(ommai_engine_create(model, &source, options, &engine, error));
  enum omma_status status = ommai_engine_start(engine, error);
  if (status != OMMA_OK) {
    omma_engine_destroy(engine);
    return status;
  }
  *out = engine;
  return OMMA_OK;
}

/* An engine that does not end keeps the model: it may yet go on. */
void omma_engine_destroy(struct omma_engine *engine) {
  if (!engine) return;
  struct omma_model *model = engine->model;
  if (engine->set) {
    model->is_kept = ommai_engine_set_destroy(engine->set);
  } else {
    ommai_engine_begin_stop(engine);
    ommai_engine_end_stop(engine, -1);
    ommai_engine_free(engine);
  }
  atomic_store(&model->has_engine, model->is_kept);
}

/* ---- calls from other threads ---- */

int64_t omma_engine_max_model_len(const struct omma_engine *engine) { return engine->resources.sizes.limits.context; }

/* Whether the engine serves requests of this kind. */
static enum omma_status check_kind(const struct ommai_runner_facts *facts, const struct omma_request *request,
                                   struct omma_error *error) {
  static const char *const names[] = {"default", "generate", "encode", "embed", "score"};
  if (!(facts->kinds >> request->kind & 1)) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "kind", "kind: this engine serves no requests to %s",
                            names[request->kind]);
  }
  if (request->kind != OMMA_REQUEST_ENCODE || request->n_images) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "messages", "messages: no image, and nothing but images is encoded here");
}

enum omma_status omma_engine_submit(struct omma_engine *engine, const struct omma_request *request,
                                    const struct omma_callbacks *callbacks, uint64_t *id, struct omma_error *error) {
  OMMAI_TAKE_OPTIONS(omma_callbacks, callbacks, error);
  const struct ommai_engine_sizes *sizes = &engine->resources.sizes;
  OMMAI_TRY(ommai_request_check_context(sizes->limits.context, request->n_tokens, error));
  OMMAI_TRY(check_kind(&sizes->facts, request, error));
  return engine->set ? ommai_engine_set_submit(engine->set, request, callbacks, id, error)
                     : ommai_engine_submit_alone(engine, request, callbacks, id, error);
}

void omma_engine_cancel(struct omma_engine *engine, uint64_t id) {
  if (engine->set) {
    ommai_engine_set_cancel(engine->set, id);
  } else {
    ommai_request_queue_cancel(&engine->shared->queue, id);
  }
}

/* One that is out sleeps as soon as it goes on, and is not waited for. */
static enum omma_status await_sleep(struct omma_engine *engine, int index, struct omma_error *error) {
  struct ommai_request_queue *queue = &engine_at(engine, index)->shared->queue;
  for (;;) {
    enum ommai_queue_sleep found = ommai_request_queue_settle(queue, LOOK_NS);
    if (found == OMMAI_QUEUE_ASLEEP) return OMMA_OK;
    if (found == OMMAI_QUEUE_AWAKE) return ommai_fail(error, OMMA_ERROR_CANCELLED, "engine: it does not sleep any more");
    if (engine->set && ommai_engine_set_is_out(engine->set, index)) return OMMA_OK;
  }
}

/* Threads that prepare requests may not know yet. The store is closed before engines are put to
 * sleep, and opened after they are woken: whoever wakes them at the same time, it does not stay
 * closed. */
enum omma_status omma_engine_sleep(struct omma_engine *engine, struct omma_error *error) {
  ommai_image_store_close(engine->model->image_store);
  for (int i = 0; i < omma_engine_count(engine); i++) ommai_request_queue_sleep(&engine_at(engine, i)->shared->queue);
  for (int i = 0; i < omma_engine_count(engine); i++) OMMAI_TRY(await_sleep(engine, i, error));
  if (engine->set) ommai_engine_set_forget(engine->set);
  ommai_trim();
  return OMMA_OK;
}

void omma_engine_wake(struct omma_engine *engine) {
  for (int i = 0; i < omma_engine_count(engine); i++) ommai_request_queue_wake(&engine_at(engine, i)->shared->queue);
  ommai_image_store_open(engine->model->image_store);
}

void omma_engine_get_stats_of(const struct omma_engine *engine, int index, struct omma_engine_stats *stats) {
  ommai_engine_get_stats_alone(engine_at(engine, index), stats);
  if (engine->set && ommai_engine_set_is_out(engine->set, index)) stats->alive = false;
}

void omma_engine_get_stats(const struct omma_engine *engine, struct omma_engine_stats *stats) {
  omma_engine_get_stats_of(engine, 0, stats);
  for (int i = 1; i < omma_engine_count(engine); i++) {
    struct omma_engine_stats more;
    omma_engine_get_stats_of(engine, i, &more);
    ommai_engine_stats_add(stats, &more);
  }
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

static void waiter_prompt_token(void *context, const struct omma_prompt_token_event *event) {
  struct waiter *waiter = context;
  if (waiter->inner.on_prompt_token) waiter->inner.on_prompt_token(waiter->inner.context, event);
}

static void waiter_embeddings(void *context, struct omma_embeddings *embeddings) {
  struct waiter *waiter = context;
  if (waiter->inner.on_embeddings) {
    waiter->inner.on_embeddings(waiter->inner.context, embeddings);
  } else {
    omma_embeddings_destroy(embeddings);
  }
}

static void waiter_vectors(void *context, const struct omma_vectors *vectors) {
  struct waiter *waiter = context;
  if (waiter->inner.on_vectors) waiter->inner.on_vectors(waiter->inner.context, vectors);
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
  OMMAI_TAKE_OPTIONS(omma_callbacks, callbacks, error);
  waiter.inner = *callbacks;
  pthread_mutex_init(&waiter.mutex, NULL);
  pthread_cond_init(&waiter.finished, NULL);
  const struct omma_callbacks wrapped = {.context = &waiter,
                                         .on_progress = waiter_progress,
                                         .on_token = waiter_token,
                                         .on_finish = waiter_finish,
                                         .on_prompt_token = waiter_prompt_token,
                                         .on_embeddings = waiter_embeddings,
                                         .on_vectors = waiter_vectors};
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

static enum omma_status encode(struct omma_engine *engine, struct ommai_encode_call *call, struct omma_error *error) {
  int64_t work = 0;
  if (!engine->set) return ommai_engine_encode_alone(engine, call, error);
  for (int64_t i = 0; i < call->n_images; i++) work += call->images[i].sizes.n_patches;
  struct omma_engine *chosen = ommai_engine_set_begin_encode(engine->set, work);
  if (!chosen) return ommai_fail(error, OMMA_ERROR_INTERNAL, "engine: none answers");
  enum omma_status status = ommai_engine_encode_alone(chosen, call, error);
  ommai_engine_set_end_encode(engine->set, chosen, work);
  return status;
}

/* `resized` seconds were over before the tower began. */
static struct omma_encode_timings read_times(const struct ommai_encode_call *call, double resized, double total) {
  const struct ommai_encode_times *times = &call->times;
  struct omma_encode_timings timings = {
      .total = total,
      .preprocess = resized + times->cut,
      .patch_embed = times->embed,
      .attention = times->attention,
      .linear = times->linear,
      .longest_slice = (double)call->longest_slice_ns * 1e-9,
      .n_slices = call->n_slices,
  };
  timings.rest = total - timings.preprocess - timings.patch_embed - timings.attention - timings.linear;
  return timings;
}

enum omma_status omma_encode(struct omma_engine *engine, const struct omma_image *const *images, size_t n_images,
                             const struct omma_image_options *options, bool together, omma_progress progress,
                             void *progress_context, struct omma_embeddings **out, struct omma_error *error) {
  double start = ommai_clock_seconds();
  struct ommai_encode_call call = {.separate = !together, .progress = progress, .progress_context = progress_context};
  struct omma_embeddings *embeddings = NULL;
  if (n_images == 0) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "image", "encode: expected at least one image");
  OMMAI_TRY(ommai_embeddings_prepare(engine->model, &engine->resources.sizes.facts.image, images, n_images, options, &call,
                                     &embeddings, error));
  double resized = ommai_clock_seconds() - start;
  enum omma_status status = encode(engine, &call, error);
  struct omma_encode_timings timings = read_times(&call, resized, ommai_clock_seconds() - start);
  ommai_embeddings_set_timings(embeddings, &timings);
  if (status != OMMA_OK) {
    omma_embeddings_destroy(embeddings);
    return status;
  }
  *out = embeddings;
  return OMMA_OK;
}
