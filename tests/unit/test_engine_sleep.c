/* An engine that sleeps: it takes nothing in, lets what it has end, keeps nothing for later
 * prompts, and answers as before once it is woken. A gate holds the engine's thread inside a
 * callback, so that nothing here depends on timing. */
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "support/golden.h"
#include "support/model_fixture.h"
#include "support/test.h"

enum { N_TOKENS = 12 };

static struct omma_image *meadow;

static int set_up(void **state) {
  (void)state;
  meadow = fixture_image("meadow_163x97.jpg");
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  omma_image_destroy(meadow);
  return 0;
}

static struct omma_request *make_request(const struct omma_model *model, int n_tokens) {
  const struct omma_image *const images[] = {meadow};
  const struct omma_sampling sampling = {.max_tokens = n_tokens, .ignore_eos = true, .logprobs = true};
  return fixture_request(model, images, 1,
                         "a text which is long enough for a page of keys and values to be filled by it, however many letters "
                         "a token has, and for some more tokens that come after that page",
                         &sampling);
}

/* ---- what is reported of pages ---- */

struct kept {
  atomic_int n_stored, n_removed, n_cleared;
};

static void on_stored(void *context, const struct omma_kv_page *page) {
  (void)page;
  atomic_fetch_add(&((struct kept *)context)->n_stored, 1);
}

static void on_removed(void *context, const struct omma_kv_page_key *key) {
  (void)key;
  atomic_fetch_add(&((struct kept *)context)->n_removed, 1);
}

static void on_cleared(void *context) { atomic_fetch_add(&((struct kept *)context)->n_cleared, 1); }

static struct omma_kv_events events_of(struct kept *kept) {
  return (struct omma_kv_events){.context = kept, .stored = on_stored, .removed = on_removed, .cleared = on_cleared};
}

static void expect_asleep(struct omma_engine *engine, const struct omma_request *request) {
  struct omma_error error;
  struct omma_engine_stats stats;
  struct omma_embeddings *embeddings = NULL;
  const struct omma_image *const images[] = {meadow};
  assert_fails(omma_engine_submit(engine, request, &(struct omma_callbacks){0}, NULL, &error), OMMA_ERROR_BUSY, "asleep",
               &error);
  assert_string_equal(error.field, "asleep");
  assert_fails(omma_encode(engine, images, 1, NULL, true, NULL, NULL, &embeddings, &error), OMMA_ERROR_BUSY, "asleep", &error);
  omma_engine_get_stats(engine, &stats);
  assert_true(stats.alive);
  assert_int_equal(stats.n_running + stats.n_waiting, 0);
  assert_int_equal(stats.kv_pages_used + stats.kv_pages_kept + stats.kv_pages_published, 0);
  assert_int_equal(stats.snapshots_used + stats.snapshots_published, 0);
  assert_int_equal(stats.encoder_cache_bytes, 0);
}

static void expect_as_before(struct omma_model *model) {
  static struct fixture_answer first, again;
  struct kept kept = {0};
  const struct omma_kv_events events = events_of(&kept);
  struct omma_engine *engine = fixture_engine(model, &(struct omma_engine_options){.kv_events = &events});
  struct omma_request *request = make_request(model, N_TOKENS);
  struct omma_error error;
  fixture_ask(engine, request, &first);
  assert_true(kept.n_stored > 0 && kept.n_removed == 0);
  for (int i = 1; i <= 2; i++) {
    assert_ok(omma_engine_sleep(engine, &error), &error);
    assert_int_equal(kept.n_cleared, i);
    expect_asleep(engine, request);
    assert_ok(omma_engine_sleep(engine, &error), &error);
    assert_int_equal(kept.n_cleared, i);
    omma_engine_wake(engine);
    omma_engine_wake(engine);
    assert_int_equal(fixture_ask(engine, request, &again).n_cached_tokens, 0);
    fixture_expect_equal(&first, &again);
    assert_true(fixture_ask(engine, request, &again).n_cached_tokens > 0);
    fixture_expect_equal(&first, &again);
  }
  assert_int_equal(kept.n_removed, 0);
  assert_ok(omma_engine_sleep(engine, &error), &error);
  omma_request_destroy(request);
  omma_engine_destroy(engine);
  omma_model_close(model);
}

