/* Log-probabilities of prompts: those of the official code, whatever the chunks, the rest of the
 * batch, the cache and preemptions. */
#include "engine/prompt_scores.h"

#include <math.h>
#include <stdlib.h>

#include "support/golden.h"
#include "support/model_fixture.h"
#include "support/test.h"

enum { MAX_PROMPT = 1024, N_TOP = 5 };

struct scores {
  int32_t tokens[MAX_PROMPT];
  float logprobs[MAX_PROMPT];
  int64_t ranks[MAX_PROMPT];
  struct omma_top_logprob top[MAX_PROMPT][OMMA_MAX_TOP_LOGPROBS];
  int64_t n; /* the first one is at 1 */
  int n_generated;
};

static void take_prompt_token(void *context, const struct omma_prompt_token_event *event) {
  struct scores *scores = context;
  assert_int_equal(event->index, scores->n + 1);
  assert_int_equal(scores->n_generated, 0);
  scores->n = event->index;
  scores->tokens[event->index] = event->token;
  scores->logprobs[event->index] = event->logprob;
  scores->ranks[event->index] = event->rank;
  for (int i = 0; i < event->n_top; i++) scores->top[event->index][i] = event->top[i];
}

static bool take_token(void *context, const struct omma_token_event *event) {
  (void)event;
  ((struct scores *)context)->n_generated++;
  return true;
}

/* Asks for a prompt's log-probabilities and one token. */
static struct omma_result score(struct omma_engine *engine, const struct omma_model *model, const int32_t *ids, size_t n,
                                int n_top, struct scores *scores) {
  struct omma_request *request;
  struct omma_result result;
  struct omma_error error;
  const struct omma_request_options options = {
      .sampling = {.max_tokens = 1, .prompt_logprobs = true, .n_prompt_logprobs = n_top}};
  const struct omma_callbacks callbacks = {.context = scores, .on_token = take_token, .on_prompt_token = take_prompt_token};
  memset(scores, 0, sizeof *scores);
  assert_ok(omma_request_create_tokens(model, ids, n, &options, &request, &error), &error);
  assert_ok(omma_generate(engine, request, &callbacks, &result, &error), &error);
  omma_request_destroy(request);
  assert_int_equal(scores->n, n - 1);
  for (size_t i = 1; i < n; i++) assert_int_equal(scores->tokens[i], ids[i]);
  return result;
}

static void expect_same(const struct scores *a, const struct scores *b) {
  assert_int_equal(a->n, b->n);
  assert_memory_equal(a->logprobs, b->logprobs, sizeof a->logprobs);
  assert_memory_equal(a->ranks, b->ranks, sizeof a->ranks);
  assert_memory_equal(a->top, b->top, sizeof a->top);
}

static size_t make_prompt(int32_t *ids, size_t n) {
  struct test_random random = {17};
  for (size_t i = 0; i < n; i++) ids[i] = (int32_t)(test_random_u32(&random) % 500);
  return n;
}

/* ---- against the official code ---- */

/* Prompt and generated tokens as one prompt: the last ones are as likely as the official code found
 * them when it generated them. */
static int64_t check_case(struct omma_engine *engine, const struct omma_model *model, const struct golden_case *c,
                          struct scores *scores) {
  int32_t ids[MAX_PROMPT];
  int64_t n_prompt, n_tokens, count;
  if (!golden_has(c, "generate.logprobs") || c->n_images) return 0;
  int64_t *prompt = golden_i64(c, "language.input_ids", &n_prompt), *tokens = golden_i64(c, "generate.tokens", &n_tokens);
  int64_t *top_ids = golden_i64(c, "generate.top_ids", &count);
  float *logprobs = golden_f32(c, "generate.logprobs", &count), *top = golden_f32(c, "generate.top_logprobs", &count);
  assert_true(n_prompt + n_tokens <= MAX_PROMPT);
  for (int64_t i = 0; i < n_prompt; i++) ids[i] = (int32_t)prompt[i];
  for (int64_t i = 0; i < n_tokens; i++) ids[n_prompt + i] = (int32_t)tokens[i];
  score(engine, model, ids, (size_t)(n_prompt + n_tokens), N_TOP, scores);
  for (int64_t i = 0; i < n_tokens; i++) {
    int64_t at = n_prompt + i;
    assert_true(fabsf(scores->logprobs[at] - logprobs[i]) < 2e-4f);
    assert_int_equal(scores->ranks[at], 1); /* they were the likeliest */
    for (int j = 0; j < N_TOP; j++) {
      assert_true(fabsf(scores->top[at][j].logprob - top[i * N_TOP + j]) < 2e-4f);
      bool tied = j + 1 < N_TOP && top[i * N_TOP + j] - top[i * N_TOP + j + 1] < 1e-3f;
      if (j == 0 && !tied) assert_int_equal(scores->top[at][j].token, top_ids[i * N_TOP + j]);
    }
  }
  free(prompt);
  free(tokens);
  free(top_ids);
  free(logprobs);
  free(top);
  return n_tokens;
}

