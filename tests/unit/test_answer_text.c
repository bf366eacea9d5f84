/* The growing text of an answer: random tokens and stop strings against looking for the stop
 * strings in the whole text; reasoning and their marks. */
#include "engine/answer_text.h"

#include "base/allocator.h"
#include "request/grammar_matcher.h"
#include "support/golden.h"
#include "support/test.h"

enum { MAX_TEXT = 8192, MAX_IDS = 64 };

struct fixture {
  struct omma_model model;
  struct omma_request request;
};

static void set_up(struct fixture *fixture) {
  char path[1024];
  struct omma_error error;
  memset(fixture, 0, sizeof *fixture);
  golden_path("qwen3_vl_tied", NULL, path, sizeof path);
  assert_ok(ommai_tokenizer_load(path, &ommai_default_allocator, &fixture->model.tokenizer, &error), &error);
  fixture->request.model = &fixture->model;
}

static void tear_down(struct fixture *fixture) { ommai_tokenizer_destroy(fixture->model.tokenizer); }

static void set_stops(struct fixture *fixture, const char *const *stops) {
  fixture->request.n_stop = 0;
  for (; *stops; stops++) {
    fixture->request.stop[fixture->request.n_stop] = (char *)(uintptr_t)*stops;
    fixture->request.stop_size[fixture->request.n_stop++] = strlen(*stops);
  }
}

static size_t ids_of(const struct fixture *fixture, const char *text, int32_t ids[MAX_IDS]) {
  struct omma_error error;
  size_t n;
  assert_ok(ommai_tokenizer_encode(fixture->model.tokenizer, text, strlen(text), true, ids, MAX_IDS, &n, &error), &error);
  assert_true(n <= MAX_IDS);
  return n;
}

/* A token for each byte, so that borders lie everywhere. */
static size_t byte_ids(const struct fixture *fixture, const char *text, int32_t ids[MAX_IDS]) {
  size_t n = 0;
  for (; text[n]; n++) {
    ids[n] = -1;
    for (int32_t id = 0; id < 520; id++) {
      char bytes[64];
      size_t size;
      struct omma_error error;
      assert_ok(ommai_tokenizer_decode(fixture->model.tokenizer, &id, 1, true, bytes, sizeof bytes, &size, &error), &error);
      if (size == 1 && bytes[0] == text[n]) ids[n] = id;
    }
    assert_true(ids[n] >= 0);
  }
  return n;
}

struct shown {
  char text[MAX_TEXT];
  size_t size;
  char reasoning[MAX_TEXT];
  size_t reasoning_size;
  int64_t n_reasoning;
  int stop_index;
  size_t n_tokens; /* pushed until a stop string was met, or all */
};

static void show(struct shown *shown, const struct ommai_answer_text *answer) {
  size_t reasoning = ommai_answer_text_reasoning(answer), rest = answer->n_ready - reasoning;
  assert_true(answer->n_ready <= answer->n_held && answer->n_held <= OMMAI_ANSWER_CAPACITY);
  assert_true(shown->size + rest <= MAX_TEXT && shown->reasoning_size + reasoning <= MAX_TEXT);
  assert_true(reasoning == 0 || shown->size == 0); /* the reasoning goes first */
  memcpy(shown->reasoning + shown->reasoning_size, answer->held, reasoning);
  memcpy(shown->text + shown->size, answer->held + reasoning, rest);
  shown->reasoning_size += reasoning;
  shown->size += rest;
  shown->n_reasoning = answer->reasoning.n_tokens;
}

/* Runs ids as the engine does: show after each push; the last one is finished first. */
static void run(const struct fixture *fixture, const int32_t *ids, size_t n, size_t min_tokens, struct shown *shown) {
  struct ommai_answer_text answer;
  *shown = (struct shown){.stop_index = -1};
  ommai_answer_text_init(&answer, &fixture->request);
  while (shown->n_tokens < n && answer.stop_index < 0) {
    ommai_answer_text_push(&answer, ids[shown->n_tokens], shown->n_tokens + 1 > min_tokens);
    shown->n_tokens++;
    if (answer.stop_index >= 0 || shown->n_tokens == n) ommai_answer_text_finish(&answer);
    show(shown, &answer);
  }
  shown->stop_index = answer.stop_index;
}

