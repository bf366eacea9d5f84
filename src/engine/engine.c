/* One engine, and the one thread that computes; engine_api.c has the public calls. */
#include "engine/engine.h"

#include "base/allocator.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/plural.h"
#include "base/sized.h"
#include "base/team.h"
#include "engine/engine_stats.h"
#include "request/request.h"

/* Between two reports to requests that wait. */
#define WAITING_REPORT_NS INT64_C(500000000)

/* ---- the thread ---- */

static void count_finish(struct omma_engine *engine, const struct omma_result *result) {
  struct omma_engine_stats *stats = &engine->resources.stats;
  stats->n_finished[result->finish]++;
  stats->prompt_tokens += result->n_prompt_tokens;
  stats->generation_tokens += result->n_completion_tokens;
  stats->cached_prompt_tokens += result->n_cached_tokens;
}

/* Logs what was evicted since the last turn. */
static void debug_evictions(struct omma_engine *engine) {
  const struct omma_log *log = &engine->model->log;
  if (!log->line) return;
  int64_t pages = ommai_state_pool_counts(engine->resources.pool).n_evictions;
  int64_t images = ommai_encoder_cache_counts(&engine->resources.encoder_cache).n_evictions;
  if (pages > engine->logged_pages) {
    OMMAI_DEBUG(log, "prefix cache: %lld page%s evicted", (long long)(pages - engine->logged_pages),
                ommai_plural(pages - engine->logged_pages));
  }
  if (images > engine->logged_images) {
    OMMAI_DEBUG(log, "encoder cache: %lld image%s evicted", (long long)(images - engine->logged_images),
                ommai_plural(images - engine->logged_images));
  }
  engine->logged_pages = pages;
  engine->logged_images = images;
}

/* Completes the thread's counters with what its parts know, and shows others a copy. */
static void publish(struct omma_engine *engine) {
  const struct ommai_page_counts pages = ommai_state_pool_counts(engine->resources.pool);
  const struct ommai_page_counts snapshots = ommai_state_pool_snapshot_counts(engine->resources.pool);
  const struct ommai_encoder_cache_counts cache = ommai_encoder_cache_counts(&engine->resources.encoder_cache);
  const struct ommai_encoding_share *share = &engine->resources.share;
  const struct ommai_runner *runner = engine->resources.runner;
  struct omma_engine_stats *stats = &engine->resources.stats;
  stats->kv_pages_used = pages.n_used;
  stats->kv_pages_kept = pages.n_kept;
  stats->kv_pages_published = pages.n_published;
  stats->snapshots_used = snapshots.n_used;
  stats->snapshots_published = snapshots.n_published;
  stats->snapshot_hits = engine->resources.pool->n_snapshot_hits;
  stats->snapshot_evictions = snapshots.n_evictions;
  stats->n_waiting = ommai_scheduler_n_waiting(&engine->scheduler, &stats->n_preempted);
  stats->encoder_cache_bytes = cache.bytes;
  stats->encoder_cache_hits = cache.n_hits;
  stats->encoder_cache_misses = cache.n_misses;
  stats->encoder_cache_evictions = cache.n_evictions;
  stats->encoding_store_hits = atomic_load(&share->n_hits);
  stats->encoding_store_misses = atomic_load(&share->n_misses);
  stats->encoding_store_not_finite = atomic_load(&share->n_not_finite);
  stats->workspace_bytes = (int64_t)runner->functions->workspace_bytes(runner);
  pthread_mutex_lock(&engine->shared->mutex);
  stats->alive = engine->shared->stats.alive;
  engine->shared->stats = *stats;
  pthread_mutex_unlock(&engine->shared->mutex);
}

/* A client that has its answer sees the counters with it. */
static void finish_generate(void *context, uint64_t id, const struct omma_callbacks *callbacks,
                            const struct omma_result *result) {
  struct omma_engine *engine = context;
  ommai_request_queue_done(&engine->shared->queue, id);
  count_finish(engine, result);
  publish(engine);
  if (callbacks->on_finish) callbacks->on_finish(callbacks->context, result);
}

