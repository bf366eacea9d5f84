/* The engine through the public interface: how answers end, drawing by seed, images, counters, two
 * models at a time. */
#include <stdlib.h>

#include "support/golden.h"
#include "support/model_fixture.h"
#include "support/test.h"

static struct omma_model *model; /* qwen3_vl_tied, f32, one thread, 1,024 tokens */
static struct omma_engine *engine;
static struct omma_image *meadow, *tower;

static int set_up(void **state) {
  (void)state;
  model = fixture_model("qwen3_vl_tied", NULL);
  engine = fixture_engine(model, NULL);
  meadow = fixture_image("meadow_163x97.jpg");
  tower = fixture_image("tower_33x200.png");
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  omma_engine_destroy(engine);
  omma_model_close(model);
  omma_image_destroy(meadow);
  omma_image_destroy(tower);
  return 0;
}

/* A question's answer under some settings. */
static struct omma_result answer_to(const char *text, const struct omma_sampling *sampling, struct fixture_answer *answer) {
  struct omma_request *request = fixture_request(model, NULL, 0, text, sampling);
  struct omma_result result = fixture_ask(engine, request, answer);
  omma_request_destroy(request);
  return result;
}

/* ---- how answers end ---- */

static void max_tokens_ends_an_answer(void **state) {
  (void)state;
  struct fixture_answer answer, longest;
  answer_to("hello", &(struct omma_sampling){.max_tokens = 20, .ignore_eos = true}, &longest);
  for (int64_t n = 1; n <= 20; n += 6) {
    struct omma_result result = answer_to("hello", &(struct omma_sampling){.max_tokens = n, .ignore_eos = true}, &answer);
    assert_int_equal(result.finish, OMMA_FINISH_LENGTH);
    assert_int_equal(answer.n, n);
    assert_int_equal(result.stop_token, -1);
    assert_null(result.stop_string);
    assert_memory_equal(answer.tokens, longest.tokens, (size_t)n * sizeof(int32_t));
  }
}

static void a_stop_token_ends_an_answer(void **state) {
  (void)state;
  struct fixture_answer plain, answer;
  answer_to("hello", &(struct omma_sampling){.max_tokens = 24, .ignore_eos = true}, &plain);
  int32_t stop = plain.tokens[9];
  size_t first = 0;
  while (plain.tokens[first] != stop) first++;
  const struct omma_sampling sampling = {.max_tokens = 24, .ignore_eos = true, .stop_token_ids = &stop, .n_stop_token_ids = 1};
  struct omma_result result = answer_to("hello", &sampling, &answer);
  assert_int_equal(result.finish, OMMA_FINISH_STOP);
  assert_int_equal(result.stop_token, stop);
  assert_null(result.stop_string);
  assert_int_equal(answer.n, first + 1);
  assert_memory_equal(answer.tokens, plain.tokens, answer.n * sizeof(int32_t));
}

/* The golden case that ends by itself, with and without ignore_eos and min_tokens. */
static void the_models_stop_can_be_put_off(void **state) {
  (void)state;
  json_t *manifest = golden_manifest("qwen3_vl_tied");
  struct golden_case c;
  struct fixture_answer plain, answer;
  struct omma_error error;
  for (size_t i = 0; golden_case_open("qwen3_vl_tied", manifest, i, &c); i++) {
    if (strcmp(c.name, "ends_early") != 0) {
      golden_case_close(&c);
      continue;
    }
    struct omma_request_options options[3] = {{.sampling = {.max_tokens = 30}},
                                              {.sampling = {.max_tokens = 30, .ignore_eos = true}},
                                              {.sampling = {.max_tokens = 30, .min_tokens = 25}}};
    for (int variant = 0; variant < 3; variant++) {
      struct omma_request *request;
      assert_ok(omma_request_create(model, c.messages, c.n_messages, &options[variant], &request, &error), &error);
      struct omma_result result = fixture_ask(engine, request, variant ? &answer : &plain);
      omma_request_destroy(request);
      if (variant == 0) {
        assert_int_equal(result.finish, OMMA_FINISH_STOP);
        assert_int_equal(result.stop_token, plain.tokens[plain.n - 1]);
        assert_true(result.stop_token == 522 || result.stop_token == 520);
        assert_int_equal(plain.n, 19);
        continue;
      }
      assert_memory_equal(answer.tokens, plain.tokens, (plain.n - 1) * sizeof(int32_t));
      if (variant == 1) {
        /* drawn, but no end */
        assert_int_equal(answer.tokens[plain.n - 1], plain.tokens[plain.n - 1]);
        assert_int_equal(answer.n, 30);
        assert_int_equal(result.finish, OMMA_FINISH_LENGTH);
      } else {
        assert_true(answer.n > 25);
        for (size_t t = 0; t < 25; t++) assert_true(answer.tokens[t] != 522 && answer.tokens[t] != 520);
      }
    }
    golden_case_close(&c);
  }
  json_decref(manifest);
}

