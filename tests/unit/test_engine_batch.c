/* Many requests at once: each is answered as if it were alone, bit for bit, whatever else runs,
 * whatever was kept of earlier prompts, and however often it lost its pages; and a storm of
 * cancellations disturbs nobody.
 *
 * OMMA_TEST_LARGE in the environment: more requests, and every golden model. */
#include <stdatomic.h>
#include <stdlib.h>

#include "support/golden.h"
#include "support/model_fixture.h"
#include "support/test.h"

enum { MAX_REQUESTS = 200, N_IMAGES = 4, N_FRAMES = 5, MIN_CONTEXT = 512, MAX_ANSWER = 90 };

static struct omma_image *images[N_IMAGES], *frames[N_FRAMES];

static bool is_large(void) { return getenv("OMMA_TEST_LARGE") != NULL; }

static int set_up(void **state) {
  static const char *const names[N_IMAGES] = {"meadow_163x97.jpg", "tower_33x200.png", "tile_64x64.png", "banner_150x40.png"};
  (void)state;
  for (int i = 0; i < N_IMAGES; i++) images[i] = fixture_image(names[i]);
  for (int i = 0; i < N_FRAMES; i++) {
    char name[32];
    snprintf(name, sizeof name, "clip_%d_118x54.jpg", i);
    frames[i] = fixture_image(name);
  }
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  for (int i = 0; i < N_IMAGES; i++) omma_image_destroy(images[i]);
  for (int i = 0; i < N_FRAMES; i++) omma_image_destroy(frames[i]);
  return 0;
}

/* ---- requests ---- */

/* A text that begins like others: one of four documents, cut at one of three places, and a few
 * letters of its own. */
static size_t random_text(struct test_random *random, char *text, size_t capacity) {
  static const size_t lengths[] = {0, 90, 160, 250};
  size_t size = lengths[test_random_range(random, 0, 3)];
  int document = (int)test_random_range(random, 0, 3);
  for (size_t i = 0; i < size; i++) text[i] = (char)('!' + (i * 7 + i / 11 + (size_t)document * 13) % 90);
  for (int64_t n = test_random_range(random, 1, 8); n > 0 && size < capacity; n--) {
    text[size++] = (char)test_random_range(random, 'a', 'z');
  }
  return size;
}

/* What some answers are held to. */
enum { N_GRAMMARS = 3 };

static void make_grammars(const struct omma_model *model, struct omma_grammar **grammars) {
  static const char schema[] =
      "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":30},\"a key with "
      "words\":{\"type\":\"array\",\"items\":"
      "{\"type\":\"integer\",\"minimum\":-5,\"maximum\":300}}},\"required\":[\"a key with words\"]}";
  static const char regex[] = "([a-z]{2,4} ?){1,200}";
  const struct omma_grammar_options options[N_GRAMMARS] = {
      {.kind = OMMA_GRAMMAR_JSON_OBJECT},
      {.kind = OMMA_GRAMMAR_JSON_SCHEMA, .text = schema, .text_size = sizeof schema - 1, .compact_json = true},
      {.kind = OMMA_GRAMMAR_REGEX, .text = regex, .text_size = sizeof regex - 1}};
  struct omma_error error;
  for (int i = 0; i < N_GRAMMARS; i++) assert_ok(omma_grammar_create(model, &options[i], &grammars[i], &error), &error);
}

