/* Several engines over one model: the same answers as one engine gives, whichever answers; requests
 * go to who knows their images or prefix; one that is stuck is taken out, and its requests go on at
 * the others as if nothing had been. A gate holds an engine inside a step, so that nothing depends
 * on timing. */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/cpu_room.h"
#include "engine/engine_api.h"
#include "engine/engine_set.h"
#include "model/model_open.h"
#include "runner/cpu_runner.h"
#include "support/model_fixture.h"
#include "support/test.h"

enum { N_ENGINES = 2, N_REQUESTS = 12, N_TOKENS = 24, HOUR_MS = 3600000 };

static struct omma_image *images[2];

static struct omma_model *open_model(int n_engines) {
  const struct omma_model_options options = {
      .weights = OMMA_WEIGHTS_F32, .n_threads = 1, .max_model_len = 1024, .n_engines = n_engines};
  return fixture_model("qwen3_vl_tied", &options);
}

/* The i-th of the requests: every third without an image, some greedy, some drawn. */
static struct omma_request *make_request(const struct omma_model *model, int i) {
  char text[300];
  const struct omma_sampling sampling = {
      .max_tokens = N_TOKENS, .ignore_eos = true, .logprobs = true, .temperature = i % 2 ? 0.8 : 0, .seed = (uint64_t)i};
  snprintf(text, sizeof text,
           "%d: a text which is long enough for a page of keys and values to be filled by it, however many "
           "letters a token has, and for some more tokens that come after that page",
           i);
  const struct omma_image *const of[] = {images[i % 2]};
  return fixture_request(model, of, i % 3 ? 1 : 0, text, &sampling);
}

/* A request as its client sees it. */
struct client {
  struct fixture_answer answer;
  struct omma_result result;
  struct fixture_gate finished;
  atomic_int n_finished;
};

static void on_finish(void *context, const struct omma_result *result) {
  struct client *client = context;
  client->result = *result;
  atomic_fetch_add(&client->n_finished, 1);
  fixture_gate_open(&client->finished);
}

static bool on_token(void *context, const struct omma_token_event *event) {
  struct client *client = context;
  assert_int_equal(event->index, (int64_t)client->answer.n);
  return fixture_collect(&client->answer, event);
}

static uint64_t submit(struct omma_engine *engine, const struct omma_request *request, struct client *client) {
  const struct omma_callbacks callbacks = {.context = client, .on_token = on_token, .on_finish = on_finish};
  struct omma_error error;
  uint64_t id;
  memset(client, 0, sizeof *client);
  fixture_gate_init(&client->finished, false);
  assert_ok(omma_engine_submit(engine, request, &callbacks, &id, &error), &error);
  return id;
}

static void await(struct client *client) {
  fixture_gate_pass(&client->finished);
  assert_int_equal(atomic_load(&client->n_finished), 1);
}

static struct client clients[N_REQUESTS];
static struct fixture_answer alone[N_REQUESTS];

static void ask_one_engine(void) {
  struct omma_model *model = open_model(1);
  struct omma_engine *engine = fixture_engine(model, NULL);
  assert_int_equal(omma_engine_count(engine), 1);
  for (int i = 0; i < N_REQUESTS; i++) {
    struct omma_request *request = make_request(model, i);
    assert_int_equal(fixture_ask(engine, request, &alone[i]).engine, 0);
    omma_request_destroy(request);
  }
  omma_engine_destroy(engine);
  omma_model_close(model);
}

static int set_up(void **state) {
  (void)state;
  images[0] = fixture_image("meadow_163x97.jpg");
  images[1] = fixture_image("tower_33x200.png");
  ask_one_engine();
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  omma_image_destroy(images[0]);
  omma_image_destroy(images[1]);
  return 0;
}

static void all_engines_give_the_same_bits(void **state) {
  (void)state;
  struct omma_model *model = open_model(N_ENGINES);
  struct omma_engine *engine = fixture_engine(model, NULL);
  struct omma_request *requests[N_REQUESTS];
  struct omma_engine_stats stats, sum;
  assert_int_equal(omma_engine_count(engine), N_ENGINES);
  for (int i = 0; i < N_REQUESTS; i++) {
    requests[i] = make_request(model, i);
    submit(engine, requests[i], &clients[i]);
  }
  for (int i = 0; i < N_REQUESTS; i++) {
    await(&clients[i]);
    fixture_expect_equal(&clients[i].answer, &alone[i]);
    omma_request_destroy(requests[i]);
  }
  omma_engine_get_stats(engine, &sum);
  int64_t n_finished = 0;
  for (int i = 0; i < N_ENGINES; i++) {
    omma_engine_get_stats_of(engine, i, &stats);
    assert_true(stats.alive && stats.n_finished[OMMA_FINISH_LENGTH] > 0);
    n_finished += stats.n_finished[OMMA_FINISH_LENGTH];
  }
  assert_true(sum.alive && n_finished == N_REQUESTS && sum.n_finished[OMMA_FINISH_LENGTH] == N_REQUESTS);
  omma_engine_destroy(engine);
  omma_model_close(model);
}