static void expect_shown(const struct shown *shown, const char *text, int stop_index) {
  if (shown->size != strlen(text) || memcmp(shown->text, text, shown->size) != 0 || shown->stop_index != stop_index) {
    fail_msg("shown \"%.*s\" (stop %d), expected \"%s\" (stop %d)", (int)shown->size, shown->text, shown->stop_index, text,
             stop_index);
  }
}

static void stop_strings_cut_across_tokens(void **state) {
  (void)state;
  struct fixture fixture;
  struct shown shown;
  int32_t ids[MAX_IDS];
  const struct {
    const char *text, *stops[4], *expected;
    int stop_index;
  } cases[] = {
      {"one two three", {NULL}, "one two three", -1},
      {"one two three", {"two", NULL}, "one ", 0},
      {"one two three", {"e t", NULL}, "on", 0},
      {"one two three", {"one", NULL}, "", 0},
      {"one two three", {"three", NULL}, "one two ", 0},
      /* the beginning of a stop string is given out in the end */
      {"one two three", {"three.", NULL}, "one two three", -1},
      {"one two three", {"x", "o th", NULL}, "one tw", 1},
      {"abababac", {"ababac", NULL}, "ab", 0},
      {"aaaab", {"aab", NULL}, "aa", 0},
      {"aaaa", {"aab", NULL}, "aaaa", -1},
      {"xyz end", {"yz e", "z", NULL}, "xy", 1}, /* the one that is complete first */
      {"xyz end", {"z", "yz", NULL}, "x", 1},    /* the longer of two that end together */
      {"caf\xc3\xa9 \xe2\x82\xac 5", {"\xe2\x82\xac", NULL}, "caf\xc3\xa9 ", 0},
  };
  set_up(&fixture);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    set_stops(&fixture, cases[i].stops);
    run(&fixture, ids, byte_ids(&fixture, cases[i].text, ids), 0, &shown);
    expect_shown(&shown, cases[i].expected, cases[i].stop_index);
  }
  tear_down(&fixture);
}

static void no_stop_before_min_tokens(void **state) {
  (void)state;
  struct fixture fixture;
  struct shown shown;
  int32_t ids[MAX_IDS];
  set_up(&fixture);
  set_stops(&fixture, (const char *const[]){"a", NULL});
  size_t n = ids_of(&fixture, "a b a b a", ids);
  run(&fixture, ids, n, 0, &shown);
  assert_int_equal(shown.size, 0);
  assert_int_equal(shown.n_tokens, 1);
  run(&fixture, ids, n, 1, &shown);
  assert_int_equal(shown.stop_index, 0);
  assert_true(shown.size > 1 && shown.text[0] == 'a' && shown.n_tokens > 1);
  run(&fixture, ids, n, n, &shown); /* the end comes before a stop is allowed: nothing is cut off */
  expect_shown(&shown, "a b a b a", -1);
  /* one that begins before min_tokens and ends after them; one that lies wholly before */
  set_stops(&fixture, (const char *const[]){"xyz", "ab", NULL});
  run(&fixture, ids, byte_ids(&fixture, "ab xyz", ids), 5, &shown);
  expect_shown(&shown, "ab ", 0);
  set_stops(&fixture, (const char *const[]){"abcd", "bc", NULL});
  run(&fixture, ids, byte_ids(&fixture, "abcx bc", ids), 3, &shown);
  expect_shown(&shown, "abcx ", 1);
  tear_down(&fixture);
}

/* Of several stop strings that one token completes, the one that ends first. */
static void the_stop_that_ends_first_counts(void **state) {
  (void)state;
  struct fixture fixture;
  struct shown shown;
  int32_t ids[MAX_IDS];
  set_up(&fixture);
  size_t n = ids_of(&fixture, "The", ids); /* one token */
  assert_int_equal(n, 1);
  set_stops(&fixture, (const char *const[]){"The", "h", NULL});
  run(&fixture, ids, n, 0, &shown);
  expect_shown(&shown, "T", 1);
  tear_down(&fixture);
}

