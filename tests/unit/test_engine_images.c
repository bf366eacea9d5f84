/* What the engine does with images of several requests: encoded together while they wait, and once
 * only. */
#include <stdlib.h>

#include "support/model_fixture.h"
#include "support/test.h"

enum { N_IMAGES = 3 };
static const char *const names[N_IMAGES] = {"meadow_163x97.jpg", "tower_33x200.png", "meadow_163x97.jpg"};
static struct omma_model *model;
static struct omma_image *images[N_IMAGES];

static int set_up(void **state) {
  (void)state;
  model = fixture_model("qwen3_vl_tied", NULL);
  for (int i = 0; i < N_IMAGES; i++) images[i] = fixture_image(names[i]);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  for (int i = 0; i < N_IMAGES; i++) omma_image_destroy(images[i]);
  omma_model_close(model);
  return 0;
}

/* A question about one image; the limit of pixels makes it another image for the model. */
static struct omma_request *ask_with_name(int image, int64_t max_pixels, const char *name, bool suffices) {
  const struct omma_part parts[] = {{.image = images[image],
                                     .image_name = name,
                                     .image_name_suffices = suffices,
                                     .image_options = {.max_pixels = max_pixels}},
                                    {.text = "hello", .text_size = 5}};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = parts, .n_parts = 2};
  const struct omma_request_options options = {.sampling = {.max_tokens = 6, .ignore_eos = true, .logprobs = true}};
  struct omma_request *request = NULL;
  struct omma_error error;
  assert_ok(omma_request_create(model, &message, 1, &options, &request, &error), &error);
  return request;
}

static struct omma_request *ask_about(int image, int64_t max_pixels, const char *name) {
  return ask_with_name(image, max_pixels, name, false);
}

/* Blocks the engine in the first progress report of a request, so that others pile up behind it. */
static void hold(void *context, enum omma_stage stage, int64_t done, int64_t total) {
  (void)stage;
  (void)done;
  (void)total;
  fixture_gate_pass(context);
}

struct asker {
  struct fixture_answer answer;
  struct fixture_gate finished;
  uint64_t id;
};

static void asker_finish(void *context, const struct omma_result *result) {
  struct asker *asker = context;
  (void)result;
  fixture_gate_pass(&asker->finished);
}
static bool asker_token(void *context, const struct omma_token_event *event) {
  struct asker *asker = context;
  return fixture_collect(&asker->answer, event);
}

static void submit(struct omma_engine *engine, const struct omma_request *request, struct asker *asker) {
  const struct omma_callbacks callbacks = {.context = asker, .on_token = asker_token, .on_finish = asker_finish};
  struct omma_error error;
  memset(&asker->answer, 0, sizeof asker->answer);
  fixture_gate_init(&asker->finished, true);
  assert_ok(omma_engine_submit(engine, request, &callbacks, &asker->id, &error), &error);
}

static void an_image_is_encoded_once(void **state) {
  (void)state;
  struct omma_engine *engine = fixture_engine(model, NULL);
  struct fixture_answer first, second;
  struct omma_engine_stats stats;
  struct omma_request *one = ask_about(0, 0, NULL), *same = ask_about(2, 0, NULL), *smaller = ask_about(0, 4096, NULL);
  fixture_ask(engine, one, &first);
  struct omma_result result = fixture_ask(engine, same, &second);
  fixture_expect_equal(&first, &second);
  assert_true(result.timings.encode == 0);
  omma_engine_get_stats(engine, &stats);
  assert_int_equal(stats.images, 1);
  assert_int_equal(stats.encoder_cache_hits, 1);
  fixture_ask(engine, smaller, &second);
  omma_engine_get_stats(engine, &stats);
  assert_int_equal(stats.images, 2);
  omma_engine_destroy(engine);
  omma_request_destroy(one);
  omma_request_destroy(same);
  omma_request_destroy(smaller);
}

static void a_name_stands_for_an_image(void **state) {
  (void)state;
  struct omma_engine *engine = fixture_engine(model, NULL);
  struct fixture_answer answer;
  struct omma_engine_stats stats;
  struct omma_request *named = ask_about(0, 0, "a"), *again = ask_about(0, 0, "a"), *other = ask_about(0, 0, "b");
  fixture_ask(engine, named, &answer);
  fixture_ask(engine, again, &answer);
  fixture_ask(engine, other, &answer);
  omma_engine_get_stats(engine, &stats);
  assert_int_equal(stats.images, 2);
  assert_int_equal(stats.encoder_cache_hits, 1);
  omma_engine_destroy(engine);
  omma_request_destroy(named);
  omma_request_destroy(again);
  omma_request_destroy(other);
}

static void without_a_cache_every_image_is_encoded(void **state) {
  (void)state;
  struct omma_engine *engine = fixture_engine(model, &(struct omma_engine_options){.encoder_cache_bytes = -1});
  struct fixture_answer first, second;
  struct omma_engine_stats stats;
  struct omma_request *one = ask_about(0, 0, NULL);
  fixture_ask(engine, one, &first);
  fixture_ask(engine, one, &second);
  fixture_expect_equal(&first, &second);
  omma_engine_get_stats(engine, &stats);
  assert_int_equal(stats.images, 2);
  assert_int_equal(stats.encoder_cache_bytes, 0);
  omma_engine_destroy(engine);
  omma_request_destroy(one);
}

/* Three requests come while the engine is held: their images go through the tower together, the
 * answers have the bits of a run alone, and no image counts as found before it is asked for
 * again. */
