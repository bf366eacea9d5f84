/* Beginnings that prompts share: which one is found, where it ends, which one gives way. */
#include "engine/beginnings.h"

#include "request/request.h"
#include "support/test.h"

enum { PAGE = OMMA_ATTENTION_PAGE_TOKENS, MAX_TOKENS = 2 * PAGE };

struct prompt {
  struct ommai_prompt_token tokens[MAX_TOKENS];
  struct omma_request request;
};

/* n tokens of text, of which those from `own` on are no other prompt's. */
static void write_prompt(struct prompt *prompt, int64_t n, int64_t own, int32_t name) {
  memset(prompt, 0, sizeof *prompt);
  for (int32_t i = 0; i < n; i++) {
    prompt->tokens[i] = (struct ommai_prompt_token){
        .token = i < own ? i : MAX_TOKENS * name + i, .position = {i, i, i}, .image = -1, .image_row = -1};
  }
  prompt->request.tokens = prompt->tokens;
  prompt->request.n_tokens = (size_t)n;
}

/* With a token of an image, the first one, in place of the text's. */
static void put_image(struct prompt *prompt, int64_t at) { prompt->tokens[at].image = prompt->tokens[at].image_row = 0; }

static void expect(struct ommai_beginnings *beginnings, const struct prompt *prompt, int64_t n, int kept) {
  struct ommai_beginning *found;
  assert_int_equal(ommai_beginnings_find(beginnings, &prompt->request, &found), n);
  assert_ptr_equal(found, kept < 0 ? NULL : &beginnings->kept[kept]);
}

static void the_longest_beginning_is_found(void **state) {
  (void)state;
  static struct ommai_beginnings beginnings;
  static struct prompt prompt;
  write_prompt(&prompt, 40, 40, 1);
  expect(&beginnings, &prompt, 0, -1);
  for (int i = 0; i < OMMAI_MAX_BEGINNINGS; i++) {
    write_prompt(&prompt, 40, 10 + 5 * i, i + 1);
    assert_ptr_equal(ommai_beginnings_keep(&beginnings, &prompt.request), &beginnings.kept[i]);
  }
  for (int i = 0; i < OMMAI_MAX_BEGINNINGS; i++) {
    write_prompt(&prompt, 60, 10 + 5 * i, i + 1);
    expect(&beginnings, &prompt, 40, i);
  }
  write_prompt(&prompt, 60, 60, 0);
  expect(&beginnings, &prompt, 10 + 5 * (OMMAI_MAX_BEGINNINGS - 1), OMMAI_MAX_BEGINNINGS - 1);
  write_prompt(&prompt, 60, OMMAI_MIN_BEGINNING, 9);
  expect(&beginnings, &prompt, OMMAI_MIN_BEGINNING, 0); /* all have it: the first */
  write_prompt(&prompt, 60, OMMAI_MIN_BEGINNING - 1, 9);
  expect(&beginnings, &prompt, 0, -1);
}

static void a_beginning_ends(void **state) {
  (void)state;
  static struct ommai_beginnings beginnings;
  static struct prompt prompt;
  write_prompt(&prompt, MAX_TOKENS, MAX_TOKENS, 0);
  assert_int_equal(ommai_beginnings_keep(&beginnings, &prompt.request)->n_tokens, PAGE);
  expect(&beginnings, &prompt, PAGE, 0);
  /* before the prompt's last token, which is computed in any case */
  write_prompt(&prompt, OMMAI_MIN_BEGINNING + 1, MAX_TOKENS, 0);
  expect(&beginnings, &prompt, OMMAI_MIN_BEGINNING, 0);
  write_prompt(&prompt, OMMAI_MIN_BEGINNING, MAX_TOKENS, 0);
  expect(&beginnings, &prompt, 0, -1);
  /* before an image, of either prompt */
  write_prompt(&prompt, MAX_TOKENS, MAX_TOKENS, 0);
  put_image(&prompt, 20);
  expect(&beginnings, &prompt, 20, 0);
  put_image(&prompt, 15);
  assert_int_equal(ommai_beginnings_keep(&beginnings, &prompt.request)->n_tokens, 15);
  beginnings.kept[0].n_tokens = 0; /* dropped */
  write_prompt(&prompt, MAX_TOKENS, MAX_TOKENS, 0);
  expect(&beginnings, &prompt, 15, 1);
  /* where the same tokens stand elsewhere */
  prompt.tokens[12].position[2]++;
  expect(&beginnings, &prompt, 12, 1);
}

static void what_was_used_last_stays(void **state) {
  (void)state;
  static struct ommai_beginnings beginnings;
  static struct prompt prompt;
  for (int i = 0; i < OMMAI_MAX_BEGINNINGS; i++) {
    write_prompt(&prompt, 40, 0, i + 1);
    (void)ommai_beginnings_keep(&beginnings, &prompt.request);
  }
  write_prompt(&prompt, 40, 0, 1);
  expect(&beginnings, &prompt, 39, 0);
  write_prompt(&prompt, 40, 0, 10);
  assert_ptr_equal(ommai_beginnings_keep(&beginnings, &prompt.request), &beginnings.kept[1]);
  write_prompt(&prompt, 40, 0, 11);
  assert_ptr_equal(ommai_beginnings_keep(&beginnings, &prompt.request), &beginnings.kept[2]);
}

static void two_prompts_in_a_row_are_compared(void **state) {
  (void)state;
  static struct ommai_beginnings beginnings;
  static struct prompt prompt;
  write_prompt(&prompt, 40, 30, 1);
  assert_int_equal(ommai_beginnings_see(&beginnings, &prompt.request), 0);
  write_prompt(&prompt, 40, 20, 2);
  assert_int_equal(ommai_beginnings_see(&beginnings, &prompt.request), 20);
  write_prompt(&prompt, 40, 30, 3);
  assert_int_equal(ommai_beginnings_see(&beginnings, &prompt.request), 20);
  write_prompt(&prompt, 40, 30, 4);
  assert_int_equal(ommai_beginnings_see(&beginnings, &prompt.request), 30);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_longest_beginning_is_found),
      cmocka_unit_test(a_beginning_ends),
      cmocka_unit_test(what_was_used_last_stays),
      cmocka_unit_test(two_prompts_in_a_row_are_compared),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