/* The text that the stream of tokens makes, and where the first complete stop string stands; -1:
 * nowhere. */
static int reference(const struct fixture *fixture, const int32_t *ids, size_t n, struct shown *out) {
  struct ommai_detokenizer detokenizer = {0};
  const struct omma_request *request = &fixture->request;
  *out = (struct shown){.stop_index = -1};
  for (size_t i = 0; i < n; i++) {
    out->size += ommai_detokenizer_push(&detokenizer, fixture->model.tokenizer, ids[i], true, out->text + out->size);
    out->n_tokens++;
    size_t first = out->size;
    for (size_t end = 1; end <= out->size && out->stop_index < 0; end++) {
      for (size_t s = 0; s < request->n_stop; s++) {
        size_t size = request->stop_size[s];
        if (size > end || memcmp(out->text + end - size, request->stop[s], size) != 0 || end - size >= first) continue;
        first = end - size;
        out->stop_index = (int)s;
      }
    }
    if (out->stop_index >= 0) {
      out->size = first;
      return out->stop_index;
    }
  }
  out->size += ommai_detokenizer_flush(&detokenizer, out->text + out->size);
  return -1;
}

/* Tokens of a few letters, spaces and pieces of characters; stop strings of the same, so that they
 * meet and overlap often. */
static void random_streams_equal_the_whole_text(void **state) {
  (void)state;
  struct fixture fixture;
  set_up(&fixture);
  struct test_random random = {2024};
  int n_stopped = 0;
  for (int trial = 0; trial < 3000; trial++) {
    int32_t ids[MAX_IDS];
    char stops[3][8];
    const char *list[4] = {NULL};
    size_t n = (size_t)test_random_range(&random, 1, MAX_IDS), n_stops = (size_t)test_random_range(&random, 0, 3);
    bool letters = trial % 2;
    for (size_t i = 0; i < n; i++) {
      char letter[2] = {(char)('a' + test_random_range(&random, 0, 2)), 0};
      int32_t id[MAX_IDS];
      if (letters) {
        assert_int_equal(ids_of(&fixture, letter, id), 1);
        ids[i] = id[0];
      } else {
        ids[i] = (int32_t)test_random_range(&random, 0, 530);
      }
    }
    for (size_t s = 0; s < n_stops; s++) {
      size_t size = (size_t)test_random_range(&random, 1, 6);
      for (size_t i = 0; i < size; i++) stops[s][i] = (char)('a' + test_random_range(&random, 0, letters ? 2 : 25));
      stops[s][size] = '\0';
      list[s] = stops[s];
    }
    set_stops(&fixture, list);
    struct shown shown, expected;
    run(&fixture, ids, n, 0, &shown);
    n_stopped += reference(&fixture, ids, n, &expected) >= 0;
    assert_int_equal(shown.stop_index, expected.stop_index);
    assert_int_equal(shown.n_tokens, expected.n_tokens);
    assert_int_equal(shown.size, expected.size);
    assert_memory_equal(shown.text, expected.text, shown.size);
  }
  assert_in_range(n_stopped, 300, 2700);
  tear_down(&fixture);
}

/* What is shown is whole characters at every moment; an unfinished one comes as U+FFFD at the
 * end. */
static void characters_are_never_split(void **state) {
  (void)state;
  struct fixture fixture;
  struct ommai_answer_text answer;
  int32_t ids[MAX_IDS];
  set_up(&fixture);
  /* no merges for it in this small vocabulary: a token per byte */
  size_t n = ids_of(&fixture, "\xe2\x82\xac", ids);
  assert_int_equal(n, 3);
  ommai_answer_text_init(&answer, &fixture.request);
  ommai_answer_text_push(&answer, ids[0], true);
  assert_int_equal(answer.n_ready, 0);
  ommai_answer_text_push(&answer, ids[1], true);
  assert_int_equal(answer.n_ready, 0);
  ommai_answer_text_push(&answer, ids[2], true);
  assert_int_equal(answer.n_ready, 3);
  assert_memory_equal(answer.held, "\xe2\x82\xac", 3);
  ommai_answer_text_push(&answer, ids[0], true);
  assert_int_equal(answer.n_ready, 0);
  ommai_answer_text_finish(&answer);
  assert_int_equal(answer.n_ready, 3);
  assert_memory_equal(answer.held, "\xef\xbf\xbd", 3);
  tear_down(&fixture);
}