static void a_request_goes_to_who_knows_it(void **state) {
  (void)state;
  struct omma_model *model = open_model(N_ENGINES);
  struct omma_engine *engine = fixture_engine(model, NULL);
  int first[N_REQUESTS];
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < N_REQUESTS; i++) {
      struct omma_request *request = make_request(model, i);
      struct omma_result result = fixture_ask(engine, request, &clients[0].answer);
      if (round == 0) first[i] = result.engine;
      if (round == 1) assert_true(result.engine == first[i] && result.n_cached_tokens > 0);
      omma_request_destroy(request);
    }
  }
  struct omma_engine_stats stats;
  omma_engine_get_stats(engine, &stats);
  assert_int_equal(stats.images, 2); /* each was encoded once, by one of the engines */
  omma_engine_destroy(engine);
  omma_model_close(model);
}

static void memory_is_that_of_all(void **state) {
  (void)state;
  struct omma_model *one = open_model(1), *two = open_model(N_ENGINES);
  const struct omma_engine_options options = {.kv_cache_bytes = 1 << 20, .max_sequences = 4};
  struct omma_memory_estimate of_one, of_two;
  struct omma_model_info info;
  struct omma_error error;
  assert_ok(omma_estimate_memory(one, &options, 0, &of_one, &error), &error);
  assert_ok(omma_estimate_memory(two, &options, 0, &of_two, &error), &error);
  omma_model_get_info(two, &info);
  assert_true(info.n_engines == 2 && info.n_copies >= 1 && info.n_threads == 1);
  assert_int_equal(of_two.weight_bytes, info.n_copies * of_one.weight_bytes);
  assert_int_equal(of_two.kv_cache_bytes, 2 * of_one.kv_cache_bytes);
  assert_int_equal(of_two.max_sequences, 2 * of_one.max_sequences);
  assert_int_equal(of_two.linear_scratch_bytes, 2 * of_one.linear_scratch_bytes);
  assert_int_equal(of_two.language_workspace_bytes, 2 * of_one.language_workspace_bytes);
  omma_model_close(one);
  omma_model_close(two);
}

/* Two nodes of a CPU each, where there are two CPUs. */
static void a_node_has_its_own_weights(void **state) {
  (void)state;
  char root[TEST_PATH_SIZE], list[16];
  struct ommai_cpu_room room;
  int n = 0;
  ommai_cpu_room_here(&room);
  if (room.cpus < 2) {
    print_message("there is one CPU: no two nodes\n");
    skip();
  }
  test_folder_create(root);
  test_write_at(root, "sys/devices/system/node/online", "0-1\n");
  for (int cpu = 0; cpu < CPU_SETSIZE && n < 2; cpu++) {
    if (!CPU_ISSET(cpu, &room.all)) continue;
    snprintf(list, sizeof list, "%d\n", cpu);
    test_write_at(root, n++ ? "sys/devices/system/node/node1/cpulist" : "sys/devices/system/node/node0/cpulist", list);
  }
  const struct omma_model_options options = {
      .weights = OMMA_WEIGHTS_F32, .n_threads = 1, .max_model_len = 1024, .n_engines = OMMA_ENGINES_AUTO};
  const char *path = OMMA_TEST_DATA "/golden/qwen3_vl_tied";
  struct omma_model *model;
  struct omma_error error;
  assert_ok(ommai_model_open_on(root, path, &options, &model, &error), &error);
  struct omma_engine *engine = fixture_engine(model, NULL);
  struct omma_model_info info;
  omma_model_get_info(model, &info);
  assert_true(info.n_engines == 2 && info.n_copies == 2 && omma_engine_count(engine) == 2);
  assert_true(ommai_model_network(model, 0) != ommai_model_network(model, 1));
  int n_by[2] = {0};
  for (int i = 0; i < N_REQUESTS; i++) {
    struct omma_request *request = make_request(model, i);
    n_by[fixture_ask(engine, request, &clients[0].answer).engine]++;
    fixture_expect_equal(&clients[0].answer, &alone[i]);
    omma_request_destroy(request);
  }
  assert_true(n_by[0] > 0 && n_by[1] > 0);
  omma_engine_destroy(engine);
  omma_model_close(model);
}