static struct omma_sampling random_sampling(struct test_random *random, struct omma_grammar *const *grammars) {
  static const char *const stops[] = {"a", "e", "zz", " "};
  static const int32_t stop_tokens[] = {40, 77, 300};
  struct omma_sampling sampling = {.max_tokens = test_random_range(random, 1, MAX_ANSWER),
                                   .seed = test_random_u32(random),
                                   .ignore_eos = test_random_range(random, 0, 3) > 0,
                                   .logprobs = test_random_range(random, 0, 3) > 0};
  if (sampling.logprobs) sampling.n_top_logprobs = (int)test_random_range(random, 0, 5);
  if (test_random_range(random, 0, 2)) sampling.temperature = 0.3 * (double)test_random_range(random, 1, 5);
  if (test_random_range(random, 0, 1)) sampling.top_p = 0.9;
  if (test_random_range(random, 0, 3) == 0) sampling.top_k = 20;
  if (test_random_range(random, 0, 3) == 0) sampling.min_p = 0.02;
  if (test_random_range(random, 0, 3) == 0) sampling.repetition_penalty = 1.2;
  if (test_random_range(random, 0, 3) == 0) sampling.presence_penalty = 0.7;
  if (test_random_range(random, 0, 3) == 0) sampling.frequency_penalty = 0.3;
  if (test_random_range(random, 0, 3) == 0) sampling.min_tokens = test_random_range(random, 0, sampling.max_tokens);
  if (test_random_range(random, 0, 3) == 0) {
    sampling.stop = stops + test_random_range(random, 0, 2);
    sampling.n_stop = 2;
  }
  if (test_random_range(random, 0, 3) == 0) {
    sampling.stop_token_ids = stop_tokens;
    sampling.n_stop_token_ids = 3;
  }
  if (test_random_range(random, 0, 2) == 0) {
    static const struct omma_reasoning reasoning = {"<t>", "e", " so e", NULL};
    sampling.reasoning = &reasoning;
    sampling.limits_thinking = test_random_range(random, 0, 3) > 0;
    sampling.max_thinking_tokens = test_random_range(random, 0, MAX_ANSWER / 2);
  }
  if (test_random_range(random, 0, 2) == 0) sampling.grammar = grammars[test_random_range(random, 0, N_GRAMMARS - 1)];
  if (test_random_range(random, 0, 2) == 0) sampling.no_repeat_ngram_size = test_random_range(random, 1, 3);
  if (test_random_range(random, 0, 3) == 0) {
    sampling.repetition_detection =
        (struct omma_repetition_detection){.max_pattern_size = test_random_range(random, 1, 8), .min_count = 2};
  }
  return sampling;
}

static struct omma_request *random_request(const struct omma_model *model, struct test_random *random, bool videos,
                                           struct omma_grammar *const *grammars) {
  for (;;) {
    char text[300];
    size_t size = random_text(random, text, sizeof text), n = 0, n_prompt;
    const struct omma_video video = {.frames = (const struct omma_image *const *)frames,
                                     .n_frames = (size_t)test_random_range(random, 2, N_FRAMES)};
    struct omma_part parts[4] = {{0}};
    bool text_first = test_random_range(random, 0, 1);
    if (text_first) parts[n++] = (struct omma_part){.text = text, .text_size = size};
    for (int64_t i = test_random_range(random, 0, 3); i > 1; i--) {
      parts[n++].image = images[test_random_range(random, 0, N_IMAGES - 1)];
    }
    if (videos && test_random_range(random, 0, 5) == 0) parts[n++].video = &video;
    if (!text_first) parts[n++] = (struct omma_part){.text = text, .text_size = size};
    const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = parts, .n_parts = n};
    const struct omma_request_options options = {.sampling = random_sampling(random, grammars)};
    struct omma_request *request;
    struct omma_error error;
    assert_ok(omma_request_create(model, &message, 1, &options, &request, &error), &error);
    omma_request_prompt(request, &n_prompt);
    if (n_prompt + MAX_ANSWER < MIN_CONTEXT) return request;
    omma_request_destroy(request);
  }
}

/* Every third request is another answer to the prompt before it. */
static void make_requests(const struct omma_model *model, struct test_random *random, bool videos,
                          struct omma_request **requests, int n) {
  struct omma_grammar *grammars[N_GRAMMARS];
  make_grammars(model, grammars);
  for (int i = 0; i < n; i++) {
    if (i % 3 != 2) {
      requests[i] = random_request(model, random, videos, grammars);
      continue;
    }
    const struct omma_sampling sampling = random_sampling(random, grammars);
    struct omma_error error;
    assert_ok(omma_request_copy(requests[i - 1], &sampling, &requests[i], &error), &error);
  }
  for (int i = 0; i < N_GRAMMARS; i++) omma_grammar_destroy(grammars[i]);
}

/* ---- clients ---- */

struct client {
  struct omma_engine *engine;
  struct fixture_answer answer;
  uint64_t top_sum; /* of the likeliest tokens and their log-probabilities */
  struct omma_result result;
  atomic_int n_ends;
  int64_t leave_at; /* cancels itself at this token; -1: never */
  uint64_t id;
};