/* The longest stop string there may be, after the longest token there may be, fits. */
static void the_longest_stop_string_is_held_back(void **state) {
  (void)state;
  static char stop[OMMAI_REQUEST_MAX_STOP_BYTES + 1];
  struct fixture fixture;
  struct ommai_answer_text answer;
  int32_t ids[MAX_IDS];
  set_up(&fixture);
  memset(stop, 'a', OMMAI_REQUEST_MAX_STOP_BYTES);
  stop[OMMAI_REQUEST_MAX_STOP_BYTES - 1] = 'b';
  set_stops(&fixture, (const char *const[]){stop, NULL});
  assert_int_equal(ids_of(&fixture, "a", ids), 1);
  ommai_answer_text_init(&answer, &fixture.request);
  size_t size = 0;
  for (int i = 0; i < 3000; i++) {
    ommai_answer_text_push(&answer, ids[0], true);
    size += answer.n_ready;
    assert_true(answer.n_held <= OMMAI_ANSWER_CAPACITY);
  }
  assert_int_equal(size, 3000 - (OMMAI_REQUEST_MAX_STOP_BYTES - 1));
  ommai_answer_text_finish(&answer);
  assert_int_equal(answer.n_ready, OMMAI_REQUEST_MAX_STOP_BYTES - 1 + 1);
  tear_down(&fixture);
}

/* ---- reasoning ---- */

static void set_reasoning(struct fixture *fixture, const char *begin, const char *end) {
  const struct omma_reasoning reasoning = {begin, end, NULL, NULL};
  const struct omma_sampling sampling = {.reasoning = &reasoning};
  struct omma_error error;
  assert_ok(ommai_reasoning_rules_take(&fixture->request.reasoning, &fixture->model, &sampling, &error), &error);
  fixture->request.reasoning.open = true;
}

static void expect_reasoning(const struct shown *shown, const char *reasoning) {
  if (shown->reasoning_size != strlen(reasoning) || memcmp(shown->reasoning, reasoning, shown->reasoning_size) != 0) {
    fail_msg("reasoning \"%.*s\", expected \"%s\"", (int)shown->reasoning_size, shown->reasoning, reasoning);
  }
}

static const struct {
  const char *text, *stop, *reasoning, *rest;
  int stop_index;
} reasoning_cases[] = {
    {"two</t>Two.", NULL, "two", "Two.", -1},
    {"<t>two</t>Two.", NULL, "two", "Two.", -1},
    {" \n<t>two</t>Two.", NULL, "two", "Two.", -1},
    {"  two</t>Two.", NULL, "  two", "Two.", -1},
    {"</t>Two.", NULL, "", "Two.", -1},
    {"<t></t>", NULL, "", "", -1},
    {"<t>never ends", NULL, "never ends", "", -1},
    {"never ends</", NULL, "never ends</", "", -1},
    {"<", NULL, "<", "", -1},
    {"a<t>b</t>c</t>d<t>", NULL, "ab", "c</t>d<t>", -1},
    {"</</t>a", NULL, "</", "a", -1},
    {"ab</t>cd", "bc", "ab", "cd", -1}, /* a stop string does not reach over the mark */
    {"ab</t>cd", "</t>", "ab", "", 0},
    {"ab</t>cd", "b</", "a", "", 0},
    {"ab</t>cd", "t>c", "ab", "cd", -1}, /* nor out of it */
    {"ab</t>cd", "d", "ab", "c", 0},
    {"<t>ab</t>cd", "<t>", "", "", 0},
};

