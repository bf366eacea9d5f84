/* Which tokens answers may have, through the public interface: biases, allowed tokens, bad words;
 * what stays in their text; prompts that are cut. */
#include "request/token_rules.h"

#include <math.h>

#include "request/request.h"
#include "support/golden.h"
#include "support/model_fixture.h"
#include "support/test.h"

static struct omma_model *model; /* qwen3_vl_tied, f32, one thread, 1,024 tokens */
static struct omma_engine *engine;

static int set_up(void **state) {
  (void)state;
  model = fixture_model("qwen3_vl_tied", NULL);
  engine = fixture_engine(model, NULL);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  omma_engine_destroy(engine);
  omma_model_close(model);
  return 0;
}

static struct omma_result answer_to(const char *text, const struct omma_sampling *sampling, struct fixture_answer *answer) {
  struct omma_request *request = fixture_request(model, NULL, 0, text, sampling);
  struct omma_result result = fixture_ask(engine, request, answer);
  omma_request_destroy(request);
  return result;
}

static const struct omma_sampling plain = {.max_tokens = 16, .ignore_eos = true, .logprobs = true};

static void expect_refused(struct omma_sampling sampling, const char *field, const char *part) {
  struct omma_error error;
  struct omma_request *request = NULL;
  const int32_t prompt[] = {1, 2, 3};
  const struct omma_request_options options = {.sampling = sampling};
  assert_fails(omma_request_create_tokens(model, prompt, 3, &options, &request, &error), OMMA_ERROR_ARGUMENT, part, &error);
  assert_string_equal(error.field, field);
  assert_null(request);
}

/* ---- biases ---- */

static void a_bias_moves_the_choice_and_no_logprob(void **state) {
  (void)state;
  struct fixture_answer free_run, biased;
  answer_to("hello", &plain, &free_run);
  int32_t wanted = free_run.tokens[3] == 7 ? 8 : 7;
  /* the last counts, as 100 */
  const struct omma_logit_bias biases[] = {{wanted, 5}, {300, -3}, {wanted, 1e9f}};
  struct omma_sampling sampling = plain;
  sampling.logit_bias = biases;
  sampling.n_logit_bias = 3;
  answer_to("hello", &sampling, &biased);
  for (size_t i = 0; i < biased.n; i++) assert_int_equal(biased.tokens[i], wanted);
  assert_true(biased.logprobs[0] < free_run.logprobs[0]); /* of the model's own distribution */
  const struct omma_logit_bias none[] = {{wanted, 0}, {5, 0}};
  sampling.logit_bias = none;
  sampling.n_logit_bias = 2;
  answer_to("hello", &sampling, &biased);
  fixture_expect_equal(&free_run, &biased);
}

/* A bias of b and then a draw is the draw of the logits with b added: with all tokens biased alike
 * nothing changes. */
static void biases_come_before_the_draw(void **state) {
  (void)state;
  struct fixture_answer free_run, biased;
  struct omma_logit_bias biases[OMMA_MAX_LOGIT_BIAS];
  struct omma_sampling sampling = {.max_tokens = 16, .ignore_eos = true, .temperature = 1, .seed = 5, .top_k = 4};
  struct omma_model_info info;
  omma_model_get_info(model, &info);
  assert_true(info.vocab_size <= OMMA_MAX_LOGIT_BIAS);
  answer_to("hello", &sampling, &free_run);
  for (int32_t i = 0; i < info.vocab_size; i++) biases[i] = (struct omma_logit_bias){(int32_t)info.vocab_size - 1 - i, 2};
  sampling.logit_bias = biases;
  sampling.n_logit_bias = (size_t)info.vocab_size;
  answer_to("hello", &sampling, &biased);
  assert_memory_equal(free_run.tokens, biased.tokens, free_run.n * sizeof(int32_t));
}

/* ---- allowed tokens ---- */

static void only_allowed_tokens_come(void **state) {
  (void)state;
  static const int32_t allowed[] = {40, 41, 77, 41};
  struct fixture_answer answer;
  struct omma_sampling sampling = {.temperature = 1.5, .seed = 3, .max_tokens = 32, .allowed_token_ids = allowed};
  sampling.n_allowed_token_ids = 4;
  answer_to("hello", &sampling, &answer);
  assert_int_equal(answer.n, 32);
  for (size_t i = 0; i < answer.n; i++) assert_true(answer.tokens[i] == 40 || answer.tokens[i] == 41 || answer.tokens[i] == 77);
}