static bool on_token(void *context, const struct omma_token_event *event) {
  struct client *client = context;
  fixture_collect(&client->answer, event);
  for (int i = 0; i < event->n_top; i++) {
    uint32_t bits;
    memcpy(&bits, &event->top[i].logprob, sizeof bits);
    client->top_sum = client->top_sum * 1000003 + (uint64_t)(uint32_t)event->top[i].token * 31 + bits;
  }
  if (event->index != client->leave_at) return true;
  if (event->index % 2) return false;
  omma_engine_cancel(client->engine, client->id);
  return true;
}

static atomic_int n_open;

static void on_finish(void *context, const struct omma_result *result) {
  struct client *client = context;
  client->result = *result;
  atomic_fetch_add(&client->n_ends, 1);
  atomic_fetch_sub(&n_open, 1);
}

static void submit(struct client *client, struct omma_engine *engine, const struct omma_request *request, int64_t leave_at) {
  const struct omma_callbacks callbacks = {.context = client, .on_token = on_token, .on_finish = on_finish};
  struct omma_error error;
  memset(client, 0, sizeof *client);
  client->engine = engine;
  client->leave_at = leave_at;
  atomic_fetch_add(&n_open, 1);
  assert_ok(omma_engine_submit(engine, request, &callbacks, &client->id, &error), &error);
}