static void a_stop_string_is_cut_off(void **state) {
  (void)state;
  struct fixture_answer plain, answer;
  const struct omma_sampling free_run = {.max_tokens = 24, .ignore_eos = true};
  answer_to("hello", &free_run, &plain);
  assert_true(plain.text_size > 12);
  /* Every piece of two to five bytes of whole ASCII, as the only stop string. */
  int n_checked = 0;
  for (size_t at = 0; at + 5 < plain.text_size; at++) {
    char stop[6] = {0};
    size_t size = 2 + at % 4;
    memcpy(stop, plain.text + at, size);
    bool ascii = true;
    for (size_t i = 0; i < size; i++) ascii = ascii && stop[i] && (unsigned char)stop[i] < 128;
    if (!ascii) continue;
    const char *stops[] = {"nowhere to be found", stop};
    struct omma_sampling sampling = free_run;
    sampling.stop = stops;
    sampling.n_stop = 2;
    struct omma_result result = answer_to("hello", &sampling, &answer);
    assert_int_equal(result.finish, OMMA_FINISH_STOP);
    assert_int_equal(result.stop_token, -1);
    const char *first = memmem(plain.text, plain.text_size, stop, size);
    assert_int_equal(answer.text_size, first - plain.text);
    assert_memory_equal(answer.text, plain.text, answer.text_size);
    n_checked++;
  }
  assert_true(n_checked > 0);
}

/* It is the request's own: the caller's string may be gone before the answer begins. */
static void a_stop_string_lives_as_long_as_its_request(void **state) {
  (void)state;
  struct omma_error error;
  struct fixture_answer plain;
  answer_to("hello", &(struct omma_sampling){.max_tokens = 24, .ignore_eos = true}, &plain);
  size_t at = 0;
  while (at < plain.text_size && (unsigned char)plain.text[at] > 127) at++;
  assert_true(at < plain.text_size);
  char stop[2] = {plain.text[at], 0}, expected[2] = {plain.text[at], 0};
  const char *stops[] = {stop};
  const struct omma_sampling sampling = {.max_tokens = 24, .ignore_eos = true, .stop = stops, .n_stop = 1};
  struct omma_request *request = fixture_request(model, NULL, 0, "hello", &sampling);
  memset(stop, '~', sizeof stop);
  stops[0] = NULL;
  struct omma_result result;
  assert_ok(omma_generate(engine, request, NULL, &result, &error), &error);
  assert_string_equal(result.stop_string, expected);
  struct omma_result other;
  assert_ok(omma_generate(engine, request, NULL, &other, &error), &error);
  assert_string_equal(result.stop_string, expected);
  omma_request_destroy(request);
}

static void the_context_ends_an_answer(void **state) {
  (void)state;
  const struct omma_model_options options = {.weights = OMMA_WEIGHTS_F32, .n_threads = 1, .max_model_len = 150};
  struct omma_model *small = fixture_model("qwen3_vl_tied", &options);
  struct omma_engine *own = fixture_engine(small, NULL);
  struct omma_request *request = fixture_request(small, NULL, 0, "hello", &(struct omma_sampling){.ignore_eos = true});
  struct fixture_answer answer;
  size_t n_prompt;
  omma_request_prompt(request, &n_prompt);
  struct omma_result result = fixture_ask(own, request, &answer);
  assert_int_equal(result.finish, OMMA_FINISH_LENGTH);
  assert_int_equal(n_prompt + answer.n, 150);
  omma_request_destroy(request);
  omma_engine_destroy(own);
  omma_model_close(small);
}

