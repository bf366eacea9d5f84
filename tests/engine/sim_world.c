#include "engine/sim_world.h"

#include <stdarg.h>
#include <string.h>

#include "base/allocator.h"
#include "engine/engine_api.h"
#include "engine/sim_inside.h"
#include "engine/sim_waits.h"
#include "model/image_store.h"
#include "support/test.h"

static struct {
  struct ommai_tokenizer *tokenizer;
  struct sim_images images;
  struct sim_world alone, loaded;
  struct omma_log log;
} shared;

void sim_set_up(void) {
  struct omma_error error;
  const char *path = OMMA_TEST_DATA "/golden/qwen3_vl_heads";
  assert_ok(ommai_tokenizer_load(path, &ommai_default_allocator, &shared.tokenizer, &error), &error);
  sim_images_make(&shared.images);
}

void sim_tear_down(void) {
  ommai_tokenizer_destroy(shared.tokenizer);
  sim_images_free(&shared.images);
}

void sim_set_log(const struct omma_log *log) { shared.log = *log; }

void sim_break(struct sim_world *world, const char *rule, const char *format, ...) {
  va_list arguments;
  if (world->outcome->rule[0]) return;
  snprintf(world->outcome->rule, sizeof world->outcome->rule, "%s", rule);
  int size = snprintf(world->outcome->details, sizeof world->outcome->details, "turn %lld: ", (long long)world->turn);
  va_start(arguments, format);
  vsnprintf(world->outcome->details + size, sizeof world->outcome->details - (size_t)size, format, arguments);
  va_end(arguments);
}

/* ---- what fails ---- */

static bool is_to_fail(struct sim_world *world, int call) {
  int64_t nth = world->n_calls[call]++;
  for (int64_t i = 0; world->armed && i < world->run->n_failures; i++) {
    if (world->run->failures[i].call != call || world->run->failures[i].nth != nth) continue;
    world->failed_turn = world->turn;
    return true;
  }
  return false;
}

static bool fails(void *context, enum ommai_fake_call call) { return is_to_fail(context, (int)call); }

static void *allocate(void *context, size_t size, size_t alignment) {
  struct sim_world *world = context;
  if (world->armed && is_to_fail(world, OMMAI_FAKE_CALLS)) {
    world->failed_allocation = true;
    return NULL;
  }
  world->n_allocations++;
  return ommai_default_allocator.allocate(NULL, size, alignment);
}

static void release(void *context, void *pointer, size_t size) {
  struct sim_world *world = context;
  world->n_allocations--;
  ommai_default_allocator.release(NULL, pointer, size);
}

/* ---- an engine ---- */

/* Of the pages that there is one of for each page of positions; the others are as good as free. */
enum { PAGE_BYTES = 1 << 20, STATE_WIDTH = 3 };

