/* Memory through the library's allocator: none is taken while a network runs, and every allocation
 * may fail. */
#include <execinfo.h>
#include <stdlib.h>

#include "engine/engine_measure.h"
#include "engine/scheduler.h"
#include "runner/cpu_runner.h"
#include "support/golden.h"
#include "support/model_fixture.h"
#include "support/test.h"

static struct test_allocator allocator;

/* The type int8 is of the tower alone; here it brings quantisation with it, and bf16 a draft model.
 * Without kept images, so that what fails leaves nothing at all (test_image_store lets their
 * allocations fail). */
static enum omma_status open_model(enum omma_weight_type weights, struct omma_model **model, struct omma_error *error) {
  char path[1024], draft[1024];
  golden_path("qwen3_vl_heads", NULL, draft, sizeof draft);
  const struct omma_model_options options = {.weights = weights == OMMA_WEIGHTS_INT8 ? OMMA_WEIGHTS_AUTO : weights,
                                             .vision_weights = weights,
                                             .quantization = weights == OMMA_WEIGHTS_INT8 ? "int4" : NULL,
                                             .n_threads = 2,
                                             .max_model_len = 256,
                                             .known_image_bytes = -1,
                                             .draft_model = weights == OMMA_WEIGHTS_BF16 ? draft : NULL,
                                             .allocator = &allocator.interface};
  golden_path("qwen3_vl_tied", NULL, path, sizeof path);
  return omma_model_open(path, &options, model, error);
}

static struct omma_request *make_request(const struct omma_model *model, int64_t max_tokens) {
  struct omma_image *image = fixture_image("meadow_163x97.jpg"), *second = fixture_image("tower_33x200.png");
  const struct omma_image *const images[] = {image, second};
  const struct omma_sampling sampling = {
      .max_tokens = max_tokens, .temperature = 0.9, .seed = 1, .ignore_eos = true, .logprobs = true, .n_top_logprobs = 5};
  struct omma_request *request = fixture_request(model, images, 2, "hello", &sampling);
  omma_image_destroy(image);
  omma_image_destroy(second);
  return request;
}

/* ---- no allocation in a run ---- */

static bool ignore_token(void *context, const struct omma_token_event *event) {
  (void)event;
  ++*(int *)context;
  return true;
}

static void note_end(void *context, uint64_t id, const struct omma_callbacks *callbacks, const struct omma_result *result) {
  (void)id;
  (void)callbacks;
  assert_int_equal(result->finish, OMMA_FINISH_LENGTH);
  --*(int *)context;
}

/* The scheduler's own turns, taken one by one: tower, prompt in chunks, tokens of two requests at
 * once. */
static void turns_allocate_nothing(void **state) {
  (void)state;
  for (int weights = OMMA_WEIGHTS_F32; weights <= OMMA_WEIGHTS_INT8; weights++) {
    struct omma_model *model;
    struct omma_error error;
    struct ommai_engine_sizes sizes;
    struct ommai_resources resources;
    struct ommai_scheduler scheduler;
    int n_tokens = 0, n_open = 2;
    const struct ommai_scheduler_events events = {.context = &n_open, .finish = note_end};
    const struct omma_engine_options options = {.prefill_chunk = 64,
                                                .patch_budget = 64,
                                                .max_sequences = 2,
                                                .draft_tokens = weights == OMMA_WEIGHTS_BF16 ? 3 : 0,
                                                .drafting = OMMA_DRAFTS_MODEL};
    test_allocator_init(&allocator);
    assert_ok(open_model(weights, &model, &error), &error);
    struct omma_request *request = make_request(model, 20);
    const struct ommai_runner_source source = ommai_cpu_runner_source(model);
    assert_ok(ommai_engine_sizes(model, &source, &options, &sizes, &error), &error);
    sizes.image_patches = INT64_MAX / 2; /* room for both requests' images */
    assert_ok(ommai_resources_create(model, &source, &sizes, &resources, &error), &error);
    assert_ok(ommai_scheduler_init(&scheduler, &resources, &events, &error), &error);
    struct ommai_queued_request job = {.request = request, .callbacks = {.context = &n_tokens, .on_token = ignore_token}};
    for (job.id = 1; job.id <= 2; job.id++) {
      assert_true(ommai_scheduler_admits(&scheduler, &job));
      ommai_scheduler_add(&scheduler, &job);
    }
    while (ommai_scheduler_has_work(&scheduler)) {
      int64_t n_before = allocator.n_allocations;
      bool enters = scheduler.live[0]->slot < 0; /* with the slot it takes what its answer needs */
      ommai_scheduler_turn(&scheduler);
      assert_true(enters || allocator.n_allocations == n_before);
    }
    assert_int_equal(n_tokens, 2 * 20);
    assert_int_equal(n_open, 0);
    ommai_scheduler_free(&scheduler);
    ommai_resources_free(&resources);
    omma_request_destroy(request);
    omma_model_close(model);
    assert_int_equal(allocator.bytes_live, 0);
  }
}