/* Two pages of cache under a context of 1,024: what does not fit is refused at once; what fits ends
 * with the pages. */
static void a_prompt_over_the_cache_is_refused(void **state) {
  (void)state;
  struct omma_model *own_model = fixture_model("qwen3_vl_tied", NULL);
  struct omma_error error;
  const struct omma_engine_options options = {.kv_cache_bytes = fixture_kv_bytes(own_model, 2)};
  struct omma_engine *own = fixture_engine(own_model, &options);
  assert_int_equal(omma_engine_max_model_len(own), 128);
  char text[600];
  memset(text, '~', sizeof text - 1);
  for (size_t i = 0; i < sizeof text; i += 2) text[i] = '@';
  text[sizeof text - 1] = '\0';
  struct omma_request *request = fixture_request(own_model, NULL, 0, text, NULL);
  struct omma_result result;
  assert_fails(omma_generate(own, request, NULL, &result, &error), OMMA_ERROR_LIMIT, "maximum context length is 128 tokens",
               &error);
  assert_string_equal(error.field, "input_tokens");
  omma_request_destroy(request);
  struct fixture_answer answer;
  size_t n_prompt;
  request = fixture_request(own_model, NULL, 0, "hello", &(struct omma_sampling){.ignore_eos = true});
  omma_request_prompt(request, &n_prompt);
  result = fixture_ask(own, request, &answer);
  assert_int_equal(result.finish, OMMA_FINISH_LENGTH);
  assert_int_equal(n_prompt + answer.n, 128);
  omma_request_destroy(request);
  omma_engine_destroy(own);
  omma_model_close(own_model);
}

/* ---- drawing ---- */

static void a_seed_gives_the_same_answer_in_any_batch(void **state) {
  (void)state;
  struct fixture_answer first, other, noise;
  struct omma_sampling sampling = {.temperature = 1.2, .top_p = 0.95, .seed = 42, .max_tokens = 40, .ignore_eos = true};
  answer_to("hello", &sampling, &first);
  answer_to("something else", &(struct omma_sampling){.temperature = 1, .seed = 9, .max_tokens = 7}, &noise);
  answer_to("hello", &sampling, &other);
  fixture_expect_equal(&first, &other);
  sampling.seed = 43;
  answer_to("hello", &sampling, &other);
  assert_memory_not_equal(first.tokens, other.tokens, sizeof first.tokens);
}

static void penalties_and_logprobs_work_together(void **state) {
  (void)state;
  struct fixture_answer plain, answer;
  const struct omma_sampling free_run = {.max_tokens = 60, .ignore_eos = true, .logprobs = true};
  struct omma_sampling penalised = free_run;
  penalised.presence_penalty = 2;
  penalised.frequency_penalty = 2;
  penalised.repetition_penalty = 1.5;
  answer_to("hello hello hello", &free_run, &plain);
  answer_to("hello hello hello", &penalised, &answer);
  int repeats[2] = {0};
  for (size_t i = 1; i < 60; i++) {
    for (size_t j = 0; j < i; j++) {
      repeats[0] += plain.tokens[i] == plain.tokens[j];
      repeats[1] += answer.tokens[i] == answer.tokens[j];
    }
    assert_true(answer.logprobs[i] < 0);
  }
  assert_true(repeats[1] <= repeats[0]);
  assert_memory_not_equal(plain.tokens, answer.tokens, sizeof plain.tokens);
}

/* ---- requests of all shapes ---- */

static void images_and_text_in_turn(void **state) {
  (void)state;
  const struct omma_image *const images[] = {meadow, tower, meadow};
  struct fixture_answer alone[4], again;
  struct omma_sampling sampling = {.max_tokens = 12, .ignore_eos = true, .logprobs = true};
  for (int round = 0; round < 2; round++) {
    for (size_t n = 0; n <= 3; n++) {
      size_t n_images = round ? 3 - n : n;
      struct omma_request *request = fixture_request(model, images, n_images, "What is this?", &sampling);
      fixture_ask(engine, request, round ? &again : &alone[n_images]);
      if (round) fixture_expect_equal(&again, &alone[n_images]);
      omma_request_destroy(request);
    }
  }
  assert_memory_not_equal(alone[0].tokens, alone[1].tokens, sizeof again.tokens);
}