static void they_are_those_of_the_official_code(void **state) {
  (void)state;
  static struct scores scores;
  int64_t n_checked = 0;
  for (size_t m = 0; golden_models[m]; m++) {
    struct omma_model *model = fixture_model(golden_models[m], NULL);
    struct omma_engine *engine = fixture_engine(model, NULL);
    json_t *manifest = golden_manifest(golden_models[m]);
    struct golden_case c;
    for (size_t i = 0; golden_case_open(golden_models[m], manifest, i, &c); i++) {
      n_checked += check_case(engine, model, &c, &scores);
      golden_case_close(&c);
    }
    json_decref(manifest);
    omma_engine_destroy(engine);
    omma_model_close(model);
  }
  assert_true(n_checked > 100);
}

/* ---- exactness ---- */

static void they_do_not_depend_on_chunks_or_groups(void **state) {
  (void)state;
  static struct scores whole, other;
  static const struct omma_engine_options ways[] = {{.prefill_chunk = 64},
                                                    {.max_sequences = 1},
                                                    {.max_sequences = 3, .slice_ms = 1},
                                                    {.no_prefix_cache = true, .prefill_chunk = 128}};
  int32_t ids[300];
  struct omma_model *model = fixture_model("qwen3_vl_moe", NULL);
  struct omma_engine *engine = fixture_engine(model, NULL);
  size_t n = make_prompt(ids, 300);
  score(engine, model, ids, n, 20, &whole);
  omma_engine_destroy(engine);
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    engine = fixture_engine(model, &ways[i]);
    score(engine, model, ids, n, 20, &other);
    expect_same(&whole, &other);
    omma_engine_destroy(engine);
  }
  omma_model_close(model);
}

static void ranks_count_the_likelier_ones(void **state) {
  (void)state;
  static struct scores scores;
  int32_t ids[200];
  struct omma_model *model = fixture_model("qwen3_vl_tied", NULL);
  struct omma_engine *engine = fixture_engine(model, NULL);
  size_t n = make_prompt(ids, 200);
  int n_listed = 0;
  score(engine, model, ids, n, 20, &scores);
  for (size_t i = 1; i < n; i++) {
    assert_true(scores.ranks[i] >= 1 && scores.ranks[i] <= 544);
    for (int j = 0; j < 20; j++) {
      if (scores.top[i][j].token != ids[i]) continue;
      assert_true(scores.top[i][j].logprob == scores.logprobs[i]);
      assert_int_equal(scores.ranks[i], j + 1);
      n_listed++;
    }
    bool likelier = scores.logprobs[i] > scores.top[i][19].logprob;
    assert_true(!likelier || scores.ranks[i] < 20);
    if (scores.logprobs[i] < scores.top[i][19].logprob) assert_true(scores.ranks[i] > 20);
  }
  assert_true(n_listed > 0);
  omma_engine_destroy(engine);
  omma_model_close(model);
}

/* What earlier prompts have left is not used, since their rows are gone; later ones may use what
 * this one leaves. */
static void cached_prompts_are_scored_whole(void **state) {
  (void)state;
  static struct scores first, again;
  int32_t ids[300];
  struct fixture_answer answer;
  struct omma_error error;
  struct omma_request *request;
  struct omma_engine_stats stats;
  struct omma_model *model = fixture_model("qwen3_vl_tied", NULL);
  struct omma_engine *engine = fixture_engine(model, NULL);
  size_t n = make_prompt(ids, 300);
  assert_int_equal(score(engine, model, ids, n, 3, &first).n_cached_tokens, 0);
  assert_int_equal(score(engine, model, ids, n, 3, &again).n_cached_tokens, 0);
  expect_same(&first, &again);
  omma_engine_get_stats(engine, &stats);
  assert_int_equal(stats.prefix_cache_queries, 0);
  const struct omma_request_options options = {.sampling = {.max_tokens = 1}};
  assert_ok(omma_request_create_tokens(model, ids, n, &options, &request, &error), &error);
  assert_int_equal(fixture_ask(engine, request, &answer).n_cached_tokens, 256);
  omma_request_destroy(request);
  omma_engine_destroy(engine);
  omma_model_close(model);
}

/* ---- preemption ---- */

/* What a callback of the engine's thread notes of a request. */
struct watched {
  struct scores scores;
  struct fixture_gate *begun; /* passed at the first token of the prompt; NULL: none */
  struct fixture_gate *finished;
  const struct watched *other;
  int64_t n_preemptions;
  int64_t other_n; /* tokens of the other's prompt that had a score at this one's end */
  int other_n_generated;
};

static void watch_prompt_token(void *context, const struct omma_prompt_token_event *event) {
  struct watched *watched = context;
  take_prompt_token(&watched->scores, event);
  if (event->index == 1 && watched->begun) fixture_gate_pass(watched->begun);
}

static bool watch_token(void *context, const struct omma_token_event *event) {
  return take_token(&((struct watched *)context)->scores, event);
}