struct counts {
  int64_t first, last;
};

static bool note_allocations(void *context, const struct omma_token_event *event) {
  struct counts *counts = context;
  if (event->index == 0) counts->first = allocator.n_allocations;
  counts->last = allocator.n_allocations;
  return true;
}

static void tokens_allocate_nothing(void **state) {
  (void)state;
  struct omma_model *model;
  struct omma_error error;
  struct counts counts;
  const struct omma_callbacks callbacks = {.context = &counts, .on_token = note_allocations};
  test_allocator_init(&allocator);
  assert_ok(open_model(OMMA_WEIGHTS_AUTO, &model, &error), &error);
  struct omma_engine *engine = fixture_engine(model, NULL);
  struct omma_request *request = make_request(model, 150); /* over a page border */
  struct omma_result result;
  assert_ok(omma_generate(engine, request, &callbacks, &result, &error), &error);
  assert_int_equal(result.n_completion_tokens, 150);
  assert_int_equal(counts.first, counts.last);
  omma_request_destroy(request);
  omma_engine_destroy(engine);
  omma_model_close(model);
  assert_int_equal(allocator.bytes_live, 0);
}

/* ---- every allocation fails once ---- */

/* Lets allocation `n` from now on fail. */
static void fail_from(int64_t n) { allocator.fail_at = allocator.n_allocations + n; }

enum { MAX_ALLOCATIONS = 1 << 13 };

/* The calls that led to each allocation, as one number; models that were opened before come
 * first. */
static uint64_t calls_to[MAX_ALLOCATIONS];
static int64_t n_before;
static void *(*allocate)(void *context, size_t size, size_t alignment);

static void *note_calls(void *context, size_t size, size_t alignment) {
  void *calls[64];
  uint64_t hash = 0;
  int64_t n = __atomic_load_n(&allocator.n_allocations, __ATOMIC_SEQ_CST);
  for (int i = backtrace(calls, 64); i-- > 0;) hash = (hash ^ (uint64_t)(uintptr_t)calls[i]) * 0x100000001b3u;
  if (n_before + n < MAX_ALLOCATIONS) calls_to[n_before + n] = hash;
  return allocate(context, size, alignment);
}

/* Opens a model and closes it; returns how many allocations that took. */
static int64_t list_calls(enum omma_weight_type weights) {
  struct omma_model *model;
  struct omma_error error;
  test_allocator_init(&allocator);
  allocate = allocator.interface.allocate;
  allocator.interface.allocate = note_calls;
  assert_ok(open_model(weights, &model, &error), &error);
  omma_model_close(model);
  assert_true(n_before + allocator.n_allocations <= MAX_ALLOCATIONS);
  return allocator.n_allocations;
}

static bool is_among(uint64_t calls, const uint64_t *list, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    if (list[i] == calls) return true;
  }
  return false;
}

/* Of n_all: whether the same calls led to one in a model before, or, for other layers or tensors of
 * this one, to one before and to one after. The last is like no other: all else is there then. */
static bool is_alike(int64_t n, int64_t n_all) {
  if (n >= n_all - 1) return false;
  const uint64_t *calls = calls_to + n_before;
  return is_among(calls[n], calls_to, n_before) ||
         (is_among(calls[n], calls, n) && is_among(calls[n], calls + n + 1, n_all - n - 1));
}