/* Pages, windows, snapshots, compressed rows. */
static void answers_are_those_before(void **state) {
  (void)state;
  static const char *const models[] = {"qwen3_vl_tied", "qwen3_5_tied", "kimi_vl"};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) expect_as_before(fixture_model(models[i], NULL));
  for (int i = 0; i < FIXTURE_GROUPS; i++) expect_as_before(fixture_groups_model(i, NULL));
}

/* ---- while a request runs ---- */

struct client {
  struct fixture_gate gate, finished;
  struct omma_result result;
  int hold_token;
};

static bool on_token(void *context, const struct omma_token_event *event) {
  struct client *client = context;
  if (event->index == client->hold_token) fixture_gate_pass(&client->gate);
  return true;
}

static void on_finish(void *context, const struct omma_result *result) {
  struct client *client = context;
  client->result = *result;
  fixture_gate_open(&client->finished);
}

/* The engine is held before the request's third token. */
static void hold(struct omma_engine *engine, const struct omma_request *request, struct client *client) {
  const struct omma_callbacks callbacks = {.context = client, .on_token = on_token, .on_finish = on_finish};
  struct omma_error error;
  *client = (struct client){.hold_token = 2};
  fixture_gate_init(&client->gate, false);
  fixture_gate_init(&client->finished, false);
  assert_ok(omma_engine_submit(engine, request, &callbacks, NULL, &error), &error);
  fixture_gate_await(&client->gate, 1);
}

static void expect_whole(struct client *client, int n_tokens) {
  fixture_gate_pass(&client->finished);
  assert_int_equal(client->result.finish, OMMA_FINISH_LENGTH);
  assert_int_equal(client->result.n_completion_tokens, n_tokens);
  fixture_gate_destroy(&client->gate);
  fixture_gate_destroy(&client->finished);
}

struct sleeper {
  struct omma_engine *engine;
  enum omma_status status;
  struct omma_error error;
};

static void *sleep_main(void *argument) {
  struct sleeper *sleeper = argument;
  sleeper->status = omma_engine_sleep(sleeper->engine, &sleeper->error);
  return NULL;
}

