/* The engine's queue: its limit, many submitting threads, cancelling at every stage, going down
 * with work in it. A gate holds the engine's thread inside a callback, so that nothing here
 * depends on timing. */
#include <stdatomic.h>
#include <stdlib.h>

#include "support/model_fixture.h"
#include "support/test.h"

static struct omma_model *model;
static struct omma_image *meadow;
/* 8 tokens of answer; the second one with an image */
static struct omma_request *plain, *with_image;

static int set_up(void **state) {
  (void)state;
  const struct omma_sampling sampling = {.max_tokens = 8, .ignore_eos = true, .logprobs = true};
  model = fixture_model("qwen3_vl_tied", NULL);
  meadow = fixture_image("meadow_163x97.jpg");
  const struct omma_image *const images[] = {meadow};
  plain = fixture_request(model, NULL, 0, "hello", &sampling);
  with_image = fixture_request(model, images, 1, "hello", &sampling);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  omma_request_destroy(plain);
  omma_request_destroy(with_image);
  omma_image_destroy(meadow);
  omma_model_close(model);
  return 0;
}

/* One submitted request as its client sees it. */
struct client {
  struct omma_engine *engine;
  struct fixture_gate *gate;  /* passed at the moment below; may be NULL */
  int hold_stage, hold_token; /* at the first progress of a stage, or before a token; -1: never */
  int refuse_token;           /* on_token returns false there; -1: never */
  uint64_t id;
  int64_t n_tokens;
  int64_t first_place, last_place; /* in the queue, as reported; 0: not */
  int64_t first_prefilled;         /* tokens of the prompt at the first report; -1: none */
  atomic_int n_finished;
  bool token_after_finish;
  struct omma_result result;
  struct fixture_gate finished;
};

static void client_init(struct client *client, struct omma_engine *engine) {
  memset(client, 0, sizeof *client);
  client->engine = engine;
  client->hold_stage = client->hold_token = client->refuse_token = -1;
  client->first_prefilled = -1;
  fixture_gate_init(&client->finished, true);
}

static void client_progress(void *context, enum omma_stage stage, int64_t done, int64_t total) {
  struct client *client = context;
  assert_true(done >= 0 && done <= total);
  if (stage == OMMA_STAGE_QUEUED) {
    assert_true(done == 0 && total > 0);
    if (!client->first_place) client->first_place = total;
    client->last_place = total;
  }
  if (stage == OMMA_STAGE_PREFILL && client->first_prefilled < 0) client->first_prefilled = done;
  if ((int)stage != client->hold_stage) return;
  client->hold_stage = -1;
  fixture_gate_pass(client->gate);
}

static bool client_token(void *context, const struct omma_token_event *event) {
  struct client *client = context;
  if (client->n_finished) client->token_after_finish = true;
  client->n_tokens++;
  if (event->index == client->hold_token) fixture_gate_pass(client->gate);
  return event->index != client->refuse_token;
}

static void client_finish(void *context, const struct omma_result *result) {
  struct client *client = context;
  client->result = *result;
  client->n_finished++;
  fixture_gate_pass(&client->finished);
}

static enum omma_status try_submit(struct client *client, const struct omma_request *request, struct omma_error *error) {
  const struct omma_callbacks callbacks = {
      .context = client, .on_progress = client_progress, .on_token = client_token, .on_finish = client_finish};
  return omma_engine_submit(client->engine, request, &callbacks, &client->id, error);
}

static void submit(struct client *client, const struct omma_request *request) {
  struct omma_error error;
  assert_ok(try_submit(client, request, &error), &error);
}

/* Waits for the end; it must have come exactly once. */
static void expect_end(struct client *client, enum omma_finish finish, int64_t n_tokens) {
  fixture_gate_await(&client->finished, 1);
  assert_int_equal(client->n_finished, 1);
  assert_int_equal(client->result.finish, finish);
  assert_int_equal(client->result.n_completion_tokens, client->n_tokens);
  if (n_tokens >= 0) assert_int_equal(client->n_tokens, n_tokens);
  assert_false(client->token_after_finish);
  fixture_gate_destroy(&client->finished);
}

/* A request that holds the engine with one of its tokens, until the gate opens: the counters are
 * reported between two steps. */
static void hold_engine(struct client *client, struct omma_engine *engine, struct fixture_gate *gate, int64_t token) {
  fixture_gate_init(gate, false);
  client_init(client, engine);
  client->gate = gate;
  client->hold_token = token;
  submit(client, plain);
  fixture_gate_await(gate, 1);
}