/* Every allocation fails; in small runs of those that are alike the first and the last. */
static void opening_a_model_without_memory(void **state) {
  (void)state;
  n_before = 0;
  for (int weights = OMMA_WEIGHTS_F32; weights <= OMMA_WEIGHTS_INT8; weights++) {
    struct omma_model *model = NULL;
    struct omma_error error;
    enum omma_status status = OMMA_ERROR_MEMORY;
    int64_t n = 0, n_all = test_small() ? list_calls(weights) : 0;
    for (; status != OMMA_OK; n++) {
      if (is_alike(n, n_all)) continue;
      test_allocator_init(&allocator);
      fail_from(n);
      status = open_model(weights, &model, &error);
      if (status == OMMA_OK) break;
      if (status != OMMA_ERROR_MEMORY) fail_msg("allocation %d: %s: %s", (int)n, omma_status_name(status), error.message);
      assert_null(model);
      if (allocator.n_live != 0) fail_msg("allocation %d: %d blocks are left", (int)n, (int)allocator.n_live);
    }
    assert_true(n > 100);
    n_before += n_all;
    omma_model_close(model);
    assert_int_equal(allocator.bytes_live, 0);
  }
}

static void creating_an_engine_without_memory(void **state) {
  (void)state;
  struct omma_model *model;
  struct omma_engine *engine = NULL;
  struct omma_error error;
  test_allocator_init(&allocator);
  assert_ok(open_model(OMMA_WEIGHTS_AUTO, &model, &error), &error);
  int64_t n_live = allocator.n_live, n_all = 0;
  for (int once = 0; once < 2; once++) {
    int64_t n = 0;
    allocator.fails_once = once;
    for (;; n++) {
      fail_from(n);
      enum omma_status status = omma_engine_create(model, NULL, &engine, &error);
      if (status == OMMA_OK) break;
      assert_int_equal(status, OMMA_ERROR_MEMORY);
      assert_int_equal(allocator.n_live, n_live);
      assert_null(engine);
    }
    assert_true(n > 8 && (!once || n == n_all)); /* none was overlooked */
    n_all = n;
    omma_engine_destroy(engine);
    engine = NULL;
  }
  omma_model_close(model);
  assert_int_equal(allocator.bytes_live, 0);
}

static void creating_a_request_of_ids_without_memory(void **state) {
  (void)state;
  const int32_t ids[] = {1, 2, 3};
  const char *const stops[] = {"a", "b"};
  const struct omma_request_options options = {.sampling = {.stop = stops, .n_stop = 2}};
  struct omma_model *model;
  struct omma_request *request = NULL;
  struct omma_error error;
  test_allocator_init(&allocator);
  assert_ok(open_model(OMMA_WEIGHTS_AUTO, &model, &error), &error);
  int64_t n_live = allocator.n_live, n = 0;
  for (;; n++) {
    fail_from(n);
    enum omma_status status = omma_request_create_tokens(model, ids, 3, &options, &request, &error);
    if (status == OMMA_OK) break;
    if (status != OMMA_ERROR_MEMORY) fail_msg("allocation %d: %s: %s", (int)n, omma_status_name(status), error.message);
    assert_int_equal(allocator.n_live, n_live);
    assert_null(request);
  }
  assert_int_equal(n, 6);
  omma_request_destroy(request);
  omma_model_close(model);
  assert_int_equal(allocator.bytes_live, 0);
}