/* Until the engine takes nothing more. */
static void await_refusal(struct omma_engine *engine, const struct omma_request *request) {
  struct omma_error error;
  uint64_t id;
  while (omma_engine_submit(engine, request, &(struct omma_callbacks){0}, &id, &error) == OMMA_OK) {
    omma_engine_cancel(engine, id);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  assert_string_equal(error.field, "asleep");
}

static void what_runs_ends_before(void **state) {
  (void)state;
  enum { N_SLEEPERS = 3 };
  struct omma_model *model = fixture_model("qwen3_vl_tied", NULL);
  struct omma_engine *engine = fixture_engine(model, NULL);
  struct omma_request *request = make_request(model, N_TOKENS);
  struct sleeper sleepers[N_SLEEPERS];
  pthread_t threads[N_SLEEPERS];
  struct client client;
  struct omma_engine_stats stats;
  hold(engine, request, &client);
  for (int i = 0; i < N_SLEEPERS; i++) {
    sleepers[i] = (struct sleeper){.engine = engine};
    assert_int_equal(pthread_create(&threads[i], NULL, sleep_main, &sleepers[i]), 0);
  }
  await_refusal(engine, request);
  omma_engine_get_stats(engine, &stats);
  assert_true(stats.kv_pages_used > 0);
  fixture_gate_open(&client.gate);
  expect_whole(&client, N_TOKENS);
  for (int i = 0; i < N_SLEEPERS; i++) {
    pthread_join(threads[i], NULL);
    assert_ok(sleepers[i].status, &sleepers[i].error);
  }
  expect_asleep(engine, request);
  omma_request_destroy(request);
  omma_engine_destroy(engine);
  omma_model_close(model);
}

/* Whoever waits for it to sleep hears of it, and nothing is forgotten. */
static void it_is_woken_before_it_sleeps(void **state) {
  (void)state;
  static struct fixture_answer answer;
  struct omma_model *model = fixture_model("qwen3_vl_tied", NULL);
  struct omma_engine *engine = fixture_engine(model, NULL);
  struct omma_request *request = make_request(model, N_TOKENS);
  struct sleeper sleeper = {.engine = engine};
  pthread_t thread;
  struct client client;
  hold(engine, request, &client);
  assert_int_equal(pthread_create(&thread, NULL, sleep_main, &sleeper), 0);
  await_refusal(engine, request);
  omma_engine_wake(engine);
  pthread_join(thread, NULL);
  assert_fails(sleeper.status, OMMA_ERROR_CANCELLED, "does not sleep", &sleeper.error);
  fixture_gate_open(&client.gate);
  expect_whole(&client, N_TOKENS);
  assert_true(fixture_ask(engine, request, &answer).n_cached_tokens > 0);
  omma_request_destroy(request);
  omma_engine_destroy(engine);
  omma_model_close(model);
}

/* ---- requests that are made meanwhile ---- */

static bool find_ones(void *context, const struct omma_encoding_key *key, float *values, size_t n_values) {
  (void)key;
  for (size_t i = 0; i < n_values; i++) values[i] = 1;
  ++*(int *)context;
  return true;
}

static bool is_known(const struct omma_model *model, const unsigned char *bytes, size_t n_bytes) {
  struct omma_error error;
  struct omma_image *known = NULL;
  assert_ok(omma_image_recall(model, bytes, n_bytes, NULL, NULL, &known, &error), &error);
  omma_image_destroy(known);
  return known != NULL;
}

/* As by a thread that prepares a request when the engine is put to sleep: neither the resized image
 * nor what another replica has encoded is kept. */
static void what_is_prepared_meanwhile_is_not_kept(void **state) {
  (void)state;
  int n_found = 0;
  size_t n_bytes;
  char path[1024];
  golden_path("images", "meadow_163x97.jpg", path, sizeof path);
  unsigned char *bytes = fixture_read(path, &n_bytes);
  const struct omma_encoding_store store = {.context = &n_found, .find = find_ones};
  struct omma_model *model = fixture_model("qwen3_vl_tied", NULL);
  struct omma_engine *engine = fixture_engine(model, &(struct omma_engine_options){.encoding_store = &store});
  struct omma_error error;
  assert_ok(omma_engine_sleep(engine, &error), &error);
  struct omma_request *request = make_request(model, N_TOKENS);
  expect_asleep(engine, request);
  assert_int_equal(n_found, 1);
  assert_false(is_known(model, bytes, n_bytes));
  omma_engine_wake(engine);
  omma_request_destroy(request);
  request = make_request(model, N_TOKENS);
  assert_true(is_known(model, bytes, n_bytes));
  uint64_t id;
  assert_ok(omma_engine_submit(engine, request, &(struct omma_callbacks){0}, &id, &error), &error);
  assert_int_equal(n_found, 2);
  omma_engine_cancel(engine, id);
  assert_ok(omma_engine_sleep(engine, &error), &error);
  assert_false(is_known(model, bytes, n_bytes));
  omma_request_destroy(request);
  omma_engine_destroy(engine);
  omma_model_close(model);
  free(bytes);
}

/* ---- several engines ---- */

static void several_sleep_together(void **state) {
  (void)state;
  enum { N_ENGINES = 2 };
  static struct fixture_answer first, again;
  const struct omma_model_options options = {
      .weights = OMMA_WEIGHTS_F32, .n_threads = 1, .max_model_len = 1024, .n_engines = N_ENGINES};
  struct omma_model *model = fixture_model("qwen3_vl_tied", &options);
  struct kept kept[N_ENGINES] = {{0}};
  struct omma_kv_events events[N_ENGINES];
  struct omma_error error;
  for (int i = 0; i < N_ENGINES; i++) events[i] = events_of(&kept[i]);
  struct omma_engine *engine = fixture_engine(model, &(struct omma_engine_options){.kv_events = events});
  struct omma_request *request = make_request(model, N_TOKENS);
  fixture_ask(engine, request, &first);
  assert_ok(omma_engine_sleep(engine, &error), &error);
  expect_asleep(engine, request);
  for (int i = 0; i < N_ENGINES; i++) assert_int_equal(kept[i].n_cleared, 1);
  omma_engine_wake(engine);
  assert_int_equal(fixture_ask(engine, request, &again).n_cached_tokens, 0);
  fixture_expect_equal(&first, &again);
  assert_true(fixture_ask(engine, request, &again).n_cached_tokens > 0); /* it goes to who has it */
  assert_ok(omma_engine_sleep(engine, &error), &error);
  omma_request_destroy(request);
  omma_engine_destroy(engine);
  omma_model_close(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(answers_are_those_before),
      cmocka_unit_test(what_runs_ends_before),
      cmocka_unit_test(it_is_woken_before_it_sleeps),
      cmocka_unit_test(what_is_prepared_meanwhile_is_not_kept),
      cmocka_unit_test(several_sleep_together),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