static void expect_alive(struct omma_engine *engine) {
  struct client client;
  struct omma_engine_stats stats;
  client_init(&client, engine);
  submit(&client, with_image);
  expect_end(&client, OMMA_FINISH_LENGTH, 8);
  omma_engine_get_stats(engine, &stats);
  assert_true(stats.alive);
  assert_int_equal(stats.kv_pages_used, 0);
}

static void a_full_queue_is_busy(void **state) {
  (void)state;
  enum { LIMIT = 3 };
  struct omma_engine *engine = fixture_engine(model, &(struct omma_engine_options){.queue_limit = LIMIT, .max_sequences = 1});
  struct fixture_gate gate;
  struct client running, waiting[LIMIT], refused;
  struct omma_error error;
  struct omma_engine_stats stats;
  hold_engine(&running, engine, &gate, 1);
  for (int i = 0; i < LIMIT; i++) {
    client_init(&waiting[i], engine);
    submit(&waiting[i], i % 2 ? with_image : plain);
    assert_true(waiting[i].id > running.id);
  }
  client_init(&refused, engine);
  for (int i = 0; i < 3; i++) {
    assert_fails(try_submit(&refused, plain, &error), OMMA_ERROR_BUSY, "3 requests are waiting, the limit", &error);
  }
  struct omma_embeddings *embeddings = NULL;
  const struct omma_image *const images[] = {meadow};
  assert_fails(omma_encode(engine, images, 1, NULL, true, NULL, NULL, &embeddings, &error), OMMA_ERROR_BUSY, "limit", &error);
  omma_engine_get_stats(engine, &stats);
  assert_int_equal(stats.n_waiting, LIMIT);
  assert_int_equal(stats.n_running, 1);
  assert_true(stats.kv_pages_used > 0);
  fixture_gate_open(&gate);
  expect_end(&running, OMMA_FINISH_LENGTH, 8);
  for (int i = 0; i < LIMIT; i++) expect_end(&waiting[i], OMMA_FINISH_LENGTH, 8);
  assert_int_equal(refused.n_finished, 0);
  fixture_gate_destroy(&refused.finished);
  expect_alive(engine);
  omma_engine_destroy(engine);
  fixture_gate_destroy(&gate);
}

/* Bytes bound the queue too, but a request that has it to itself always fits. */
static void waiting_requests_have_a_budget_of_bytes(void **state) {
  (void)state;
  struct omma_engine *engine = fixture_engine(model, &(struct omma_engine_options){.queue_bytes = 1, .max_sequences = 1});
  struct fixture_gate gate;
  struct client running, waiting, refused;
  struct omma_error error;
  struct omma_engine_stats stats;
  hold_engine(&running, engine, &gate, 1);
  client_init(&waiting, engine);
  submit(&waiting, with_image);
  client_init(&refused, engine);
  assert_fails(try_submit(&refused, plain, &error), OMMA_ERROR_BUSY, "1 requests of", &error);
  assert_string_equal(error.field, "queue_bytes");
  omma_engine_get_stats(engine, &stats);
  size_t n_tokens;
  omma_request_prompt(with_image, &n_tokens);
  assert_true(stats.n_waiting == 1 && stats.waiting_bytes > 28 * (int64_t)n_tokens && stats.waiting_bytes < 1 << 20);
  fixture_gate_open(&gate);
  expect_end(&running, OMMA_FINISH_LENGTH, 8);
  expect_end(&waiting, OMMA_FINISH_LENGTH, 8);
  fixture_gate_destroy(&refused.finished);
  omma_engine_get_stats(engine, &stats);
  assert_int_equal(stats.waiting_bytes, 0);
  omma_engine_destroy(engine);
  fixture_gate_destroy(&gate);
}