static void finish_encode(void *context, struct ommai_encode_call *call, enum omma_status status,
                          const struct omma_error *error) {
  struct omma_engine *engine = context;
  publish(engine);
  pthread_mutex_lock(&engine->shared->mutex);
  call->status = status;
  if (status != OMMA_OK) call->error = *error;
  call->finished = true;
  pthread_cond_broadcast(&engine->shared->finished);
  pthread_mutex_unlock(&engine->shared->mutex);
}

/* Ends a request that never ran. */
static void finish_cancelled(struct omma_engine *engine, const struct ommai_queued_request *queued) {
  struct omma_error error;
  if (queued->encode) {
    ommai_fail(&error, OMMA_ERROR_CANCELLED, "encode: the engine is going down");
    finish_encode(engine, queued->encode, OMMA_ERROR_CANCELLED, &error);
    return;
  }
  struct omma_result result = {
      .finish = OMMA_FINISH_CANCELLED, .stop_token = -1, .n_prompt_tokens = (int64_t)queued->request->n_tokens};
  result.timings.queue = (double)(ommai_resources_now(&engine->resources) - queued->submitted) * 1e-9;
  count_finish(engine, &result);
  if (queued->callbacks.on_finish) queued->callbacks.on_finish(queued->callbacks.context, &result);
}

/* Tells those that wait how many go before them: at once, and when that has changed since the last
 * report to all. */
static void report_waiting(struct omma_engine *engine) {
  struct ommai_request_queue *queue = &engine->shared->queue;
  struct ommai_queued_request *queued = ommai_request_queue_next(queue, NULL);
  int64_t now = ommai_resources_now(&engine->resources), place = 0;
  bool due = now - engine->reported_waiting >= WAITING_REPORT_NS;
  if (due) engine->reported_waiting = now;
  for (; queued; queued = ommai_request_queue_next(queue, queued)) {
    if (queued->encode) continue;
    place++;
    if (!queued->callbacks.on_progress || queued->reported_place == place || (queued->reported_place && !due)) continue;
    queued->reported_place = place;
    queued->callbacks.on_progress(queued->callbacks.context, OMMA_STAGE_QUEUED, 0, place);
  }
}

/* Between two turns: ends what was cancelled, and takes in what the scheduler admits. */
static void look_after_queue(struct omma_engine *engine) {
  struct ommai_request_queue *queue = &engine->shared->queue;
  struct ommai_queued_request taken, *first;
  uint64_t id;
  while (ommai_request_queue_take_cancelled(queue, &taken)) finish_cancelled(engine, &taken);
  while (ommai_request_queue_running_cancelled(queue, &id)) ommai_scheduler_cancel(&engine->scheduler, id);
  while ((first = ommai_request_queue_next(queue, NULL)) && ommai_scheduler_admits(&engine->scheduler, first)) {
    ommai_request_queue_take(queue, first, &taken);
    ommai_scheduler_add(&engine->scheduler, &taken);
  }
  report_waiting(engine);
}

/* Once nothing is left that runs. */
static void fall_asleep(struct omma_engine *engine) {
  if (!ommai_request_queue_may_sleep(&engine->shared->queue) || ommai_scheduler_has_work(&engine->scheduler)) return;
  ommai_resources_give_back(&engine->resources);
  publish(engine);
  ommai_request_queue_sleeps(&engine->shared->queue);
}

void ommai_engine_turn(struct omma_engine *engine) {
  look_after_queue(engine);
  publish(engine);
  ommai_scheduler_turn(&engine->scheduler);
  debug_evictions(engine);
  publish(engine);
  fall_asleep(engine);
}

/* Ends everything once the queue takes nothing more. */
static void wind_down(struct omma_engine *engine) {
  struct ommai_queued_request queued;
  ommai_scheduler_cancel_all(&engine->scheduler);
  while (ommai_request_queue_take_cancelled(&engine->shared->queue, &queued)) finish_cancelled(engine, &queued);
}

static void *engine_main(void *argument) {
  pthread_setname_np(pthread_self(), "omma-engine");
  struct omma_engine *engine = argument;
  cpu_set_t ignored;
  if (engine->model->pin_threads) ommai_team_bind_caller(engine->model->network.n_threads, &ignored);
  while (ommai_request_queue_wait(&engine->shared->queue, ommai_scheduler_has_work(&engine->scheduler))) {
    if (engine->set) atomic_store(&engine->turn_began, ommai_clock_ns());
    ommai_engine_turn(engine);
    if (engine->set) atomic_store(&engine->turn_began, 0);
  }
  wind_down(engine);
  return NULL;
}