static void reasoning_is_separated(void **state) {
  (void)state;
  struct fixture fixture;
  struct shown shown;
  int32_t ids[MAX_IDS];
  set_up(&fixture);
  set_reasoning(&fixture, "<t>", "</t>");
  for (size_t i = 0; i < sizeof reasoning_cases / sizeof *reasoning_cases; i++) {
    set_stops(&fixture, (const char *const[]){reasoning_cases[i].stop, NULL});
    run(&fixture, ids, byte_ids(&fixture, reasoning_cases[i].text, ids), 0, &shown);
    expect_shown(&shown, reasoning_cases[i].rest, reasoning_cases[i].stop_index);
    expect_reasoning(&shown, reasoning_cases[i].reasoning);
    if (reasoning_cases[i].stop) continue;
    /* several bytes a token */
    run(&fixture, ids, ids_of(&fixture, reasoning_cases[i].text, ids), 0, &shown);
    expect_shown(&shown, reasoning_cases[i].rest, -1);
    expect_reasoning(&shown, reasoning_cases[i].reasoning);
  }
  tear_down(&fixture);
}

/* A call of a tool ends reasoning whose end mark is missing, and is the answer. */
static void reasoning_ends_where_the_answer_begins(void **state) {
  (void)state;
  static const struct {
    const char *text, *reasoning, *rest;
  } cases[] = {{"<t>ab<call>{}", "ab", "<call>{}"},
               {"ab<call>{}</t>c", "ab", "<call>{}</t>c"},
               {"ab</t>c<call>{}", "ab", "c<call>{}"},
               {"<call>{}", "", "<call>{}"},
               {"ab<cal", "ab<cal", ""},
               {"ab<c<call>", "ab<c", "<call>"}};
  const struct omma_reasoning reasoning = {"<t>", "</t>", NULL, "<call>"};
  const struct omma_sampling sampling = {.reasoning = &reasoning};
  struct fixture fixture;
  struct shown shown;
  struct omma_error error;
  int32_t ids[MAX_IDS];
  set_up(&fixture);
  assert_ok(ommai_reasoning_rules_take(&fixture.request.reasoning, &fixture.model, &sampling, &error), &error);
  fixture.request.reasoning.open = true;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    run(&fixture, ids, byte_ids(&fixture, cases[i].text, ids), 0, &shown);
    expect_shown(&shown, cases[i].rest, -1);
    expect_reasoning(&shown, cases[i].reasoning);
    run(&fixture, ids, ids_of(&fixture, cases[i].text, ids), 0, &shown);
    expect_shown(&shown, cases[i].rest, -1);
    expect_reasoning(&shown, cases[i].reasoning);
  }
  tear_down(&fixture);
}

static void marks_may_be_longer_than_a_character(void **state) {
  (void)state;
  struct fixture fixture;
  struct shown shown;
  int32_t ids[MAX_IDS];
  set_up(&fixture);
  set_reasoning(&fixture, "\xe2\x97\x81t\xe2\x96\xb7", "\xe2\x97\x81/t\xe2\x96\xb7");
  run(&fixture, ids,
      ids_of(&fixture,
             "\xe2\x97\x81t\xe2\x96\xb7"
             "a \xe2\x97\x81"
             "b\xe2\x97\x81/t\xe2\x96\xb7"
             "c",
             ids),
      0, &shown);
  expect_shown(&shown, "c", -1);
  expect_reasoning(&shown,
                   "a \xe2\x97\x81"
                   "b");
  tear_down(&fixture);
}

/* With a grammar the answer begins after the token that completes the mark. */
static void a_grammar_begins_after_the_marks_token(void **state) {
  (void)state;
  struct fixture fixture;
  struct ommai_answer_text answer;
  static struct omma_grammar grammar;
  int32_t ids[MAX_IDS];
  set_up(&fixture);
  set_reasoning(&fixture, "<t>", "a");
  size_t n = ids_of(&fixture, "are", ids);
  for (size_t i = 0; i < 2; i++) {
    fixture.request.grammar = i ? &grammar : NULL;
    ommai_answer_text_init(&answer, &fixture.request);
    for (size_t j = 0; j < n; j++) {
      ommai_answer_text_push(&answer, ids[j], true);
      if (j == 0) assert_int_equal(answer.reasoning.stage, OMMAI_REASONING_OVER);
      if (j == 0 && n == 1) assert_int_equal(answer.n_ready, i ? 0 : 2);
    }
    assert_int_equal(answer.reasoning.n_tokens, 1);
  }
  tear_down(&fixture);
}