/* Those that wait hear their place, and everybody when the prompt begins. */
static void progress_begins_in_the_queue(void **state) {
  (void)state;
  enum { N = 3 };
  struct omma_engine *engine =
      fixture_engine(model, &(struct omma_engine_options){.max_sequences = 1, .no_prefix_cache = true});
  struct fixture_gate gate;
  struct client running, waiting[N];
  hold_engine(&running, engine, &gate, 1);
  for (int i = 0; i < N; i++) {
    client_init(&waiting[i], engine);
    submit(&waiting[i], plain);
  }
  fixture_gate_open(&gate);
  expect_end(&running, OMMA_FINISH_LENGTH, 8);
  assert_int_equal(running.first_place, 0);
  for (int i = 0; i < N; i++) {
    expect_end(&waiting[i], OMMA_FINISH_LENGTH, 8);
    assert_int_equal(waiting[i].first_place, i + 1);
    assert_true(waiting[i].last_place <= i + 1);
    assert_int_equal(waiting[i].first_prefilled, 0);
  }
  assert_int_equal(running.first_prefilled, 0);
  omma_engine_destroy(engine);
  fixture_gate_destroy(&gate);
}

/* ---- many threads ---- */

struct submitter {
  struct omma_engine *engine;
  struct fixture_answer *expected;
  int index, n_wrong, n_busy;
};

static void *submit_many(void *argument) {
  struct submitter *self = argument;
  struct fixture_answer *answer = calloc(1, sizeof *answer);
  for (int i = 0; i < 6; i++) {
    const struct omma_callbacks callbacks = {.context = answer, .on_token = fixture_collect};
    struct omma_result result;
    struct omma_error error;
    int which = (i + self->index) % 2;
    enum omma_status status;
    do {
      memset(answer, 0, sizeof *answer);
      status = omma_generate(self->engine, which ? with_image : plain, &callbacks, &result, &error);
      self->n_busy += status == OMMA_ERROR_BUSY;
    } while (status == OMMA_ERROR_BUSY);
    if (status != OMMA_OK || memcmp(answer, &self->expected[which], sizeof *answer) != 0) self->n_wrong++;
  }
  free(answer);
  return NULL;
}

static void many_threads_get_their_own_answers(void **state) {
  (void)state;
  enum { N = 6 };
  static struct fixture_answer expected[2];
  struct omma_engine *engine = fixture_engine(model, &(struct omma_engine_options){.queue_limit = 4});
  struct submitter submitters[N];
  pthread_t threads[N];
  struct omma_engine_stats stats;
  fixture_ask(engine, plain, &expected[0]);
  fixture_ask(engine, with_image, &expected[1]);
  for (int i = 0; i < N; i++) {
    submitters[i] = (struct submitter){.engine = engine, .expected = expected, .index = i};
    assert_int_equal(pthread_create(&threads[i], NULL, submit_many, &submitters[i]), 0);
  }
  for (int i = 0; i < N; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(submitters[i].n_wrong, 0);
  }
  omma_engine_get_stats(engine, &stats);
  assert_int_equal(stats.n_finished[OMMA_FINISH_LENGTH], 2 + 6 * N);
  assert_int_equal(stats.images, 1); /* all ask about one image */
  assert_int_equal(stats.encoder_cache_hits, 3 * N);
  omma_engine_destroy(engine);
}

/* ---- cancelling ---- */

static void a_waiting_request_is_cancelled(void **state) {
  (void)state;
  struct omma_engine *engine = fixture_engine(model, NULL);
  struct fixture_gate gate;
  struct client running, waiting[3];
  hold_engine(&running, engine, &gate, 0);
  for (int i = 0; i < 3; i++) {
    client_init(&waiting[i], engine);
    submit(&waiting[i], plain);
  }
  omma_engine_cancel(engine, waiting[1].id);
  omma_engine_cancel(engine, waiting[1].id);
  omma_engine_cancel(engine, 0);
  omma_engine_cancel(engine, UINT64_MAX);
  fixture_gate_open(&gate);
  expect_end(&waiting[1], OMMA_FINISH_CANCELLED, 0);
  expect_end(&running, OMMA_FINISH_LENGTH, 8);
  expect_end(&waiting[0], OMMA_FINISH_LENGTH, 8);
  expect_end(&waiting[2], OMMA_FINISH_LENGTH, 8);
  assert_true(waiting[1].result.stop_token == -1 && waiting[1].result.n_prompt_tokens > 0);
  omma_engine_cancel(engine, running.id); /* finished: ignored */
  expect_alive(engine);
  omma_engine_destroy(engine);
  fixture_gate_destroy(&gate);
}