/* Its context is the case's, whatever else the engine has. */
static void make_engine(struct sim_world *world, const struct sim_engine *wanted, int64_t context) {
  struct omma_error error;
  const struct omma_allocator allocator = {world, allocate, release};
  world->model = (struct omma_model){
      .allocator = allocator, .log = shared.log, .tokenizer = shared.tokenizer, .max_model_len = context, .directory = "model"};
  world->model.config.text.vocab_size = SIM_VOCAB;
  world->model.config.text.hidden_size = STATE_WIDTH;
  world->model.config.generation.stop_tokens[0] = SIM_STOP;
  world->model.config.generation.n_stop_tokens = 1;
  world->network = (struct ommai_fake_network){.facts = {.kinds = 1u << OMMA_REQUEST_GENERATE | 1u << OMMA_REQUEST_ENCODE |
                                                                  1u << OMMA_REQUEST_EMBED | 1u << OMMA_REQUEST_SCORE,
                                                         .vocab_size = SIM_VOCAB,
                                                         .n_workers = 1,
                                                         .image = {.width = 2},
                                                         .draw_rows = 32,
                                                         .drafter = (enum ommai_drafter)wanted->head,
                                                         .state_bytes = STATE_WIDTH * sizeof(float)},
                                               .costs = sim_costs(wanted),
                                               .allocator = allocator,
                                               .repeated_percent = (int)wanted->repeated,
                                               .fails = fails,
                                               .context = world};
  struct ommai_runner_facts *facts = &world->network.facts;
  facts->groups[facts->n_groups++] = (struct ommai_state_group){OMMAI_STATE_PAGES, 0, PAGE_BYTES};
  if (wanted->window) facts->groups[facts->n_groups++] = (struct ommai_state_group){OMMAI_STATE_WINDOW, wanted->window, 1};
  if (wanted->snapshots) facts->groups[facts->n_groups++] = (struct ommai_state_group){OMMAI_STATE_SNAPSHOT, 0, 1};
  const struct omma_kv_events events = {world, sim_on_stored, sim_on_removed, sim_on_cleared};
  const struct omma_engine_options options = {.kv_cache_bytes = (wanted->pages + 1) * PAGE_BYTES - 1,
                                              .patch_budget = wanted->patches,
                                              .prefill_chunk = wanted->chunk,
                                              .queue_limit = wanted->queue,
                                              .encoder_cache_bytes = wanted->cache,
                                              .kv_events = &events,
                                              .slice_ms = wanted->slice_ms,
                                              .slice_percent = wanted->percent,
                                              .max_sequences = wanted->slots,
                                              .reserve_tokens = wanted->reserve,
                                              .draft_tokens = wanted->drafts,
                                              .lookup_max = wanted->lookup,
                                              .lookup_min = 1,
                                              .drafting = (enum omma_drafting)wanted->head,
                                              .no_prefix_cache = !wanted->prefix_cache,
                                              .by_priority = wanted->by_priority,
                                              .scheduling = (enum omma_scheduling)wanted->scheduling,
                                              .max_wait_ms = wanted->max_wait_ms};
  const struct ommai_runner_source source = ommai_fake_runner_source(&world->network);
  assert_ok(ommai_image_store_create(0, &ommai_default_allocator, &world->model.image_store, &error), &error);
  assert_ok(ommai_engine_create(&world->model, &source, &options, &world->engine, &error), &error);
}

static void begin(struct sim_world *world, const struct sim_case *run, const struct sim_engine *engine,
                  struct sim_outcome *outcome) {
  int64_t room = run->engine.pages * OMMA_ATTENTION_PAGE_TOKENS;
  int64_t context = run->engine.context < room ? run->engine.context : room;
  memset(world, 0, offsetof(struct sim_world, jobs));
  world->run = run;
  world->outcome = outcome;
  world->failed_turn = -1;
  make_engine(world, engine, context);
  const struct omma_allocator allocator = {world, allocate, release};
  for (int64_t i = 0; i < run->n_requests; i++) {
    struct sim_job *job = &world->jobs[i];
    memset(job, 0, offsetof(struct sim_job, answer.hashes));
    job->world = world;
    job->wanted = &run->requests[i];
    job->request = sim_request_make(job->wanted, &shared.images, &world->model, &allocator);
    sim_answer_begin(&job->answer);
  }
}

/* Nothing may be left of the engine and its requests. What is broken is not taken apart: the
 * process ends soon. */
static void end(struct sim_world *world) {
  for (int64_t i = 0; i < world->run->n_requests; i++) omma_embeddings_destroy(world->jobs[i].embeddings);
  if (world->outcome->rule[0]) return;
  sim_check_end(world);
  if (world->outcome->rule[0]) return;
  omma_engine_destroy(world->engine);
  ommai_image_store_destroy(world->model.image_store);
  for (int64_t i = 0; i < world->run->n_requests; i++) {
    if (world->jobs[i].accepted && !world->jobs[i].ended) sim_break(world, "ends", "request %lld never ends", (long long)i);
    sim_request_free(world->jobs[i].request);
  }
  if (world->n_allocations) sim_break(world, "clean", "%lld allocations are left", (long long)world->n_allocations);
}

/* ---- its course ---- */

/* What is taken in beyond the slots counts as waiting. */
static bool has_room(const struct sim_engine *engine, const struct omma_engine_stats *stats) {
  return stats->n_waiting < engine->queue && stats->n_waiting + stats->n_running < engine->queue + engine->slots;
}