static void creating_a_request_without_memory(void **state) {
  (void)state;
  struct omma_model *model;
  struct omma_request *request = NULL;
  struct omma_error error;
  struct omma_image *image = fixture_image("meadow_163x97.jpg");
  const char *const stops[] = {"a", "b"};
  const struct omma_image *const frames[] = {image, image, image};
  const struct omma_video video = {.frames = frames, .n_frames = 3};
  const struct omma_part parts[] = {{.image = image}, {.text = "hello", .text_size = 5}, {.image = image}, {.video = &video}};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = parts, .n_parts = 4};
  const struct omma_request_options options = {.sampling = {.stop = stops, .n_stop = 2}};
  test_allocator_init(&allocator);
  assert_ok(open_model(OMMA_WEIGHTS_AUTO, &model, &error), &error);
  int64_t n_live = allocator.n_live, n = 0;
  for (;; n++) {
    fail_from(n);
    enum omma_status status = omma_request_create(model, &message, 1, &options, &request, &error);
    if (status == OMMA_OK) break;
    if (status != OMMA_ERROR_MEMORY) fail_msg("allocation %d: %s: %s", (int)n, omma_status_name(status), error.message);
    assert_int_equal(allocator.n_live, n_live);
    assert_null(request);
  }
  assert_true(n > 8);
  struct omma_request *copy = NULL;
  for (n = 0, n_live = allocator.n_live;; n++) {
    fail_from(n);
    enum omma_status status = omma_request_copy(request, &options.sampling, &copy, &error);
    if (status == OMMA_OK) break;
    assert_int_equal(status, OMMA_ERROR_MEMORY);
    assert_int_equal(allocator.n_live, n_live);
    assert_null(copy);
  }
  assert_int_equal(n, 8);
  omma_request_destroy(copy);
  omma_request_destroy(request);
  omma_image_destroy(image);
  omma_model_close(model);
  assert_int_equal(allocator.bytes_live, 0);
}

/* A whole answer: the failing request ends alone, once, and the next one is answered as ever.
 * Returns how many allocations an answer takes. */
static int64_t answer_without_memory(struct omma_model *model, const struct omma_engine_options *options,
                                     const struct omma_request *request) {
  static struct fixture_answer expected, answer;
  struct omma_error error;
  struct omma_engine *engine = fixture_engine(model, options);
  fixture_ask(engine, request, &expected);
  omma_engine_destroy(engine);
  for (int64_t n = 0;; n++) {
    struct omma_result result = {0};
    engine = fixture_engine(model, options);
    int64_t n_live = allocator.n_live;
    fail_from(n);
    enum omma_status status = omma_generate(engine, request, NULL, &result, &error);
    allocator.fail_at = -1;
    bool queued = n > 0; /* the first allocation is the queue's: without it nothing begins */
    if (status != OMMA_OK) {
      assert_int_equal(status, OMMA_ERROR_MEMORY);
      assert_int_equal(allocator.n_live, n_live);
    }
    if (status != OMMA_OK && queued) {
      assert_int_equal(result.finish, OMMA_FINISH_ERROR);
      assert_int_equal(result.error.status, OMMA_ERROR_MEMORY);
      assert_int_equal(result.stop_token, -1);
      assert_true(result.n_prompt_tokens > 0);
      assert_int_equal(result.n_completion_tokens, 0);
    }
    fixture_ask(engine, request, &answer);
    fixture_expect_equal(&answer, &expected);
    struct omma_engine_stats stats;
    omma_engine_get_stats(engine, &stats);
    assert_true(stats.alive);
    assert_int_equal(stats.n_finished[OMMA_FINISH_ERROR], status != OMMA_OK && queued);
    omma_engine_destroy(engine);
    if (status == OMMA_OK) return n;
  }
}

static void answering_without_memory(void **state) {
  (void)state;
  struct omma_model *model;
  struct omma_error error;
  test_allocator_init(&allocator);
  assert_ok(open_model(OMMA_WEIGHTS_AUTO, &model, &error), &error);
  /* So small a patch budget that the workspace of the tower grows while the request runs, once for
   * each image; without the cache, in which the first image would stay when the second one
   * fails. */
  const struct omma_engine_options options = {.patch_budget = 4, .encoder_cache_bytes = -1};
  struct omma_request *request = make_request(model, 6);
  assert_true(answer_without_memory(model, &options, request) >= 5);
  omma_request_destroy(request);
  omma_model_close(model);
  assert_int_equal(allocator.bytes_live, 0);
}

/* ---- what a slot takes ---- */

static struct omma_request *make_plain_request(const struct omma_model *model, double penalty, bool masked) {
  static const int32_t allowed[] = {5, 40, 41, 300};
  const struct omma_sampling sampling = {.max_tokens = 6,
                                         .ignore_eos = true,
                                         .presence_penalty = penalty,
                                         .allowed_token_ids = masked ? allowed : NULL,
                                         .n_allowed_token_ids = masked ? 4 : 0};
  return fixture_request(model, NULL, 0, "hello", &sampling);
}