static void a_running_request_is_cancelled_at_every_stage(void **state) {
  (void)state;
  struct omma_engine *engine = fixture_engine(
      model, &(struct omma_engine_options){.prefill_chunk = 1, .encoder_cache_bytes = -1, .no_prefix_cache = true});
  /* A prompt of several chunks, so that there is a progress report inside the prefill. */
  struct omma_image *image = fixture_image("harbour_301x211.jpg");
  const struct omma_image *const images[] = {image, image, image};
  struct omma_request *request = fixture_request(model, images, 3, "hello", &(struct omma_sampling){.max_tokens = 8});
  size_t n_prompt;
  omma_request_prompt(request, &n_prompt);
  assert_true(n_prompt > 64);
  const struct {
    int stage, token;
    int64_t n_tokens;
  } holds[] = {{OMMA_STAGE_ENCODE, -1, 0}, {OMMA_STAGE_PREFILL, -1, 0}, {-1, 0, 1}, {-1, 3, 4}};
  for (size_t i = 0; i < sizeof holds / sizeof *holds; i++) {
    struct fixture_gate gate;
    struct client client;
    fixture_gate_init(&gate, false);
    client_init(&client, engine);
    client.gate = &gate;
    client.hold_stage = holds[i].stage;
    client.hold_token = holds[i].token;
    submit(&client, request);
    fixture_gate_await(&gate, 1);
    omma_engine_cancel(engine, client.id);
    fixture_gate_open(&gate);
    expect_end(&client, OMMA_FINISH_CANCELLED, holds[i].n_tokens);
    assert_int_equal(client.result.n_prompt_tokens, n_prompt);
    const struct omma_timings *timings = &client.result.timings; /* of what was done */
    assert_true(timings->encode > 0);
    if (holds[i].stage != OMMA_STAGE_ENCODE) assert_true(timings->prefill > 0);
    assert_true((timings->decode > 0) == (holds[i].token >= 0));
    expect_alive(engine);
    fixture_gate_destroy(&gate);
  }
  omma_request_destroy(request);
  omma_image_destroy(image);
  omma_engine_destroy(engine);
}

static void on_token_cancels_by_returning_false(void **state) {
  (void)state;
  struct omma_engine *engine = fixture_engine(model, NULL);
  const int refusals[] = {0, 4, 7};
  for (int i = 0; i < 3; i++) {
    struct client client;
    client_init(&client, engine);
    client.refuse_token = refusals[i];
    submit(&client, plain);
    /* The last token ends the answer whatever the client's callback returns. */
    expect_end(&client, refusals[i] == 7 ? OMMA_FINISH_LENGTH : OMMA_FINISH_CANCELLED, refusals[i] + 1);
  }
  expect_alive(engine);
  omma_engine_destroy(engine);
}

static bool cancel_itself(void *context, const struct omma_token_event *event) {
  struct client *client = context;
  client->n_tokens++;
  if (event->index == 2) omma_engine_cancel(client->engine, client->id);
  return true;
}

static void a_callback_may_cancel(void **state) {
  (void)state;
  struct omma_engine *engine = fixture_engine(model, NULL);
  struct fixture_gate gate;
  struct client first, client;
  struct omma_error error;
  /* The first request holds the engine until the second one's id is stored. */
  hold_engine(&first, engine, &gate, 0);
  client_init(&client, engine);
  const struct omma_callbacks callbacks = {.context = &client, .on_token = cancel_itself, .on_finish = client_finish};
  assert_ok(omma_engine_submit(engine, plain, &callbacks, &client.id, &error), &error);
  fixture_gate_open(&gate);
  expect_end(&first, OMMA_FINISH_LENGTH, 8);
  expect_end(&client, OMMA_FINISH_CANCELLED, 3);
  expect_alive(engine);
  omma_engine_destroy(engine);
  fixture_gate_destroy(&gate);
}

/* ---- going down ---- */

struct opener {
  struct fixture_gate *gate;
  struct omma_engine *engine;
};

/* Opens the gate once the engine is seen going down, so that destroy always meets a running
 * request. */
static void *open_when_dying(void *argument) {
  struct opener *opener = argument;
  struct omma_engine_stats stats;
  do {
    omma_engine_get_stats(opener->engine, &stats);
  } while (stats.alive);
  fixture_gate_open(opener->gate);
  return NULL;
}