static void watch_end(void *context, const struct omma_result *result) {
  struct watched *watched = context;
  watched->n_preemptions = result->n_preemptions;
  watched->other_n = watched->other->scores.n;
  watched->other_n_generated = watched->other->scores.n_generated;
  fixture_gate_pass(watched->finished);
}

/* While one request computes the beginning of its prompt, another comes that goes before it. Its
 * prompt fills its pages, so its first step takes one more, and of 10 pages too few are left for
 * the first request, which gives its own up: whatever the machine's speed. */
static void check_preempted(enum omma_scheduling scheduling, int64_t expected_n, int expected_n_generated) {
  enum { YIELDS, GOES_BEFORE, N, N_TOKENS = 90 };
  static const size_t n_ids[N] = {[YIELDS] = 300, [GOES_BEFORE] = 320};
  static struct scores alone[N];
  static struct watched together[N];
  static int32_t ids[N][320];
  struct fixture_gate begun, finished;
  struct omma_error error;
  struct omma_request *requests[N];
  struct omma_model *model = fixture_model("qwen3_vl_tied", NULL);
  struct omma_engine *engine = fixture_engine(model, NULL);
  make_prompt(ids[YIELDS], 320);
  make_prompt(ids[GOES_BEFORE], 320);
  ids[GOES_BEFORE][0]++;
  for (int i = 0; i < N; i++) score(engine, model, ids[i], n_ids[i], 2, &alone[i]);
  omma_engine_destroy(engine);

  const struct omma_engine_options options = {.kv_cache_bytes = fixture_kv_bytes(model, 10),
                                              .max_sequences = N,
                                              .prefill_chunk = 256,
                                              .reserve_tokens = -1,
                                              .slice_ms = 1,
                                              .by_priority = true,
                                              .scheduling = scheduling};
  engine = fixture_engine(model, &options);
  fixture_gate_init(&finished, true);
  fixture_gate_init(&begun, false);
  memset(together, 0, sizeof together);
  together[YIELDS].begun = &begun;
  for (int i = 0; i < N; i++) {
    const struct omma_request_options settings = {
        .priority = -i,
        .sampling = {.max_tokens = N_TOKENS, .ignore_eos = true, .prompt_logprobs = true, .n_prompt_logprobs = 2}};
    const struct omma_callbacks callbacks = {
        .context = &together[i], .on_token = watch_token, .on_finish = watch_end, .on_prompt_token = watch_prompt_token};
    together[i].finished = &finished;
    together[i].other = &together[1 - i];
    assert_ok(omma_request_create_tokens(model, ids[i], n_ids[i], &settings, &requests[i], &error), &error);
    assert_ok(omma_engine_submit(engine, requests[i], &callbacks, NULL, &error), &error);
    if (i == YIELDS) fixture_gate_await(&begun, 1);
  }
  fixture_gate_open(&begun);
  fixture_gate_await(&finished, N);
  omma_engine_destroy(engine);
  fixture_gate_destroy(&begun);
  fixture_gate_destroy(&finished);

  assert_int_equal(together[YIELDS].n_preemptions, 1);
  assert_int_equal(together[GOES_BEFORE].n_preemptions, 0);
  assert_int_equal(together[GOES_BEFORE].other_n, expected_n);
  assert_int_equal(together[GOES_BEFORE].other_n_generated, expected_n_generated);
  for (int i = 0; i < N; i++) {
    expect_same(&alone[i], &together[i].scores);
    assert_int_equal(together[i].scores.n_generated, N_TOKENS);
    omma_request_destroy(requests[i]);
  }
  omma_model_close(model);
}

/* Tokens of one answer come before the rest of another's prompt, whose first chunk alone has
 * scores. */
static void prompts_preempted_in_their_middle_are_reported_once(void **state) {
  (void)state;
  check_preempted(OMMA_SCHEDULING_LATENCY, 256, 0);
}

/* Both prompts come before the tokens that make pages run out. */
static void prompts_preempted_after_their_end_are_reported_once(void **state) {
  (void)state;
  check_preempted(OMMA_SCHEDULING_THROUGHPUT, 299, 1);
}

static void a_prompt_of_one_token_has_none(void **state) {
  (void)state;
  static struct scores scores;
  const int32_t id = 7;
  struct omma_model *model = fixture_model("qwen3_vl_tied", NULL);
  struct omma_engine *engine = fixture_engine(model, NULL);
  score(engine, model, &id, 1, 3, &scores);
  assert_int_equal(scores.n_generated, 1);
  omma_engine_destroy(engine);
  omma_model_close(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(they_are_those_of_the_official_code),
      cmocka_unit_test(they_do_not_depend_on_chunks_or_groups),
      cmocka_unit_test(ranks_count_the_likelier_ones),
      cmocka_unit_test(cached_prompts_are_scored_whole),
      cmocka_unit_test(prompts_preempted_in_their_middle_are_reported_once),
      cmocka_unit_test(prompts_preempted_after_their_end_are_reported_once),
      cmocka_unit_test(a_prompt_of_one_token_has_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