/* ---- creation ---- */

static enum omma_status set_up(struct omma_engine *engine, const struct ommai_runner_source *source,
                               const struct ommai_engine_sizes *sizes, const struct omma_engine_options *options,
                               struct omma_error *error) {
  const struct ommai_scheduler_events events = {engine, finish_generate, finish_encode};
  const struct ommai_runner_limits *limits = &sizes->limits;
  OMMAI_TRY(ommai_request_queue_init(&engine->shared->queue, &sizes->queue, limits->max_sequences, ommai_engine_max_live(sizes),
                                     &engine->allocator, error));
  OMMAI_TRY(ommai_resources_create(engine->model, source, sizes, &engine->resources, error));
  if (options) {
    OMMAI_TRY(ommai_encoding_share_init(&engine->resources.share, options->encoding_store, engine->resources.runner, error));
    ommai_state_pool_set_events(engine->resources.pool, options->kv_events ? &options->kv_events[limits->engine] : NULL);
  }
  OMMAI_TRY(ommai_scheduler_init(&engine->scheduler, &engine->resources, &events, error));
  engine->shared->stats.alive = true;
  engine->is_complete = true;
  publish(engine);
  OMMAI_DEBUG(&engine->model->log,
              "engine: %lld KV pages of %d tokens, %lld sequence%s, chunks of %lld tokens, %lld patches a pass",
              (long long)limits->n_pages[0], OMMA_ATTENTION_PAGE_TOKENS, (long long)limits->max_sequences,
              ommai_plural(limits->max_sequences), (long long)limits->prefill_chunk, (long long)limits->patch_budget);
  return OMMA_OK;
}

static void free_engine(struct omma_engine *engine) {
  struct omma_allocator allocator = engine->allocator;
  struct ommai_engine_shared *shared = engine->shared;
  if (shared) {
    ommai_request_queue_free(&shared->queue);
    pthread_mutex_destroy(&shared->mutex);
    pthread_cond_destroy(&shared->finished);
    ommai_release(&allocator, shared, 1, sizeof *shared);
  }
  ommai_release(&allocator, engine, 1, sizeof *engine);
}

static enum omma_status allocate(struct omma_model *model, struct omma_engine **out, struct omma_error *error) {
  struct omma_engine *engine = ommai_allocate(&model->allocator, 1, sizeof *engine);
  if (!engine) return ommai_fail_memory(error, "engine", sizeof *engine);
  engine->allocator = model->allocator;
  engine->model = model;
  engine->shared = ommai_allocate(&model->allocator, 1, sizeof *engine->shared);
  if (!engine->shared) {
    free_engine(engine);
    return ommai_fail_memory(error, "engine", sizeof *engine->shared);
  }
  pthread_mutex_init(&engine->shared->mutex, NULL);
  pthread_cond_init(&engine->shared->finished, NULL);
  *out = engine;
  return OMMA_OK;
}

/* The threads of an engine stay on its CPUs, as those that start them are there. */
static void bind(const struct omma_model *model, int index, cpu_set_t *before) {
  if (model->shares && model->pin_threads) ommai_cpu_bind(&model->shares->of[index].cpus, before);
}
static void unbind(const struct omma_model *model, const cpu_set_t *before) {
  cpu_set_t ignored;
  if (model->shares && model->pin_threads) ommai_cpu_bind(before, &ignored);
}

enum omma_status ommai_engine_create_one(struct omma_model *model, const struct ommai_runner_source *source,
                                         const struct ommai_engine_sizes *sizes, const struct omma_engine_options *options,
                                         struct omma_engine **out, struct omma_error *error) {
  struct omma_engine *engine = NULL;
  cpu_set_t before;
  OMMAI_TRY(allocate(model, &engine, error));
  bind(model, sizes->limits.engine, &before);
  enum omma_status status = set_up(engine, source, sizes, options, error);
  unbind(model, &before);
  if (status == OMMA_OK) {
    *out = engine;
  } else {
    ommai_engine_free(engine);
  }
  return status;
}