static void submit(struct sim_world *world, struct sim_job *job) {
  const struct omma_callbacks callbacks = sim_callbacks(job);
  struct omma_error error;
  struct omma_engine_stats stats;
  omma_engine_get_stats(world->engine, &stats);
  enum omma_status status = omma_engine_submit(world->engine, job->request, &callbacks, &job->id, &error);
  if (status == OMMA_OK) {
    job->accepted = true;
    job->begin_ns = sim_now(world);
    world->by_id[job->id] = job;
    world->n_accepted++;
  } else if (status == OMMA_ERROR_MEMORY && world->failed_allocation) {
    world->failed_allocation = false;
  } else if (status != OMMA_ERROR_LIMIT && (status != OMMA_ERROR_BUSY || has_room(&world->run->engine, &stats))) {
    sim_break(world, "ends", "request %lld is refused: %s", (long long)(job - world->jobs), error.message);
  }
}

static void run_events(struct sim_world *world) {
  for (int64_t i = 0; i < world->run->n_requests; i++) {
    struct sim_job *job = &world->jobs[i];
    if (job->wanted->at == world->turn) submit(world, job);
    if (job->wanted->cancel != world->turn || !job->accepted || job->ended) continue;
    job->cancelled = true;
    omma_engine_cancel(world->engine, job->id);
  }
}

static bool is_idle(struct sim_world *world) {
  struct omma_engine_stats stats;
  omma_engine_get_stats(world->engine, &stats);
  return stats.n_waiting == 0 && !ommai_scheduler_has_work(&world->engine->scheduler);
}

static void turn(struct sim_world *world) {
  sim_begin_turn(world);
  ommai_engine_turn(world->engine);
  world->outcome->n_turns++;
  sim_check_turn(world);
  if (world->turn - world->last_end > 100000) sim_break(world, "waits", "nothing ends any more");
}

static void run_alone(struct sim_world *world, struct sim_outcome *outcome) {
  for (int64_t i = 0; i < world->run->n_requests && !outcome->rule[0]; i++) {
    submit(world, &world->jobs[i]);
    for (; world->jobs[i].accepted && !world->jobs[i].ended && !outcome->rule[0]; world->turn++) turn(world);
  }
}

static void run_loaded(struct sim_world *world, struct sim_outcome *outcome) {
  int64_t last = 0, naps = world->run->engine.naps;
  for (int64_t i = 0; i < world->run->n_requests; i++) {
    if (world->run->requests[i].at > last) last = world->run->requests[i].at;
  }
  world->armed = true;
  for (; (world->turn <= last || !is_idle(world)) && !outcome->rule[0]; world->turn++) {
    if (world->run->engine.end == world->turn) break;
    run_events(world);
    if (!is_idle(world)) {
      turn(world);
    } else if (naps && world->turn % naps == 0) {
      sim_nap(world);
    }
    if (world->n_ended == world->n_accepted) world->last_end = world->turn;
  }
  world->armed = false;
}

void sim_run(const struct sim_case *run, struct sim_outcome *outcome) {
  struct sim_engine alone;
  int64_t *values = (int64_t *)(void *)&alone;
  for (int i = 0; i < sim_n_engine_fields; i++) values[i] = sim_engine_fields[i].simplest;
  alone.window = run->engine.window;
  alone.snapshots = run->engine.snapshots;
  alone.repeated = run->engine.repeated;
  struct sim_outcome reference = {.rule = ""};
  *outcome = (struct sim_outcome){.rule = ""};
  begin(&shared.alone, run, &alone, &reference);
  run_alone(&shared.alone, &reference);
  end(&shared.alone);
  if (reference.rule[0]) {
    *outcome = reference;
    return;
  }
  begin(&shared.loaded, run, &run->engine, outcome);
  for (int64_t i = 0; i < run->n_requests; i++) shared.loaded.jobs[i].alone = &shared.alone.jobs[i];
  run_loaded(&shared.loaded, outcome);
  end(&shared.loaded);
}