static void wrong_numbers_are_refused(void **state) {
  (void)state;
  static const int numbers[] = {-2, OMMA_MAX_ENGINES + 1};
  char path[TEST_PATH_SIZE];
  snprintf(path, sizeof path, "%s", OMMA_TEST_DATA "/golden/qwen3_vl_tied");
  for (size_t i = 0; i < 2; i++) {
    const struct omma_model_options options = {.n_engines = numbers[i]};
    struct omma_model *model;
    struct omma_error error;
    assert_int_equal(omma_model_open(path, &options, &model, &error), OMMA_ERROR_ARGUMENT);
    assert_string_equal(error.field, "n_engines");
  }
}

static void images_are_encoded_by_any(void **state) {
  (void)state;
  struct omma_model *one = open_model(1), *two = open_model(N_ENGINES);
  struct omma_engine *engines[] = {fixture_engine(one, NULL), fixture_engine(two, NULL)};
  struct omma_embeddings *embeddings[2];
  struct omma_image_embeddings found[2];
  struct omma_error error;
  for (int i = 0; i < 2; i++) {
    assert_ok(
        omma_encode(engines[i], (const struct omma_image *const *)images, 2, NULL, true, NULL, NULL, &embeddings[i], &error),
        &error);
    omma_embeddings_get(embeddings[i], 1, &found[i]);
  }
  assert_int_equal(found[0].n_tokens, found[1].n_tokens);
  assert_memory_equal(found[0].merged, found[1].merged, (size_t)(found[0].n_tokens * found[0].width) * sizeof(float));
  for (int i = 0; i < 2; i++) {
    omma_embeddings_destroy(embeddings[i]);
    omma_engine_destroy(engines[i]);
  }
  omma_model_close(one);
  omma_model_close(two);
}

/* ---- an engine that is stuck ---- */

/* The first runner is held before its held_step-th step of decode. */
static struct {
  struct ommai_runner_source inner;
  struct ommai_runner_functions functions;
  const struct ommai_runner_functions *real;
  struct ommai_runner *held;
  atomic_int n_steps;
  int held_step;
  struct fixture_gate gate;
} hold;

static enum omma_status held_decode(struct ommai_runner *runner, const struct ommai_step_row *rows, int64_t n, bool drawn,
                                    struct omma_error *error) {
  if (runner == hold.held && atomic_fetch_add(&hold.n_steps, 1) == hold.held_step) fixture_gate_pass(&hold.gate);
  return hold.real->decode(runner, rows, n, drawn, error);
}

static enum omma_status create_held(const void *network, const struct ommai_runner_limits *limits, struct ommai_runner **runner,
                                    struct omma_error *error) {
  enum omma_status status = hold.inner.create(network, limits, runner, error);
  if (status != OMMA_OK) return status;
  hold.real = (*runner)->functions;
  hold.functions = *hold.real;
  hold.functions.decode = held_decode;
  (*runner)->functions = &hold.functions;
  if (limits->engine == 0) hold.held = *runner;
  return OMMA_OK;
}

static atomic_int n_out, n_in;

static void on_state(void *context, int engine, bool answers) {
  (void)context;
  assert_int_equal(engine, 0);
  atomic_fetch_add(answers ? &n_in : &n_out, 1);
}

/* Waits until the engine is held, and lets it seem that this was two hours ago. */
static void let_it_be_stuck(struct omma_engine *engine) {
  fixture_gate_await(&hold.gate, 1);
  atomic_store(&engine->turn_began, ommai_clock_ns() - 2 * HOUR_MS * INT64_C(1000000));
}

static struct omma_engine *held_engine(struct omma_model *model, int held_step) {
  const struct omma_engine_options options = {.stuck_ms = HOUR_MS, .on_engine_state = on_state};
  struct omma_engine *engine;
  struct omma_error error;
  hold.inner = ommai_cpu_runner_source(model);
  struct ommai_runner_source source = hold.inner;
  source.create = create_held;
  hold.held_step = held_step;
  atomic_store(&hold.n_steps, 0);
  atomic_store(&n_out, 0);
  atomic_store(&n_in, 0);
  fixture_gate_init(&hold.gate, false);
  assert_ok(ommai_engine_create(model, &source, &options, &engine, &error), &error);
  assert_ok(ommai_engine_start(engine, &error), &error);
  return engine;
}