static void one_request_may_be_asked_many_times(void **state) {
  (void)state;
  const struct omma_image *const images[] = {tower};
  struct omma_request *request =
      fixture_request(model, images, 1, "Again?", &(struct omma_sampling){.max_tokens = 8, .logprobs = true});
  struct fixture_answer first, other;
  fixture_ask(engine, request, &first);
  for (int i = 0; i < 3; i++) {
    fixture_ask(engine, request, &other);
    fixture_expect_equal(&first, &other);
  }
  struct omma_error error;
  assert_ok(omma_generate(engine, request, NULL, NULL, &error), &error);
  omma_request_destroy(request);
}

/* Of pages, windows and snapshots alike: up to the last border of pages before a prompt's last
 * token. */
static void a_prompt_is_computed_once(void **state) {
  (void)state;
  for (int groups = -1; groups < FIXTURE_GROUPS; groups++) {
    struct omma_model *own =
        groups < 0 ? fixture_model("qwen3_vl_tied", NULL) : fixture_groups_model((enum fixture_groups)groups, NULL);
    struct omma_engine *cached = fixture_engine(own, &(struct omma_engine_options){.prefill_chunk = 256});
    for (int64_t n = 100; n <= 200; n += 25) {
      int32_t ids[200];
      struct omma_request *request;
      struct omma_error error;
      struct fixture_answer first, again;
      for (int64_t i = 0; i < n; i++) ids[i] = (int32_t)(20 + (i * 7 + n) % 90);
      const struct omma_request_options options = {.sampling = {.max_tokens = 3, .ignore_eos = true}};
      assert_ok(omma_request_create_tokens(own, ids, (size_t)n, &options, &request, &error), &error);
      assert_int_equal(fixture_ask(cached, request, &first).n_cached_tokens, 0);
      assert_int_equal(fixture_ask(cached, request, &again).n_cached_tokens, (n - 1) / 64 * 64);
      fixture_expect_equal(&first, &again);
      omma_request_destroy(request);
    }
    omma_engine_destroy(cached);
    omma_model_close(own);
  }
}

static void counters_count(void **state) {
  (void)state;
  const struct omma_image *const images[] = {meadow, tower};
  struct omma_engine_stats before, after;
  struct omma_image_sizes sizes[2];
  struct omma_error error;
  struct fixture_answer answer;
  omma_engine_get_stats(engine, &before);
  assert_ok(omma_model_image_sizes(model, 163, 97, NULL, &sizes[0], &error), &error);
  assert_ok(omma_model_image_sizes(model, 33, 200, NULL, &sizes[1], &error), &error);
  /* Names that no other test uses, so that nothing is in the cache. */
  const struct omma_part parts[] = {{.image = images[0], .image_name = "counted 1"},
                                    {.image = images[1], .image_name = "counted 2"},
                                    {.text = "hello", .text_size = 5}};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = parts, .n_parts = 3};
  const struct omma_request_options options = {.sampling = {.max_tokens = 5}};
  struct omma_request *request = NULL;
  assert_ok(omma_request_create(model, &message, 1, &options, &request, &error), &error);
  struct omma_result result = fixture_ask(engine, request, &answer);
  omma_request_destroy(request);
  omma_engine_get_stats(engine, &after);
  assert_true(after.alive);
  assert_int_equal(after.n_waiting, 0);
  assert_int_equal(after.n_finished[result.finish], before.n_finished[result.finish] + 1);
  assert_int_equal(after.prompt_tokens, before.prompt_tokens + result.n_prompt_tokens);
  assert_int_equal(after.generation_tokens, before.generation_tokens + (int64_t)answer.n);
  assert_int_equal(after.images, before.images + 2);
  assert_int_equal(after.encoder_passes, before.encoder_passes + 1);
  assert_int_equal(after.encoder_cache_misses, before.encoder_cache_misses + 2);
  assert_int_equal(after.encoder_cache_hits, before.encoder_cache_hits);
  assert_true(after.encoder_cache_bytes > 0 && after.workspace_bytes > 0);
  assert_int_equal(after.patches, before.patches + sizes[0].n_patches + sizes[1].n_patches);
  assert_int_equal(after.kv_pages, OMMA_DEFAULT_FULL_SEQUENCES * 1024 / 64);
  assert_int_equal(after.kv_pages_used, 0);
  assert_true(result.timings.encode > 0 && result.timings.prefill > 0 && result.timings.decode > 0);
}