static bool note_live(void *context, const struct omma_token_event *event) {
  (void)event;
  *(int64_t *)context = allocator.bytes_live;
  return true;
}

/* Bytes that the engine holds while the request's tokens are drawn. */
static int64_t held_bytes(struct omma_engine *engine, struct omma_request *request) {
  int64_t live = 0, before = allocator.bytes_live;
  struct omma_error error;
  const struct omma_callbacks callbacks = {.context = &live, .on_token = note_live};
  assert_ok(omma_generate(engine, request, &callbacks, NULL, &error), &error);
  assert_int_equal(allocator.bytes_live, before);
  return live - before;
}

/* As the allocator takes them. */
static int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/* Tables for penalties and a mask are there only while a request needs them, as the estimate says,
 * and where they cannot be had that request ends alone. */
static void slots_take_what_their_requests_need(void **state) {
  (void)state;
  struct omma_model *model;
  struct omma_error error;
  struct omma_memory_estimate estimate;
  struct omma_request *requests[4];
  int64_t held[4];
  test_allocator_init(&allocator);
  assert_ok(open_model(OMMA_WEIGHTS_AUTO, &model, &error), &error);
  int64_t vocab = model->config.text.vocab_size, tables = rounded(4 * vocab) + rounded(vocab);
  int64_t mask = rounded((vocab + 31) / 32 * 4);
  assert_ok(omma_estimate_memory(model, NULL, 4, &estimate, &error), &error);
  struct omma_engine *engine = fixture_engine(model, NULL);
  for (int i = 0; i < 4; i++) {
    requests[i] = make_plain_request(model, i & 1 ? 0.5 : 0, i & 2);
    held[i] = held_bytes(engine, requests[i]);
    assert_int_equal(held[i] - held[0], (i & 1 ? tables : 0) + (i & 2 ? mask : 0));
  }
  assert_true(estimate.request_bytes > tables + mask);
  omma_engine_destroy(engine);
  int64_t n_plain = answer_without_memory(model, NULL, requests[0]);
  assert_int_equal(answer_without_memory(model, NULL, requests[3]), n_plain + 3);
  for (int i = 0; i < 4; i++) omma_request_destroy(requests[i]);
  omma_model_close(model);
  assert_int_equal(allocator.bytes_live, 0);
}

static void encoding_without_memory(void **state) {
  (void)state;
  struct omma_model *model;
  struct omma_error error;
  struct omma_image *image = fixture_image("meadow_163x97.jpg");
  const struct omma_image *const images[] = {image, image};
  struct omma_embeddings *embeddings = NULL;
  test_allocator_init(&allocator);
  assert_ok(open_model(OMMA_WEIGHTS_AUTO, &model, &error), &error);
  struct omma_engine *engine = fixture_engine(model, NULL);
  int64_t n_live = allocator.n_live, n = 0;
  for (;; n++) {
    fail_from(n);
    enum omma_status status = omma_encode(engine, images, 2, NULL, true, NULL, NULL, &embeddings, &error);
    if (status == OMMA_OK) break;
    assert_int_equal(status, OMMA_ERROR_MEMORY);
    assert_int_equal(allocator.n_live, n_live);
    assert_null(embeddings);
  }
  assert_true(n >= 8);
  omma_embeddings_destroy(embeddings);
  omma_engine_destroy(engine);
  omma_image_destroy(image);
  omma_model_close(model);
  assert_int_equal(allocator.bytes_live, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(turns_allocate_nothing),
      cmocka_unit_test(tokens_allocate_nothing),
      cmocka_unit_test(opening_a_model_without_memory),
      cmocka_unit_test(creating_an_engine_without_memory),
      cmocka_unit_test(creating_a_request_without_memory),
      cmocka_unit_test(creating_a_request_of_ids_without_memory),
      cmocka_unit_test(answering_without_memory),
      cmocka_unit_test(slots_take_what_their_requests_need),
      cmocka_unit_test(encoding_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