static void a_stuck_engine_is_not_waited_for(void **state) {
  (void)state;
  struct omma_model *model = open_model(N_ENGINES);
  struct omma_engine *engine = held_engine(model, 5);
  struct omma_request *requests[N_REQUESTS];
  struct omma_engine_stats stats;
  int n_elsewhere = 0;
  for (int i = 0; i < N_REQUESTS; i++) {
    requests[i] = make_request(model, i);
    submit(engine, requests[i], &clients[i]);
  }
  let_it_be_stuck(engine);
  for (int i = 0; i < N_REQUESTS; i++) {
    await(&clients[i]);
    assert_int_equal(clients[i].result.finish, OMMA_FINISH_LENGTH);
    fixture_expect_equal(&clients[i].answer, &alone[i]);
    assert_int_equal(clients[i].answer.n_last, 1);
    omma_request_destroy(requests[i]); /* the engine that is stuck has some yet */
    n_elsewhere += clients[i].result.engine == 1;
  }
  assert_true(n_elsewhere > N_REQUESTS / 2); /* some may have ended before */
  omma_engine_get_stats_of(engine, 0, &stats);
  assert_false(stats.alive);
  omma_engine_get_stats(engine, &stats);
  assert_true(stats.alive && atomic_load(&n_out) == 1 && atomic_load(&n_in) == 0);
  fixture_gate_open(&hold.gate);
  while (atomic_load(&n_in) == 0) sched_yield(); /* it comes back */
  omma_engine_get_stats_of(engine, 0, &stats);
  assert_true(stats.alive);
  for (int i = 0; i < N_REQUESTS; i++) assert_int_equal(atomic_load(&clients[i].n_finished), 1);
  omma_engine_destroy(engine);
  omma_model_close(model);
}

static void a_cancelled_request_of_a_stuck_engine_ends(void **state) {
  (void)state;
  struct omma_model *model = open_model(N_ENGINES);
  struct omma_engine *engine = held_engine(model, 2);
  struct omma_request *request = make_request(model, 0);
  uint64_t id = submit(engine, request, &clients[0]); /* the first one goes to the first engine */
  fixture_gate_await(&hold.gate, 1);
  omma_engine_cancel(engine, id);
  let_it_be_stuck(engine);
  await(&clients[0]);
  assert_int_equal(clients[0].result.finish, OMMA_FINISH_CANCELLED);
  omma_request_destroy(request);
  fixture_gate_open(&hold.gate);
  while (atomic_load(&n_in) == 0) sched_yield(); /* while it is out, its end leaves it behind */
  omma_engine_destroy(engine);
  omma_model_close(model);
}

/* The others sleep without it; it does as soon as it goes on. */
static void a_stuck_engine_sleeps_later(void **state) {
  (void)state;
  struct omma_model *model = open_model(N_ENGINES);
  struct omma_engine *engine = held_engine(model, 2);
  struct omma_request *request = make_request(model, 0);
  struct omma_engine_stats stats;
  struct omma_error error;
  submit(engine, request, &clients[0]);
  let_it_be_stuck(engine);
  await(&clients[0]); /* at the other */
  assert_ok(omma_engine_sleep(engine, &error), &error);
  omma_engine_get_stats_of(engine, 0, &stats);
  assert_true(!stats.alive && stats.kv_pages_used > 0);
  omma_engine_get_stats_of(engine, 1, &stats);
  assert_true(stats.alive && stats.kv_pages_used == 0 && stats.kv_pages_published == 0);
  fixture_gate_open(&hold.gate);
  do {
    assert_ok(omma_engine_sleep(engine, &error), &error);
    omma_engine_get_stats_of(engine, 0, &stats);
  } while (!stats.alive || stats.kv_pages_used || stats.kv_pages_published);
  omma_engine_wake(engine);
  submit(engine, request, &clients[0]);
  await(&clients[0]);
  fixture_expect_equal(&clients[0].answer, &alone[0]);
  omma_request_destroy(request);
  omma_engine_destroy(engine);
  omma_model_close(model);
}

/* What stays behind is meant to; this keeps it in sight of leak checkers. No compiler may leave it
 * out. */
static struct omma_engine *volatile left_behind;

