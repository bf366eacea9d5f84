/* Drafts of the next tokens: where they are looked up, how many there are, when they pause. That
 * they change no answer, other tests show. */
#include "engine/draft.h"

#include "engine/decode_lane.h"
#include "engine/sequence.h"
#include "support/test.h"

enum { MAX_TEXT = 64, UNTOUCHED = -7 };

static struct ommai_resources resources;
static struct omma_request request;
static struct ommai_sequence sequence;
static int32_t text[MAX_TEXT];
static struct ommai_prompt_token tokens[MAX_TEXT];

/* A prompt and an answer that are these digits, a token each; "#" is an image's. */
static void write_text(const char *prompt, const char *answer) {
  size_t n_prompt = strlen(prompt), n_answer = strlen(answer);
  memset(&sequence, 0, sizeof sequence);
  for (size_t i = 0; i < n_prompt + n_answer; i++) text[i] = i < n_prompt ? prompt[i] : answer[i - n_prompt];
  for (size_t i = 0; i < n_prompt; i++) tokens[i].image = prompt[i] == '#' ? 0 : -1;
  request.ids = text;
  request.tokens = tokens;
  request.n_tokens = n_prompt;
  sequence.request = &request;
  sequence.resources = &resources;
  sequence.generated = text + n_prompt;
  sequence.n_generated = (int64_t)n_answer;
}

static void expect_tokens(int64_t n, const int32_t *drafted, const char *expected) {
  assert_int_equal(n, strlen(expected));
  for (int64_t i = 0; i < n; i++) assert_int_equal(drafted[i], expected[i]);
  assert_int_equal(drafted[n], UNTOUCHED);
}

static void expect_draft(const char *prompt, const char *answer, int64_t max_tokens, const char *expected) {
  int32_t drafted[MAX_TEXT];
  for (int i = 0; i < MAX_TEXT; i++) drafted[i] = UNTOUCHED;
  write_text(prompt, answer);
  expect_tokens(ommai_draft_look_up(&sequence, max_tokens, drafted), drafted, expected);
}

static void the_longest_run_is_followed(void **state) {
  (void)state;
  resources.sizes.lookup_min = 2;
  resources.sizes.lookup_max = 3;
  expect_draft("12349", "123", 5, "49123");
  expect_draft("12349", "123", 2, "49");
  expect_draft("12349", "123", 0, "");
  expect_draft("12512612", "", 3, "612");       /* the latest of equally long ones */
  expect_draft("0127512", "8012", 1, "7");      /* a longer one further up */
  expect_draft("90123940123", "50123", 1, "5"); /* of more than lookup_max the latest too */
  expect_draft("13452", "2", 5, "");            /* one token is too few */
  expect_draft("", "1212", 5, "12");
  expect_draft("", "1", 5, "");
  expect_draft("", "", 5, "");
}

/* Those whose rows, with all that was drafted, a draw has room for. */
static void rows_that_are_drawn_together_fit(void **state) {
  (void)state;
  struct ommai_decode_entry entries[] = {{.first_row = 0, .n_draft = 1},
                                         {.first_row = 2, .n_draft = 1},
                                         {.first_row = 4, .n_draft = 3},
                                         {.first_row = 8, .n_draft = 3},
                                         {.first_row = 12, .n_draft = 4}};
  resources.sizes.facts.draw_rows = 8;
  const struct ommai_decode_lane lane = {.resources = &resources, .entries = entries};
  assert_int_equal(ommai_decode_lane_group(&lane, 0, 5), 3);
  assert_int_equal(ommai_decode_lane_group(&lane, 0, 2), 2);
  assert_int_equal(ommai_decode_lane_group(&lane, 2, 5), 4);
  /* the last row of the next would be the ninth */
  assert_int_equal(ommai_decode_lane_group(&lane, 3, 5), 4);
}

/* Images have tokens, of which none is drafted. */
static void images_end_a_draft(void **state) {
  (void)state;
  resources.sizes.lookup_min = resources.sizes.lookup_max = 2;
  expect_draft("12#12", "", 5, "");
  expect_draft("123#4", "12", 5, "3");
}

static void drafts_of_the_head_are_those_after_the_last_token(void **state) {
  (void)state;
  static const int64_t most[] = {-1, 0, 1, 2, 3, 4};
  write_text("12", "34");
  sequence.head_draft = (struct ommai_head_draft){.after = 2, .n = 3, .tokens = {'5', '6', '7', '8'}};
  for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
    int32_t drafted[OMMA_MAX_DRAFT_TOKENS + 1];
    char expected[4] = "567";
    for (int j = 0; j <= OMMA_MAX_DRAFT_TOKENS; j++) drafted[j] = UNTOUCHED;
    if (most[i] < 3) expected[most[i] < 0 ? 0 : most[i]] = '\0';
    expect_tokens(ommai_draft_of_head(&sequence, most[i], drafted), drafted, expected);
    sequence.n_generated = 1;
    assert_int_equal(ommai_draft_of_head(&sequence, most[i], drafted), 0);
    sequence.n_generated = 2;
  }
}

/* For 32 steps when less than a quarter of the tokens were right. */
static void drafts_pause(void **state) {
  (void)state;
  int32_t drafted[MAX_TEXT];
  int n_wrong = 0, n_pauses = 0;
  resources.sizes.lookup_min = resources.sizes.lookup_max = 2;
  write_text("12349", "12");
  for (int i = 0; i < 100; i++) ommai_draft_record_hits(&sequence.draft, 4, 1); /* a quarter */
  assert_int_equal(ommai_draft_look_up(&sequence, 2, drafted), 2);
  for (; ommai_draft_look_up(&sequence, 2, drafted); n_wrong++) {
    assert_true(n_wrong < 20);
    ommai_draft_record_hits(&sequence.draft, 2, 0);
  }
  assert_true(n_wrong > 0);
  for (n_pauses = 1; !ommai_draft_look_up(&sequence, 2, drafted); n_pauses++) assert_true(n_pauses < 100);
  assert_int_equal(n_pauses, 32);
  ommai_draft_record_hits(&sequence.draft, 0, 0); /* nothing was drafted: nothing was wrong */
  assert_int_equal(ommai_draft_look_up(&sequence, 2, drafted), 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_longest_run_is_followed),
      cmocka_unit_test(rows_that_are_drawn_together_fit),
      cmocka_unit_test(images_end_a_draft),
      cmocka_unit_test(drafts_of_the_head_are_those_after_the_last_token),
      cmocka_unit_test(drafts_pause),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