static void waiting_images_go_together(void **state) {
  (void)state;
  enum { N = 3 };
  static struct asker askers[N];
  static struct fixture_answer alone[N];
  struct omma_request *requests[N] = {ask_about(0, 0, NULL), ask_about(1, 0, NULL), ask_about(0, 4096, NULL)};
  struct omma_request *text = fixture_request(model, NULL, 0, "hello", &(struct omma_sampling){.max_tokens = 2});
  struct omma_engine *engine = fixture_engine(model, &(struct omma_engine_options){.encoder_cache_bytes = -1});
  for (int i = 0; i < N; i++) fixture_ask(engine, requests[i], &alone[i]);
  omma_engine_destroy(engine);

  engine = fixture_engine(model, NULL);
  struct fixture_gate gate;
  struct omma_engine_stats stats;
  struct omma_error error;
  fixture_gate_init(&gate, false);
  const struct omma_callbacks held = {.context = &gate, .on_progress = hold};
  assert_ok(omma_engine_submit(engine, text, &held, NULL, &error), &error);
  fixture_gate_await(&gate, 1);
  for (int i = 0; i < N; i++) submit(engine, requests[i], &askers[i]);
  fixture_gate_open(&gate);
  for (int i = 0; i < N; i++) {
    fixture_gate_await(&askers[i].finished, 1);
    fixture_expect_equal(&askers[i].answer, &alone[i]);
  }
  omma_engine_get_stats(engine, &stats);
  assert_int_equal(stats.images, N);
  assert_int_equal(stats.encoder_passes, 1);
  assert_int_equal(stats.encoder_cache_hits, 0);
  assert_int_equal(stats.encoder_cache_misses, N);
  for (int i = 0; i < N; i++) fixture_ask(engine, requests[i], &alone[i]);
  omma_engine_get_stats(engine, &stats);
  assert_int_equal(stats.encoder_cache_hits, N);
  assert_int_equal(stats.encoder_cache_misses, N);
  omma_engine_destroy(engine);
  for (int i = 0; i < N; i++) {
    omma_request_destroy(requests[i]);
    fixture_gate_destroy(&askers[i].finished);
  }
  omma_request_destroy(text);
  fixture_gate_destroy(&gate);
}

/* Two requests whose images together are more than the encoder's cache holds, and each alone as
 * well: both end, with the bits of a run alone. */
static void images_larger_than_the_cache_all_end(void **state) {
  (void)state;
  static struct asker askers[2];
  static struct fixture_answer alone[2];
  const int64_t budgets[] = {1, 30000, 60000};
  struct omma_request *requests[2] = {ask_about(0, 0, NULL), ask_about(1, 0, NULL)};
  for (int b = 0; b < 3; b++) {
    struct omma_engine *engine = fixture_engine(model, &(struct omma_engine_options){.encoder_cache_bytes = budgets[b]});
    struct omma_engine_stats stats;
    for (int i = 0; i < 2; i++) fixture_ask(engine, requests[i], &alone[i]);
    for (int i = 0; i < 2; i++) submit(engine, requests[i], &askers[i]);
    for (int i = 0; i < 2; i++) {
      fixture_gate_await(&askers[i].finished, 1);
      fixture_expect_equal(&askers[i].answer, &alone[i]);
      fixture_gate_destroy(&askers[i].finished);
    }
    omma_engine_get_stats(engine, &stats);
    assert_true(stats.encoder_cache_bytes <= budgets[b]);
    omma_engine_destroy(engine);
  }
  for (int i = 0; i < 2; i++) omma_request_destroy(requests[i]);
}

static void a_request_may_leave_a_pass(void **state) {
  (void)state;
  static struct asker first, second;
  static struct fixture_answer alone;
  struct omma_engine *engine = fixture_engine(model, &(struct omma_engine_options){.encoder_cache_bytes = -1});
  struct omma_request *one = ask_about(0, 0, NULL), *other = ask_about(1, 0, NULL);
  fixture_ask(engine, one, &alone);
  omma_engine_destroy(engine);

  engine = fixture_engine(model, NULL);
  struct fixture_gate text_gate, encode_gate;
  struct omma_error error;
  fixture_gate_init(&text_gate, false);
  fixture_gate_init(&encode_gate, false);
  struct omma_request *text = fixture_request(model, NULL, 0, "hello", &(struct omma_sampling){.max_tokens = 2});
  const struct omma_callbacks held = {.context = &text_gate, .on_progress = hold};
  assert_ok(omma_engine_submit(engine, text, &held, NULL, &error), &error);
  fixture_gate_await(&text_gate, 1);
  const struct omma_callbacks encoding = {.context = &encode_gate, .on_progress = hold};
  assert_ok(omma_engine_submit(engine, one, &encoding, NULL, &error), &error);
  submit(engine, other, &second);
  fixture_gate_open(&text_gate);
  fixture_gate_await(&encode_gate, 1); /* both images are on their way through the tower */
  omma_engine_cancel(engine, second.id);
  fixture_gate_open(&encode_gate);
  fixture_gate_await(&second.finished, 1);
  omma_request_destroy(other);
  submit(engine, one, &first);
  fixture_gate_await(&first.finished, 1);
  fixture_expect_equal(&first.answer, &alone);
  omma_engine_destroy(engine);
  omma_request_destroy(one);
  omma_request_destroy(text);
  fixture_gate_destroy(&text_gate);
  fixture_gate_destroy(&encode_gate);
  fixture_gate_destroy(&first.finished);
  fixture_gate_destroy(&second.finished);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_image_is_encoded_once),
      cmocka_unit_test(a_name_stands_for_an_image),
      cmocka_unit_test(without_a_cache_every_image_is_encoded),
      cmocka_unit_test(waiting_images_go_together),
      cmocka_unit_test(images_larger_than_the_cache_all_end),
      cmocka_unit_test(a_request_may_leave_a_pass),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