/* An end is put off before min_tokens, unless nothing else is allowed. */
static void ends_may_be_all_that_is_allowed(void **state) {
  (void)state;
  static const int32_t ends[] = {522};
  struct fixture_answer answer;
  const struct omma_sampling sampling = {.min_tokens = 3, .allowed_token_ids = ends, .n_allowed_token_ids = 1};
  struct omma_result result = answer_to("hello", &sampling, &answer);
  assert_int_equal(result.finish, OMMA_FINISH_STOP);
  assert_int_equal(answer.n, 1);
}

static void what_leaves_no_token_is_an_error(void **state) {
  (void)state;
  char text[32];
  size_t size;
  struct omma_error error;
  struct omma_result result;
  const int32_t only = 40;
  assert_ok(omma_detokenize(model, &only, 1, true, text, sizeof text - 1, &size, &error), &error);
  text[size] = '\0';
  const char *words[] = {text};
  const struct omma_sampling sampling = {
      .max_tokens = 4, .allowed_token_ids = &only, .n_allowed_token_ids = 1, .bad_words = words, .n_bad_words = 1};
  struct omma_request *request = fixture_request(model, NULL, 0, "hello", &sampling);
  assert_fails(omma_generate(engine, request, NULL, &result, &error), OMMA_ERROR_ARGUMENT, "leave no token", &error);
  assert_string_equal(error.field, "allowed_token_ids");
  omma_request_destroy(request);
}

/* ---- bad words ---- */

static size_t encode(const char *text, int32_t *ids, size_t capacity) {
  struct omma_error error;
  size_t n;
  assert_ok(omma_tokenize(model, text, strlen(text), ids, capacity, &n, &error), &error);
  return n;
}

/* The sequences of a word by vLLM's definition: bare, and after a blank where that makes as many
 * tokens and another first one. */
static void bad_words_are_vllms_sequences(void **state) {
  (void)state;
  static const char *const words[] = {"hello", "  hello", "\xe2\x80\x83hello", "the", "a b", "."};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    struct omma_error error;
    struct ommai_token_rules rules = {0};
    int32_t bare[16], spaced[16];
    char text[16] = " ";
    const struct omma_sampling sampling = {.bad_words = &words[i], .n_bad_words = 1};
    const char *stripped = i == 1 ? words[i] + 2 : i == 2 ? words[i] + 3 : words[i];
    strcat(text, stripped);
    size_t n = encode(stripped, bare, 16), n_after = encode(text, spaced, 16);
    bool both = n_after == n && spaced[0] != bare[0];
    assert_ok(ommai_token_rules_take(&rules, model, &sampling, &error), &error);
    assert_int_equal(rules.n_bad_words, both ? 2 : 1);
    assert_int_equal(rules.bad_ends[0], n);
    assert_memory_equal(rules.bad_tokens, bare, n * sizeof *bare);
    if (both) assert_memory_equal(rules.bad_tokens + n, spaced, n * sizeof *spaced);
    int32_t banned[OMMA_MAX_BAD_WORDS];
    assert_int_equal(ommai_token_rules_ban(&rules, bare, (int64_t)n - 1, banned), 1);
    assert_int_equal(banned[0], bare[n - 1]);
    if (n > 1) assert_int_equal(ommai_token_rules_ban(&rules, bare, (int64_t)n - 2, banned), 0);
    ommai_token_rules_free(&rules, &model->allocator);
  }
}

/* The answer goes its own way until the word's last token would come. */
static void a_bad_word_of_several_tokens_is_not_completed(void **state) {
  (void)state;
  struct fixture_answer free_run, answer;
  answer_to("hello", &plain, &free_run);
  size_t n_checked = 0;
  for (size_t at = 0; at + 2 <= free_run.n; at++) {
    char text[64];
    int32_t ids[16];
    size_t size;
    struct omma_error error;
    assert_ok(omma_detokenize(model, free_run.tokens + at, 2, true, text, sizeof text - 1, &size, &error), &error);
    text[size] = '\0';
    const char *words[] = {"never said", text};
    /* Only where the text is cut into these two tokens again, and the same two came no earlier. */
    if (size == 0 || text[0] == ' ' || encode(text, ids, 16) != 2 || memcmp(ids, free_run.tokens + at, sizeof *ids * 2) != 0)
      continue;
    size_t first = 0;
    while (memcmp(free_run.tokens + first, ids, sizeof *ids * 2) != 0) first++;
    struct omma_sampling sampling = plain;
    sampling.bad_words = words;
    sampling.n_bad_words = 2;
    answer_to("hello", &sampling, &answer);
    assert_memory_equal(answer.tokens, free_run.tokens, (first + 1) * sizeof(int32_t));
    for (size_t i = 0; i + 2 <= answer.n; i++) assert_memory_not_equal(answer.tokens + i, ids, 2 * sizeof *ids);
    n_checked++;
  }
  assert_true(n_checked > 0);
}