static void the_end_does_not_wait_for_a_stuck_engine(void **state) {
  (void)state;
  struct omma_model *model = open_model(N_ENGINES);
  struct omma_engine *engine = held_engine(model, 0);
  struct omma_request *request = make_request(model, 1);
  submit(engine, request, &clients[0]);
  let_it_be_stuck(engine);
  await(&clients[0]);
  fixture_expect_equal(&clients[0].answer, &alone[1]);
  omma_request_destroy(request);
  left_behind = engine;
  omma_engine_destroy(engine);
  omma_model_close(model); /* which its engine still has */
  fixture_gate_open(&hold.gate);
  /* it goes on, over a model that is there */
  while (atomic_load(&left_behind->turn_began)) sched_yield();
}

/* What is freed is overwritten, so that whoever reads it yet fails. */
static void *take_memory(void *context, size_t size, size_t alignment) {
  (void)context;
  return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void give_memory_back(void *context, void *pointer, size_t size) {
  (void)context;
#if defined(__SANITIZE_ADDRESS__)
  (void)size; /* it sees who reads what is freed, and parts of an arena may not be written */
#else
  volatile unsigned char *bytes = pointer; /* else the compiler leaves it out */
  for (size_t i = 0; i < size; i++) bytes[i] = 0xdd;
#endif
  free(pointer);
}

/* A client that frees its request in on_finish, as early as it may. */
struct brief_client {
  struct omma_request *request;
  struct fixture_gate finished;
};

static void free_request(void *context, const struct omma_result *result) {
  struct brief_client *client = context;
  assert_int_equal(result->finish, OMMA_FINISH_STOP);
  omma_request_destroy(client->request);
  fixture_gate_open(&client->finished);
}

static void drop_embeddings(void *context, struct omma_embeddings *embeddings) {
  (void)context;
  omma_embeddings_destroy(embeddings);
}

static atomic_bool is_done;

static void *disturb(void *engine) {
  while (!atomic_load(&is_done)) omma_engine_cancel(engine, UINT64_MAX);
  return NULL;
}

/* Another thread keeps the engines' lock busy, all on one CPU: so an engine often ends a request
 * whose image it knows before the call that submits it returns. */
static void a_request_may_go_with_its_end(void **state) {
  (void)state;
  const struct omma_allocator allocator = {.allocate = take_memory, .release = give_memory_back};
  const struct omma_model_options options = {.weights = OMMA_WEIGHTS_F32,
                                             .n_threads = 1,
                                             .max_model_len = 1024,
                                             .n_engines = N_ENGINES,
                                             .encoder_only = true,
                                             .allocator = &allocator};
  cpu_set_t before, one;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &before)) cpu++;
  CPU_SET(cpu, &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  struct omma_model *model = fixture_model("qwen3_vl_tied", &options);
  struct omma_engine *engine = fixture_engine(model, NULL);
  pthread_t other;
  atomic_store(&is_done, false);
  assert_int_equal(pthread_create(&other, NULL, disturb, engine), 0);
  for (int i = 0; i < (test_small() ? 200 : 2000); i++) {
    struct brief_client client = {.request = fixture_request(model, (const struct omma_image *const *)images, 1, "?", NULL)};
    const struct omma_callbacks callbacks = {.context = &client, .on_embeddings = drop_embeddings, .on_finish = free_request};
    struct omma_error error;
    fixture_gate_init(&client.finished, false);
    assert_ok(omma_engine_submit(engine, client.request, &callbacks, NULL, &error), &error);
    fixture_gate_pass(&client.finished);
    fixture_gate_destroy(&client.finished);
  }
  atomic_store(&is_done, true);
  pthread_join(other, NULL);
  omma_engine_destroy(engine);
  omma_model_close(model);
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_engines_give_the_same_bits),
      cmocka_unit_test(a_request_goes_to_who_knows_it),
      cmocka_unit_test(memory_is_that_of_all),
      cmocka_unit_test(a_node_has_its_own_weights),
      cmocka_unit_test(wrong_numbers_are_refused),
      cmocka_unit_test(images_are_encoded_by_any),
      cmocka_unit_test(a_request_may_go_with_its_end),
      cmocka_unit_test(a_stuck_engine_is_not_waited_for),
      cmocka_unit_test(a_cancelled_request_of_a_stuck_engine_ends),
      cmocka_unit_test(a_stuck_engine_sleeps_later),
      cmocka_unit_test(the_end_does_not_wait_for_a_stuck_engine),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