static void wait_for(int max_open) {
  while (atomic_load(&n_open) > max_open) nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

static void expect_same(const struct client *client, const struct client *alone, int index) {
  if (client->answer.n != alone->answer.n ||
      memcmp(client->answer.tokens, alone->answer.tokens, sizeof alone->answer.tokens) != 0) {
    fail_msg("request %d: other tokens than alone (%zu and %zu)", index, client->answer.n, alone->answer.n);
  }
  if (memcmp(client->answer.logprobs, alone->answer.logprobs, sizeof alone->answer.logprobs) != 0 ||
      client->top_sum != alone->top_sum) {
    fail_msg("request %d: other log-probabilities than alone", index);
  }
  assert_int_equal(client->answer.text_size, alone->answer.text_size);
  assert_memory_equal(client->answer.text, alone->answer.text, alone->answer.text_size);
  assert_int_equal(client->result.finish, alone->result.finish);
  assert_int_equal(client->result.stop_token, alone->result.stop_token);
  assert_true((client->result.stop_string == NULL) == (alone->result.stop_string == NULL));
  if (alone->result.stop_string) assert_string_equal(client->result.stop_string, alone->result.stop_string);
  assert_int_equal(client->n_ends, 1);
}

/* ---- the test ---- */

/* Instead of a golden model's name: FIXTURE_HYBRID. */
#define HYBRID "hybrid"

/* What drafts: the model's head, or a golden model; NULL: nobody but prompt and answer. */
#define HEAD "its head"

static struct omma_model *open_model(const char *name, const char *quantization, enum omma_kv_cache_type kv_cache,
                                     const char *drafter, int n_threads) {
  char path[1024];
  bool head = drafter && strcmp(drafter, HEAD) == 0;
  if (drafter) golden_path(drafter, NULL, path, sizeof path);
  const struct omma_model_options options = {.weights = OMMA_WEIGHTS_AUTO,
                                             .draft_head = head,
                                             .draft_model = drafter && !head ? path : NULL,
                                             .quantization = quantization,
                                             .kv_cache = kv_cache,
                                             .n_threads = n_threads,
                                             .max_model_len = 1024,
                                             .no_pinning = true};
  return strcmp(name, HYBRID) == 0 ? fixture_groups_model(FIXTURE_HYBRID, &options) : fixture_model(name, &options);
}

static void answer_alone(struct omma_model *model, struct omma_request **requests, struct client *alone, int n) {
  const struct omma_engine_options options = {.max_sequences = 1, .no_prefix_cache = true};
  struct omma_engine *engine = fixture_engine(model, &options);
  for (int i = 0; i < n; i++) {
    submit(&alone[i], engine, requests[i], -1);
    wait_for(0);
    assert_int_equal(alone[i].n_ends, 1);
    assert_int_equal(alone[i].result.n_cached_tokens, 0);
  }
  omma_engine_destroy(engine);
}

static struct omma_engine_stats expect_at_rest(const struct omma_engine *engine) {
  struct omma_engine_stats stats;
  omma_engine_get_stats(engine, &stats);
  assert_true(stats.alive);
  assert_int_equal(stats.kv_pages_used, 0);
  assert_int_equal(stats.n_running + stats.n_waiting, 0);
  return stats;
}

/* Steps have every token that was computed of prompts and generated; the last one counts after its
 * answers have ended. */
static void expect_steps_add_up(const struct omma_engine *engine) {
  struct omma_engine_stats stats;
  int64_t expected, n_steps = 0, n_right = 0;
  for (int i = 0; i < 10000; i++) {
    omma_engine_get_stats(engine, &stats);
    expected = stats.prompt_tokens - stats.cached_prompt_tokens + stats.generation_tokens;
    if (stats.step_tokens >= expected) break;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  /* what a preempted request had is computed again */
  assert_true(stats.n_preemptions ? stats.step_tokens >= expected : stats.step_tokens == expected);
  for (int i = 0; i < OMMA_N_STEP_SIZES; i++) n_steps += stats.steps_by_tokens[i];
  assert_true(n_steps >= stats.decode_steps && stats.steps_by_tokens[0] > 0);
  for (int i = 0; i < OMMA_MAX_DRAFT_TOKENS; i++) n_right += stats.accepted_by_place[i];
  assert_int_equal(n_right, stats.accepted_tokens);
  assert_true(stats.accepted_by_place[0] >= stats.accepted_by_place[1]);
}

/* Which request comes first, and after how many are left open each one comes; -1: at once. */
struct order {
  int first, pauses[MAX_REQUESTS];
};

static void draw_order(struct test_random *random, int n, struct order *order) {
  order->first = (int)test_random_range(random, 0, n - 1);
  for (int i = 0; i < n; i++) {
    order->pauses[i] = test_random_range(random, 0, 9) == 0 ? (int)test_random_range(random, 0, 6) : -1;
  }
}

/* All requests in some order, with a pause now and then, under one setting of the engine. */
static struct omma_engine_stats answer_together(struct omma_model *model, const struct omma_engine_options *options,
                                                struct omma_request **requests, const struct client *alone,
                                                struct client *clients, int n, const struct order *order) {
  struct omma_engine *engine = fixture_engine(model, options);
  int step = 1;
  while (n % 2 == 0 && n > 2 && step == 1) step = n - 1; /* backwards */
  for (int i = 0; i < n; i++) {
    int at = (order->first + i * step) % n;
    if (order->pauses[i] >= 0) wait_for(order->pauses[i]);
    submit(&clients[at], engine, requests[at], -1);
  }
  wait_for(0);
  for (int i = 0; i < n; i++) expect_same(&clients[i], &alone[i], i);
  struct omma_engine_stats stats = expect_at_rest(engine);
  expect_steps_add_up(engine);
  omma_engine_destroy(engine);
  return stats;
}

static void check_threads(const char *name, const char *quantization, enum omma_kv_cache_type kv_cache, bool videos,
                          const char *drafter, int n, uint64_t seed, int n_threads) {
  static struct client alone[MAX_REQUESTS], clients[MAX_REQUESTS];
  struct omma_request *requests[2][MAX_REQUESTS];
  struct omma_model *models[2] = {open_model(name, quantization, kv_cache, drafter, 1),
                                  open_model(name, quantization, kv_cache, drafter, n_threads)};
  for (int m = 0; m < 2; m++) {
    struct test_random random = {seed}; /* the same requests of both models */
    make_requests(models[m], &random, videos, requests[m], n);
  }
  answer_alone(models[0], requests[0], alone, n);
  const int64_t few = fixture_kv_bytes(models[0], MIN_CONTEXT / 64 + 2);
  const struct omma_engine_options settings[] = {
      /* steps of more rows than logits are kept of: by drafts, and by sequences */
      {.max_sequences = 8, .slice_ms = 1, .draft_tokens = 7, .lookup_max = 2},
      {.max_sequences = 5,
       .kv_cache_bytes = few,
       .prefill_chunk = 64,
       .slice_ms = 1,
       .reserve_tokens = -1,
       .encoder_cache_bytes = -1},
      /* prompts fill their chunks */
      {.max_sequences = 40,
       .kv_cache_bytes = 3 * few,
       .slice_percent = 90,
       .encoder_cache_bytes = 40000,
       .patch_budget = 64,
       .scheduling = OMMA_SCHEDULING_THROUGHPUT},
      {.max_sequences = 4,
       .no_prefix_cache = true,
       .slice_percent = 5,
       .kv_cache_bytes = few,
       .reserve_tokens = -1,
       .draft_tokens = 4,
       .lookup_min = 1,
       .lookup_max = 3},
  };
  int64_t n_preemptions = 0, n_hits = 0, n_accepted = 0;
  struct test_random random = {seed + 1};
  for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
    int m = s % 2 == 0;
    struct order order;
    draw_order(&random, n, &order);
    /* Of small runs each has the first two settings or the last two, one on either model. */
    if (test_small() && s / 2 != seed % 2) continue;
    struct omma_engine_options options = settings[s];
    if (drafter && options.draft_tokens) options.drafting = strcmp(drafter, HEAD) == 0 ? OMMA_DRAFTS_HEAD : OMMA_DRAFTS_MODEL;
    struct omma_engine_stats stats = answer_together(models[m], &options, requests[m], alone, clients, n, &order);
    n_preemptions += stats.n_preemptions;
    n_hits += stats.prefix_cache_hits;
    n_accepted += stats.accepted_tokens;
    assert_true(!settings[s].no_prefix_cache || stats.prefix_cache_hits == 0);
  }
  print_message("%s: %d requests, %d preemptions, %d tokens found, %d drafted\n", name, n, (int)n_preemptions, (int)n_hits,
                (int)n_accepted);
  assert_true(n_hits > 0 && (quantization || test_small() || (n_preemptions > 0 && n_accepted > 0)));
  for (int m = 0; m < 2; m++) {
    for (int i = 0; i < n; i++) omma_request_destroy(requests[m][i]);
    omma_model_close(models[m]);
  }
}

static void check_model(const char *name, const char *quantization, enum omma_kv_cache_type kv_cache, bool videos, int n,
                        uint64_t seed) {
  check_threads(name, quantization, kv_cache, videos, NULL, n, seed, 2);
}

static void every_answer_is_the_one_alone(void **state) {
  (void)state;
  int n = is_large() ? MAX_REQUESTS : test_small() ? 12 : 48;
  for (size_t m = 0; golden_models[m]; m++) {
    bool kept = strcmp(golden_models[m], "qwen3_vl_untied") == 0 || strcmp(golden_models[m], "kimi_vl") == 0;
    if (!kept && !is_large()) continue;
    check_model(golden_models[m], NULL, OMMA_KV_CACHE_AUTO, strcmp(golden_models[m], "qwen3_vl_untied") == 0, n, 1000 + m);
  }
}

static void so_with_quantised_models(void **state) {
  (void)state;
  int n = is_large() ? MAX_REQUESTS : test_small() ? 12 : 18;
  check_model("qwen3_vl_moe", "int4-g32", OMMA_KV_CACHE_AUTO, false, n, 2000);
  check_model("kimi_vl", "int4", OMMA_KV_CACHE_AUTO, false, n, 2001);
  check_model("qwen2_5_vl_tied", "int8", OMMA_KV_CACHE_INT8, false, n, 2002);
}

static void so_with_an_int8_cache(void **state) {
  (void)state;
  int n = is_large() ? MAX_REQUESTS : test_small() ? 12 : 24;
  check_model("qwen3_vl_untied", NULL, OMMA_KV_CACHE_INT8, true, n, 3000);
}

/* Prompts and answers that are longer than the windows. */
static void so_with_windows(void **state) {
  (void)state;
  int n = is_large() ? MAX_REQUESTS : test_small() ? 12 : 24;
  check_model("qwen2_5_vl_sliding", NULL, OMMA_KV_CACHE_AUTO, false, n, 4000);
  check_model("qwen2_vl_sliding", NULL, OMMA_KV_CACHE_INT8, false, n, 4001);
}

/* A layer that sees all, a recurrent one and one with a window. */
static void so_with_snapshots(void **state) {
  (void)state;
  int n = is_large() ? MAX_REQUESTS : test_small() ? 12 : 48;
  check_model(HYBRID, NULL, OMMA_KV_CACHE_AUTO, false, n, 5000);
  check_model(HYBRID, NULL, OMMA_KV_CACHE_INT8, false, n, 5001);
  check_model("qwen3_5_untied", NULL, OMMA_KV_CACHE_AUTO, true, n, 5002);
  check_model("qwen3_5_tied", NULL, OMMA_KV_CACHE_INT8, false, n, 5003);
  check_model("qwen3_5_moe", "int8", OMMA_KV_CACHE_AUTO, false, n, 5004);
}

/* Far more than there are CPUs. */
static void so_with_256_threads(void **state) {
  (void)state;
  check_threads("qwen2_5_vl_tied", "int8", OMMA_KV_CACHE_INT8, false, NULL, is_large() ? MAX_REQUESTS : 12, 6000, 256);
}

/* Drawn heads are hardly ever right: what counts is that their drafts change nothing. */
static void so_with_a_draft_head(void **state) {
  (void)state;
  int n = is_large() ? MAX_REQUESTS : test_small() ? 12 : 24;
  check_threads("qwen3_5_untied", NULL, OMMA_KV_CACHE_AUTO, true, HEAD, n, 7000, 2);
  check_threads("qwen3_5_tied", "int8", OMMA_KV_CACHE_INT8, false, HEAD, n, 7001, 2);
  check_threads("qwen3_5_moe", NULL, OMMA_KV_CACHE_AUTO, false, HEAD, n, 7002, 2);
}

/* A model is nearly always right about itself, another one hardly ever. */
static void so_with_a_draft_model(void **state) {
  (void)state;
  int n = is_large() ? MAX_REQUESTS : test_small() ? 12 : 24;
  check_threads("qwen3_vl_untied", NULL, OMMA_KV_CACHE_AUTO, true, "qwen3_vl_untied", n, 8000, 2);
  check_threads("qwen3_vl_moe", "int8", OMMA_KV_CACHE_INT8, false, "qwen2_5_vl_untied", n, 8001, 2);
}

/* ---- a storm ---- */

/* Of 300 requests a third leave at some point: some before they are begun, some while they run,
 * some by their callback. Who stays gets the answer of the request alone, who leaves the beginning
 * of it. */
static void a_storm_of_cancellations_disturbs_nobody(void **state) {
  (void)state;
  enum { N = 300, KINDS = 12 };
  static struct client alone[KINDS], clients[N];
  struct omma_request *requests[KINDS];
  struct test_random random = {77};
  struct omma_model *model = open_model("qwen3_vl_untied", NULL, OMMA_KV_CACHE_AUTO, NULL, 2);
  make_requests(model, &random, true, requests, KINDS);
  answer_alone(model, requests, alone, KINDS);
  const struct omma_engine_options options = {
      .max_sequences = 7, .queue_limit = N, .slice_ms = 1, .reserve_tokens = -1, .kv_cache_bytes = fixture_kv_bytes(model, 12)};
  struct omma_engine *engine = fixture_engine(model, &options);
  for (int i = 0; i < N; i++) {
    bool leaves = i % 3 == 1;
    submit(&clients[i], engine, requests[i % KINDS], leaves ? test_random_range(&random, 0, 20) : -1);
    if (i % 9 == 1) omma_engine_cancel(engine, clients[i].id);
    if (test_random_range(&random, 0, 4) == 0) wait_for((int)test_random_range(&random, 3, 40));
  }
  wait_for(0);
  for (int i = 0; i < N; i++) {
    const struct client *whole = &alone[i % KINDS], *client = &clients[i];
    assert_int_equal(client->n_ends, 1);
    assert_true(client->answer.n <= whole->answer.n);
    assert_memory_equal(client->answer.tokens, whole->answer.tokens, client->answer.n * sizeof(int32_t));
    if (client->result.finish != OMMA_FINISH_CANCELLED) expect_same(client, whole, i);
    if (i % 3 != 1) assert_int_not_equal(client->result.finish, OMMA_FINISH_CANCELLED);
  }
  struct omma_engine_stats stats = expect_at_rest(engine);
  assert_int_equal(stats.n_finished[OMMA_FINISH_ERROR], 0);
  assert_true(stats.n_finished[OMMA_FINISH_CANCELLED] > N / 9);
  omma_engine_destroy(engine);
  for (int i = 0; i < KINDS; i++) omma_request_destroy(requests[i]);
  omma_model_close(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_answer_is_the_one_alone),
      cmocka_unit_test(so_with_quantised_models),
      cmocka_unit_test(so_with_an_int8_cache),
      cmocka_unit_test(so_with_windows),
      cmocka_unit_test(so_with_snapshots),
      cmocka_unit_test(so_with_256_threads),
      cmocka_unit_test(so_with_a_draft_head),
      cmocka_unit_test(so_with_a_draft_model),
      cmocka_unit_test(a_storm_of_cancellations_disturbs_nobody),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