static void wrong_rules_are_named(void **state) {
  (void)state;
  const struct omma_logit_bias outside[] = {{1, 1}, {100000, 1}}, no_number[] = {{1, NAN}};
  const int32_t ids[] = {5, -1};
  static struct omma_logit_bias many[OMMA_MAX_LOGIT_BIAS + 1];
  char longest[1026];
  const char *words[OMMA_MAX_BAD_WORDS + 1];
  memset(longest, 'a', sizeof longest);
  longest[1025] = '\0';
  for (size_t i = 0; i <= OMMA_MAX_BAD_WORDS; i++) words[i] = "a";
  expect_refused((struct omma_sampling){.logit_bias = outside, .n_logit_bias = 2}, "logit_bias", "there is no token 100000");
  expect_refused((struct omma_sampling){.logit_bias = no_number, .n_logit_bias = 1}, "logit_bias", "is not a number");
  expect_refused((struct omma_sampling){.logit_bias = many, .n_logit_bias = OMMA_MAX_LOGIT_BIAS + 1}, "logit_bias",
                 "at most 1024 tokens, found 1025");
  expect_refused((struct omma_sampling){.n_logit_bias = 1}, "logit_bias", "expected a list");
  expect_refused((struct omma_sampling){.allowed_token_ids = ids, .n_allowed_token_ids = 2}, "allowed_token_ids",
                 "allowed_token_ids[1]: there is no token -1");
  expect_refused((struct omma_sampling){.allowed_token_ids = ids}, "allowed_token_ids", "at least one token");
  expect_refused((struct omma_sampling){.bad_words = words, .n_bad_words = OMMA_MAX_BAD_WORDS + 1}, "bad_words",
                 "at most 128, found 129");
  expect_refused((struct omma_sampling){.bad_words = words, .n_bad_words = OMMA_MAX_BAD_WORDS}, "bad_words",
                 "at most 128 sequences");
  words[0] = longest;
  expect_refused((struct omma_sampling){.bad_words = words, .n_bad_words = 1}, "bad_words",
                 "expected 1 to 1024 bytes, found 1025");
  words[0] = " \t";
  expect_refused((struct omma_sampling){.bad_words = words, .n_bad_words = 1}, "bad_words", "has no token");
  words[0] = "\xff";
  expect_refused((struct omma_sampling){.bad_words = words, .n_bad_words = 1}, "bad_words", "invalid UTF-8 at byte 0");
}

/* ---- the text ---- */

/* A stop string stays with include_stop, and what follows it in its token goes. */
static void a_stop_string_may_stay(void **state) {
  (void)state;
  struct fixture_answer free_run, answer;
  answer_to("hello", &plain, &free_run);
  for (size_t at = 0; at + 3 < free_run.text_size; at++) {
    char stop[4] = {0};
    memcpy(stop, free_run.text + at, 3);
    if ((stop[0] | stop[1] | stop[2]) & 0x80) continue; /* no ASCII; chars have no sign on ARM */
    const char *stops[] = {stop};
    struct omma_sampling sampling = plain;
    sampling.stop = stops;
    sampling.n_stop = 1;
    sampling.include_stop = true;
    struct omma_result result = answer_to("hello", &sampling, &answer);
    const char *first = memmem(free_run.text, free_run.text_size, stop, 3);
    assert_int_equal(result.finish, OMMA_FINISH_STOP);
    assert_int_equal(answer.text_size, first + 3 - free_run.text);
    assert_memory_equal(answer.text, free_run.text, answer.text_size);
  }
}

static void a_stop_tokens_text_goes_or_stays(void **state) {
  (void)state;
  struct fixture_answer free_run, without, with;
  answer_to("hello", &plain, &free_run);
  int32_t stop = free_run.tokens[6];
  struct omma_sampling sampling = plain;
  sampling.stop_token_ids = &stop;
  sampling.n_stop_token_ids = 1;
  answer_to("hello", &sampling, &without);
  sampling.include_stop = true;
  answer_to("hello", &sampling, &with);
  assert_int_equal(with.n, without.n);
  char text[64];
  size_t size;
  struct omma_error error;
  assert_ok(omma_detokenize(model, &stop, 1, true, text, sizeof text, &size, &error), &error);
  assert_int_equal(with.text_size, without.text_size + size);
  assert_memory_equal(with.text, free_run.text, with.text_size);
}