static void reasoning_is_ended_when_its_budget_is_used_up(void **state) {
  (void)state;
  struct fixture fixture;
  struct ommai_answer_text answer;
  const struct omma_reasoning reasoning = {"<t>", "</t>", " Enough.</t>", NULL};
  struct omma_error error;
  int32_t ids[MAX_IDS];
  set_up(&fixture);
  size_t n = byte_ids(&fixture, "<t>abcdef", ids);
  for (int64_t budget = 0; budget <= 4; budget++) {
    const struct omma_sampling sampling = {.reasoning = &reasoning, .limits_thinking = true, .max_thinking_tokens = budget};
    struct shown shown = {.stop_index = -1};
    assert_ok(ommai_reasoning_rules_take(&fixture.request.reasoning, &fixture.model, &sampling, &error), &error);
    fixture.request.reasoning.open = true;
    ommai_answer_text_init(&answer, &fixture.request);
    for (size_t i = 0; answer.reasoning.stage != OMMAI_REASONING_OVER;) {
      int32_t forced = ommai_reasoning_forced_token(&answer.reasoning, &fixture.request.reasoning);
      assert_true(forced >= 0 || i < n);
      ommai_answer_text_push(&answer, forced >= 0 ? forced : ids[i++], true);
      show(&shown, &answer);
    }
    /* The mark's own tokens count until it is complete, and not after it. */
    char expected[64];
    snprintf(expected, sizeof expected, "%.*s Enough.", (int)budget, budget < 3 ? "<t>" : "abcd");
    expect_reasoning(&shown, expected);
    assert_int_equal(shown.n_reasoning, (budget < 3 ? budget : budget + 3) + (int64_t)fixture.request.reasoning.n_forced);
  }
  tear_down(&fixture);
}

static void bad_rules_are_refused(void **state) {
  (void)state;
  static char long_mark[OMMA_MAX_MARK_BYTES + 2];
  struct fixture fixture;
  struct omma_error error;
  set_up(&fixture);
  memset(long_mark, 'x', OMMA_MAX_MARK_BYTES + 1);
  const struct {
    struct omma_reasoning reasoning;
    int64_t budget;
    const char *part;
  } cases[] = {{{"", "b", NULL, NULL}, 1, "begin"},
               {{"a", NULL, NULL, NULL}, 1, "end"},
               {{long_mark, "b", NULL, NULL}, 1, "found 65"},
               {{"a", "b", "stop", NULL}, 1, "with the mark b"},
               {{"a", "b",
                 "\xff"
                 "b",
                 NULL},
                1,
                "UTF-8"},
               {{"a", "b", NULL, NULL}, -2, "thinking_token_budget"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct omma_sampling sampling = {
        .reasoning = &cases[i].reasoning, .limits_thinking = true, .max_thinking_tokens = cases[i].budget};
    enum omma_status status = ommai_reasoning_rules_take(&fixture.request.reasoning, &fixture.model, &sampling, &error);
    assert_int_not_equal(status, OMMA_OK);
    assert_non_null(strstr(error.message, cases[i].part));
  }
  tear_down(&fixture);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stop_strings_cut_across_tokens),
      cmocka_unit_test(no_stop_before_min_tokens),
      cmocka_unit_test(the_stop_that_ends_first_counts),
      cmocka_unit_test(random_streams_equal_the_whole_text),
      cmocka_unit_test(characters_are_never_split),
      cmocka_unit_test(the_longest_stop_string_is_held_back),
      cmocka_unit_test(reasoning_is_separated),
      cmocka_unit_test(reasoning_ends_where_the_answer_begins),
      cmocka_unit_test(marks_may_be_longer_than_a_character),
      cmocka_unit_test(a_grammar_begins_after_the_marks_token),
      cmocka_unit_test(reasoning_is_ended_when_its_budget_is_used_up),
      cmocka_unit_test(bad_rules_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