static void destroy_ends_everything_once(void **state) {
  (void)state;
  const int stages[] = {OMMA_STAGE_ENCODE, OMMA_STAGE_PREFILL, -1};
  for (int s = 0; s < 3; s++) {
    struct omma_engine *engine = fixture_engine(model, &(struct omma_engine_options){.max_sequences = 1});
    struct fixture_gate gate;
    struct client running, waiting[5];
    pthread_t thread;
    fixture_gate_init(&gate, false);
    client_init(&running, engine);
    running.gate = &gate;
    running.hold_stage = stages[s];
    if (stages[s] < 0) running.hold_token = 2;
    submit(&running, with_image);
    fixture_gate_await(&gate, 1); /* before anybody overtakes it */
    for (int i = 0; i < 5; i++) {
      client_init(&waiting[i], engine);
      submit(&waiting[i], i % 2 ? with_image : plain);
    }
    struct opener opener = {&gate, engine};
    assert_int_equal(pthread_create(&thread, NULL, open_when_dying, &opener), 0);
    omma_engine_cancel(engine, waiting[2].id);
    omma_engine_destroy(engine);
    pthread_join(thread, NULL);
    expect_end(&running, OMMA_FINISH_CANCELLED, stages[s] < 0 ? 3 : 0);
    /* who needs no image may overtake the one that waits for its own */
    int64_t n_tokens = stages[s] == OMMA_STAGE_ENCODE ? -1 : 0;
    for (int i = 0; i < 5; i++) expect_end(&waiting[i], OMMA_FINISH_CANCELLED, n_tokens);
    fixture_gate_destroy(&gate);
  }
  omma_engine_destroy(NULL);
}

static void an_idle_engine_goes_down_at_once(void **state) {
  (void)state;
  for (int i = 0; i < 20; i++) omma_engine_destroy(fixture_engine(model, NULL));
}

/* ---- encode ---- */

static void wrong_images_are_named(void **state) {
  (void)state;
  struct omma_engine *engine = fixture_engine(model, NULL);
  struct omma_embeddings *embeddings = NULL;
  struct omma_error error;
  struct omma_image *thin;
  uint8_t rgb[3 * 300] = {0};
  const struct omma_image_options wrong = {.min_pixels = 5, .max_pixels = 4};
  assert_ok(omma_image_from_rgb(300, 1, rgb, &thin, &error), &error);
  const struct omma_image *const images[] = {meadow, thin};
  assert_fails(omma_encode(engine, NULL, 0, NULL, true, NULL, NULL, &embeddings, &error), OMMA_ERROR_ARGUMENT, "at least one",
               &error);
  assert_fails(omma_encode(engine, images, 2, NULL, true, NULL, NULL, &embeddings, &error), OMMA_ERROR_LIMIT,
               "image 1: ", &error);
  assert_fails(omma_encode(engine, images, 1, &wrong, true, NULL, NULL, &embeddings, &error), OMMA_ERROR_ARGUMENT,
               "image 0: min_pixels", &error);
  assert_null(embeddings);
  omma_embeddings_destroy(NULL);
  omma_image_destroy(thin);
  expect_alive(engine);
  omma_engine_destroy(engine);
}

static void count_progress(void *context, int64_t done, int64_t total) {
  int64_t *last = context;
  assert_true(done >= last[0] && done <= total);
  last[0] = done;
  last[1] = total;
}

static void encode_reports_its_progress(void **state) {
  (void)state;
  struct omma_engine *engine = fixture_engine(model, &(struct omma_engine_options){.patch_budget = 64});
  struct omma_embeddings *embeddings;
  struct omma_error error;
  const struct omma_image *const images[] = {meadow, meadow, meadow};
  int64_t last[2] = {0};
  assert_ok(omma_encode(engine, images, 3, NULL, true, count_progress, last, &embeddings, &error), &error);
  assert_true(last[1] > 0 && last[0] == last[1]);
  omma_embeddings_destroy(embeddings);
  omma_engine_destroy(engine);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_full_queue_is_busy),
      cmocka_unit_test(waiting_requests_have_a_budget_of_bytes),
      cmocka_unit_test(progress_begins_in_the_queue),
      cmocka_unit_test(many_threads_get_their_own_answers),
      cmocka_unit_test(a_waiting_request_is_cancelled),
      cmocka_unit_test(a_running_request_is_cancelled_at_every_stage),
      cmocka_unit_test(on_token_cancels_by_returning_false),
      cmocka_unit_test(a_callback_may_cancel),
      cmocka_unit_test(destroy_ends_everything_once),
      cmocka_unit_test(an_idle_engine_goes_down_at_once),
      cmocka_unit_test(wrong_images_are_named),
      cmocka_unit_test(encode_reports_its_progress),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