static void special_tokens_may_stay(void **state) {
  (void)state;
  static const int32_t allowed[] = {522};
  struct fixture_answer answer;
  struct omma_sampling sampling = {.max_tokens = 2, .ignore_eos = true, .allowed_token_ids = allowed, .n_allowed_token_ids = 1};
  char text[64];
  size_t size;
  struct omma_error error;
  assert_ok(omma_detokenize(model, allowed, 1, false, text, sizeof text, &size, &error), &error);
  assert_true(size > 3);
  answer_to("hello", &sampling, &answer);
  assert_int_equal(answer.text_size, 0);
  sampling.keep_special_tokens = true;
  answer_to("hello", &sampling, &answer);
  assert_int_equal(answer.text_size, 2 * size);
  assert_memory_equal(answer.text, text, size);
  sampling.ignore_eos = false; /* what ends the answer is not part of it */
  answer_to("hello", &sampling, &answer);
  assert_int_equal(answer.n, 1);
  assert_int_equal(answer.text_size, 0);
  sampling.include_stop = true;
  answer_to("hello", &sampling, &answer);
  assert_int_equal(answer.text_size, size);
}

/* ---- prompts that are cut ---- */

static void expect_prompt(const struct omma_request *request, const int32_t *ids, size_t n) {
  size_t found;
  const int32_t *prompt = omma_request_prompt(request, &found);
  assert_int_equal(found, n);
  assert_memory_equal(prompt, ids, n * sizeof *ids);
}

static void a_long_prompt_is_cut_to_its_end_or_beginning(void **state) {
  (void)state;
  enum { LONG = 3000 };
  static char text[LONG];
  struct omma_error error;
  struct omma_request *whole, *request;
  size_t n;
  memset(text, 'x', sizeof text);
  for (size_t i = 0; i < LONG; i += 3) text[i] = ' ';
  struct omma_part part = {.text = text, .text_size = 600};
  const struct omma_message message = {OMMA_ROLE_USER, &part, 1, NULL};
  assert_ok(omma_request_create(model, &message, 1, NULL, &whole, &error), &error);
  const int32_t *ids = omma_request_prompt(whole, &n);
  for (int first = 0; first < 2; first++) {
    const struct omma_request_options options = {.truncation = {.n_tokens = 20, .keep_first = first}};
    assert_ok(omma_request_create(model, &message, 1, &options, &request, &error), &error);
    expect_prompt(request, first ? ids : ids + n - 20, 20);
    assert_int_equal(request->next_position, 20);
    omma_request_destroy(request);
    assert_ok(omma_request_create_tokens(model, ids, n, &options, &request, &error), &error);
    expect_prompt(request, first ? ids : ids + n - 20, 20);
    omma_request_destroy(request);
  }
  const struct omma_request_options enough = {.truncation = {.n_tokens = (int64_t)n}};
  assert_ok(omma_request_create(model, &message, 1, &enough, &request, &error), &error);
  expect_prompt(request, ids, n);
  omma_request_destroy(request);
  omma_request_destroy(whole);
  part.text_size = LONG; /* over the context */
  assert_fails(omma_request_create(model, &message, 1, NULL, &request, &error), OMMA_ERROR_LIMIT, "maximum context length",
               &error);
  assert_ok(omma_request_create(model, &message, 1, &enough, &request, &error), &error);
  omma_request_prompt(request, &n);
  assert_int_equal(n, enough.truncation.n_tokens);
  omma_request_destroy(request);
}

static void a_prompt_with_images_is_not_cut(void **state) {
  (void)state;
  struct omma_error error;
  struct omma_request *request = NULL;
  struct omma_image *image = fixture_image("meadow_163x97.jpg");
  const struct omma_part part = {.image = image};
  const struct omma_message message = {OMMA_ROLE_USER, &part, 1, NULL};
  struct omma_request_options options = {.truncation = {.n_tokens = 10}};
  assert_fails(omma_request_create(model, &message, 1, &options, &request, &error), OMMA_ERROR_ARGUMENT, "is not cut", &error);
  assert_string_equal(error.field, "truncate_prompt_tokens");
  options.truncation.n_tokens = 500;
  assert_ok(omma_request_create(model, &message, 1, &options, &request, &error), &error);
  omma_request_destroy(request);
  omma_image_destroy(image);
}

/* ---- repetition ---- */

/* A choice of few tokens repeats soon, and no sequence of `size` tokens may come twice. There are
 * too many of them for an answer of this length to run out. */