/* ---- models and engines ---- */

static void a_model_has_one_engine(void **state) {
  (void)state;
  struct omma_engine *second = NULL;
  struct omma_error error;
  assert_fails(omma_engine_create(model, NULL, &second, &error), OMMA_ERROR_BUSY, "has one already", &error);
  struct omma_model *other = fixture_model("qwen3_vl_tied", NULL);
  for (int i = 0; i < 3; i++) omma_engine_destroy(fixture_engine(other, NULL));
  omma_model_close(other);
  assert_null(second);
}

static void a_model_without_weights_has_none(void **state) {
  (void)state;
  const struct omma_model_options options = {.config_only = true, .n_threads = 1};
  struct omma_model *bare = fixture_model("qwen3_vl_tied", &options);
  struct omma_engine *own = NULL;
  struct omma_error error;
  assert_fails(omma_engine_create(bare, NULL, &own, &error), OMMA_ERROR_ARGUMENT, "without its weights", &error);
  assert_string_equal(error.field, "model");
  omma_model_close(bare);
}

static void engine_options_out_of_range_are_named(void **state) {
  (void)state;
  struct omma_model *own = fixture_model("qwen3_vl_tied", NULL);
  const struct omma_team large = {.n_workers = 2};
  struct omma_engine *refused = NULL;
  struct omma_memory_estimate estimate;
  struct omma_error error;
  const struct {
    struct omma_engine_options options;
    enum omma_status status;
    const char *part;
  } cases[] = {
      {{.patch_budget = -1}, OMMA_ERROR_ARGUMENT, "patch_budget: expected 1 to 4194304, found -1"},
      {{.patch_budget = INT64_MAX}, OMMA_ERROR_ARGUMENT, "patch_budget"},
      {{.prefill_chunk = -5}, OMMA_ERROR_ARGUMENT, "prefill_chunk: expected 1 to 65536, found -5"},
      {{.prefill_chunk = 65537}, OMMA_ERROR_ARGUMENT, "prefill_chunk"},
      {{.queue_limit = -1}, OMMA_ERROR_ARGUMENT, "queue_limit: expected 1 to 1073741824, found -1"},
      {{.queue_limit = (int64_t)1 << 31}, OMMA_ERROR_ARGUMENT, "queue_limit"},
      {{.slice_ms = -1}, OMMA_ERROR_ARGUMENT, "slice_ms: expected 1 to 60000, found -1"},
      {{.slice_ms = 60001}, OMMA_ERROR_ARGUMENT, "slice_ms"},
      {{.slice_percent = 91}, OMMA_ERROR_ARGUMENT, "slice_percent: expected 1 to 90, found 91"},
      {{.max_sequences = -1}, OMMA_ERROR_ARGUMENT, "max_sequences: expected 1 to 1024, found -1"},
      {{.max_sequences = 1025}, OMMA_ERROR_ARGUMENT, "max_sequences"},
      {{.team = &large}, OMMA_ERROR_ARGUMENT, "team: expected at most the model's 1 workers, found 2"},
      {{.draft_tokens = 16}, OMMA_ERROR_ARGUMENT, "draft_tokens: expected 1 to 15, found 16"},
      {{.draft_tokens = 3, .lookup_max = 65}, OMMA_ERROR_ARGUMENT, "lookup_max"},
      {{.draft_tokens = 3, .lookup_min = 4, .lookup_max = 3}, OMMA_ERROR_ARGUMENT, "lookup_min: expected 1 to 3, found 4"},
      {{.reserve_tokens = -2}, OMMA_ERROR_ARGUMENT, "reserve_tokens"},
      {{.kv_cache_bytes = 1}, OMMA_ERROR_LIMIT, "one page of 64 tokens takes"},
      {{.kv_cache_bytes = -1}, OMMA_ERROR_LIMIT, "found -1"},
      {{.kv_cache_bytes = INT64_MIN}, OMMA_ERROR_LIMIT, "kv_cache_bytes"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_fails(omma_engine_create(own, &cases[i].options, &refused, &error), cases[i].status, cases[i].part, &error);
    assert_fails(omma_estimate_memory(own, &cases[i].options, 0, &estimate, &error), cases[i].status, cases[i].part, &error);
    assert_true(error.field[0] != '\0');
  }
  assert_fails(omma_estimate_memory(own, NULL, -1, &estimate, &error), OMMA_ERROR_ARGUMENT, "n_patches", &error);
  assert_fails(omma_estimate_memory(own, NULL, INT64_MAX, &estimate, &error), OMMA_ERROR_ARGUMENT, "n_patches", &error);
  assert_null(refused);
  omma_engine_destroy(fixture_engine(own, NULL)); /* a refusal leaves the place free */
  omma_model_close(own);
}

struct asker {
  struct omma_engine *engine;
  struct omma_request *request;
  const struct fixture_answer *expected;
  int n_different;
};

static void *ask_again_and_again(void *argument) {
  struct asker *asker = argument;
  struct fixture_answer *answer = calloc(1, sizeof *answer);
  for (int i = 0; i < 4; i++) {
    struct omma_result result;
    struct omma_error error;
    const struct omma_callbacks callbacks = {.context = answer, .on_token = fixture_collect};
    memset(answer, 0, sizeof *answer);
    if (omma_generate(asker->engine, asker->request, &callbacks, &result, &error) != OMMA_OK ||
        memcmp(answer, asker->expected, sizeof *answer) != 0) {
      asker->n_different++;
    }
  }
  free(answer);
  return NULL;
}

/* Two models compute at the same time and give the bits that each gives alone. */
static void two_models_do_not_disturb_each_other(void **state) {
  (void)state;
  static struct fixture_answer alone[2];
  const struct omma_model_options options = {.weights = OMMA_WEIGHTS_BF16, .n_threads = 2};
  struct omma_model *models[2] = {model, fixture_model("qwen3_vl_untied", &options)};
  struct omma_engine *engines[2] = {engine, fixture_engine(models[1], NULL)};
  const struct omma_image *const images[] = {meadow};
  const struct omma_sampling sampling = {.max_tokens = 20, .temperature = 0.8, .seed = 5, .ignore_eos = true, .logprobs = true};
  struct asker askers[2];
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) {
    askers[i] = (struct asker){engines[i], fixture_request(models[i], images, 1, "And?", &sampling), &alone[i], 0};
    fixture_ask(engines[i], askers[i].request, &alone[i]);
  }
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, ask_again_and_again, &askers[i]), 0);
  for (int i = 0; i < 2; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(askers[i].n_different, 0);
    omma_request_destroy(askers[i].request);
  }
  omma_engine_destroy(engines[1]);
  omma_model_close(models[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(max_tokens_ends_an_answer),
      cmocka_unit_test(a_stop_token_ends_an_answer),
      cmocka_unit_test(the_models_stop_can_be_put_off),
      cmocka_unit_test(a_stop_string_is_cut_off),
      cmocka_unit_test(a_stop_string_lives_as_long_as_its_request),
      cmocka_unit_test(the_context_ends_an_answer),
      cmocka_unit_test(a_prompt_over_the_cache_is_refused),
      cmocka_unit_test(a_seed_gives_the_same_answer_in_any_batch),
      cmocka_unit_test(penalties_and_logprobs_work_together),
      cmocka_unit_test(images_and_text_in_turn),
      cmocka_unit_test(one_request_may_be_asked_many_times),
      cmocka_unit_test(a_prompt_is_computed_once),
      cmocka_unit_test(counters_count),
      cmocka_unit_test(a_model_has_one_engine),
      cmocka_unit_test(a_model_without_weights_has_none),
      cmocka_unit_test(engine_options_out_of_range_are_named),
      cmocka_unit_test(two_models_do_not_disturb_each_other),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