enum omma_status ommai_engine_start_one(struct omma_engine *engine, struct omma_error *error) {
  cpu_set_t before;
  bind(engine->model, engine->index, &before);
  engine->has_thread = pthread_create(&engine->thread, NULL, engine_main, engine) == 0;
  unbind(engine->model, &before);
  return engine->has_thread ? OMMA_OK : ommai_fail(error, OMMA_ERROR_INTERNAL, "engine: cannot start its thread");
}

void ommai_engine_begin_stop(struct omma_engine *engine) {
  pthread_mutex_lock(&engine->shared->mutex);
  engine->shared->stats.alive = false;
  pthread_mutex_unlock(&engine->shared->mutex);
  ommai_request_queue_stop(&engine->shared->queue);
}

bool ommai_engine_end_stop(struct omma_engine *engine, int64_t ns) {
  static const struct timespec pause = {0, 2000000};
  if (!engine->has_thread) {
    wind_down(engine);
    return true;
  }
  if (ns < 0) return pthread_join(engine->thread, NULL) == 0;
  int64_t until = ommai_clock_ns() + ns;
  while (pthread_tryjoin_np(engine->thread, NULL) != 0) {
    if (ommai_clock_ns() >= until) {
      pthread_detach(engine->thread);
      return false;
    }
    nanosleep(&pause, NULL);
  }
  return true;
}

void ommai_engine_free(struct omma_engine *engine) {
  ommai_scheduler_free(&engine->scheduler);
  ommai_resources_free(&engine->resources);
  free_engine(engine);
}

/* ---- calls from other threads ---- */

enum omma_status ommai_engine_submit_alone(struct omma_engine *engine, const struct omma_request *request,
                                           const struct omma_callbacks *callbacks, uint64_t *id, struct omma_error *error) {
  const struct ommai_engine_sizes *sizes = &engine->resources.sizes;
  OMMAI_TRY(ommai_grammar_prepare(request->grammar, sizes->limits.engine, error));
  ommai_encoding_share_find(&engine->resources.share, &engine->resources.encoder_cache, request);
  const struct ommai_queued_request queued = {.submitted = ommai_resources_now(&engine->resources),
                                              .priority = sizes->by_priority ? request->priority : 0,
                                              .bytes = ommai_request_bytes(request),
                                              .request = request,
                                              .callbacks = *callbacks};
  struct ommai_request_queue *queue = &engine->shared->queue;
  enum omma_status status = ommai_request_queue_push(queue, &queued, id, error);
  /* what was just found must not stay in an engine that has given its memory back */
  if (status != OMMA_OK && ommai_request_queue_refuses(queue)) ommai_encoder_cache_clear(&engine->resources.encoder_cache);
  return status;
}

void ommai_engine_get_stats_alone(const struct omma_engine *engine, struct omma_engine_stats *stats) {
  struct ommai_engine_shared *shared = engine->shared;
  pthread_mutex_lock(&shared->mutex);
  *stats = shared->stats;
  pthread_mutex_unlock(&shared->mutex);
  int64_t n_taken = stats->n_waiting;
  ommai_request_queue_count(&shared->queue, stats);
  n_taken = ommai_min_i64(n_taken, stats->n_running);
  stats->n_preempted = ommai_min_i64(stats->n_preempted, n_taken);
  stats->n_waiting += n_taken;
  stats->n_running -= n_taken;
}

enum omma_status ommai_engine_encode_alone(struct omma_engine *engine, struct ommai_encode_call *call,
                                           struct omma_error *error) {
  const struct ommai_queued_request queued = {.submitted = ommai_resources_now(&engine->resources), .encode = call};
  OMMAI_TRY(ommai_request_queue_push(&engine->shared->queue, &queued, NULL, error));
  pthread_mutex_lock(&engine->shared->mutex);
  while (!call->finished) pthread_cond_wait(&engine->shared->finished, &engine->shared->mutex);
  pthread_mutex_unlock(&engine->shared->mutex);
  if (call->status != OMMA_OK && error) *error = call->error;
  return call->status;
}