static void sequences_do_not_repeat(void **state) {
  (void)state;
  static const int32_t allowed[] = {40, 41, 77, 80, 81, 82, 83, 84};
  struct omma_sampling sampling = plain;
  struct fixture_answer answer;
  sampling.allowed_token_ids = allowed;
  sampling.n_allowed_token_ids = 8;
  for (size_t size = 2; size <= 4; size++) {
    sampling.no_repeat_ngram_size = (int64_t)size;
    sampling.max_tokens = size == 2 ? 9 : 20;
    answer_to("hello", &sampling, &answer);
    assert_int_equal(answer.n, sampling.max_tokens);
    for (size_t i = 0; i + size <= answer.n; i++) {
      for (size_t j = i + 1; j + size <= answer.n; j++) {
        assert_memory_not_equal(answer.tokens + i, answer.tokens + j, size * sizeof *answer.tokens);
      }
    }
  }
  sampling.no_repeat_ngram_size = 1;
  answer_to("hello", &sampling, &answer);
  assert_int_equal(answer.n, 20); /* each once, and then all may come: nothing else is left */
  for (int i = 0; i < 8; i++) {
    for (int j = 0; j < i; j++) assert_int_not_equal(answer.tokens[i], answer.tokens[j]);
  }
}

static void a_size_that_is_not_reached_changes_nothing(void **state) {
  (void)state;
  struct fixture_answer free_run, answer;
  struct omma_sampling sampling = plain;
  answer_to("hello", &sampling, &free_run);
  sampling.no_repeat_ngram_size = 100;
  answer_to("hello", &sampling, &answer);
  fixture_expect_equal(&free_run, &answer);
}

static void an_answer_that_repeats_ends(void **state) {
  (void)state;
  const int32_t only = 40;
  struct fixture_answer answer;
  struct omma_sampling sampling = plain;
  sampling.allowed_token_ids = &only;
  sampling.n_allowed_token_ids = 1;
  sampling.repetition_detection = (struct omma_repetition_detection){.max_pattern_size = 3, .min_count = 4};
  struct omma_result result = answer_to("hello", &sampling, &answer);
  assert_int_equal(result.finish, OMMA_FINISH_REPETITION);
  assert_int_equal(answer.n, 4);
  assert_int_equal(answer.n_last, 1);
  sampling.min_tokens = 7;
  assert_int_equal(answer_to("hello", &sampling, &answer).finish, OMMA_FINISH_REPETITION);
  assert_int_equal(answer.n, 7);
  sampling.max_tokens = 7; /* the length is looked at first */
  assert_int_equal(answer_to("hello", &sampling, &answer).finish, OMMA_FINISH_LENGTH);
}

static void wrong_repetition_is_named(void **state) {
  (void)state;
  struct omma_sampling sampling = {.no_repeat_ngram_size = -1};
  expect_refused(sampling, "no_repeat_ngram_size", "found -1");
  sampling = (struct omma_sampling){.repetition_detection = {.max_pattern_size = 3, .min_count = 1}};
  expect_refused(sampling, "repetition_detection", "at least 2, found 1");
  sampling = (struct omma_sampling){.repetition_detection = {.max_pattern_size = 3, .min_pattern_size = 4, .min_count = 2}};
  expect_refused(sampling, "repetition_detection", "found 4");
  sampling = (struct omma_sampling){.repetition_detection = {.max_pattern_size = -1}};
  expect_refused(sampling, "repetition_detection", "max_pattern_size = -1");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_bias_moves_the_choice_and_no_logprob),
      cmocka_unit_test(biases_come_before_the_draw),
      cmocka_unit_test(only_allowed_tokens_come),
      cmocka_unit_test(ends_may_be_all_that_is_allowed),
      cmocka_unit_test(what_leaves_no_token_is_an_error),
      cmocka_unit_test(bad_words_are_vllms_sequences),
      cmocka_unit_test(a_bad_word_of_several_tokens_is_not_completed),
      cmocka_unit_test(wrong_rules_are_named),
      cmocka_unit_test(a_stop_string_may_stay),
      cmocka_unit_test(a_stop_tokens_text_goes_or_stays),
      cmocka_unit_test(special_tokens_may_stay),
      cmocka_unit_test(a_long_prompt_is_cut_to_its_end_or_beginning),
      cmocka_unit_test(a_prompt_with_images_is_not_cut),
      cmocka_unit_test(sequences_do_not_repeat),
      cmocka_unit_test(a_size_that_is_not_reached_changes_nothing),
      cmocka_unit_test(an_answer_that_repeats_ends),
      cmocka_unit_test(wrong_repetition_is_named),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
