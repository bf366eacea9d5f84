/* Tokenizers in lists: refusals by entry. Their ids are compared in test_gguf_model.c. */
#include <math.h>
#include <stdio.h>

#include "base/allocator.h"
#include "support/test.h"
#include "text/tokenizer.h"

enum { MAX_ENTRIES = 300 };

/* Every byte's token in the byte alphabet, then what a test adds. */
struct lists {
  char spelled[256][4];
  struct ommai_listed_text tokens[MAX_ENTRIES], merges[8];
  enum ommai_listed_kind kinds[MAX_ENTRIES];
  size_t n_tokens, n_merges;
};

static void add(struct lists *lists, const char *text, enum ommai_listed_kind kind) {
  lists->tokens[lists->n_tokens] = (struct ommai_listed_text){text, strlen(text)};
  lists->kinds[lists->n_tokens++] = kind;
}

static void merge(struct lists *lists, const char *text) {
  lists->merges[lists->n_merges++] = (struct ommai_listed_text){text, strlen(text)};
}

static void begin(struct lists *lists) {
  int others = 256;
  *lists = (struct lists){.n_tokens = 0};
  for (int byte = 0; byte < 256; byte++) {
    bool plain = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    int point = plain ? byte : others++;
    if (point < 0x80) {
      lists->spelled[byte][0] = (char)point;
    } else {
      lists->spelled[byte][0] = (char)(0xc0 | point >> 6);
      lists->spelled[byte][1] = (char)(0x80 | (point & 0x3f));
    }
    add(lists, lists->spelled[byte], OMMAI_LISTED_NORMAL);
  }
}

static enum omma_status make(const struct lists *lists, bool ranks, struct ommai_tokenizer **tokenizer,
                             struct omma_error *error) {
  const struct ommai_token_list list = {.name = "list",
                                        .n_tokens = lists->n_tokens,
                                        .tokens = lists->tokens,
                                        .kinds = lists->kinds,
                                        .n_merges = lists->n_merges,
                                        .merges = lists->merges,
                                        .ranks = ranks,
                                        .pattern = "\\s+|\\S+"};
  *tokenizer = NULL;
  return ommai_tokenizer_make(&list, &ommai_default_allocator, tokenizer, error);
}

static void expect_ids(const struct lists *lists, bool ranks, const char *text, const int32_t *expected, size_t n) {
  struct ommai_tokenizer *tokenizer;
  struct omma_error error;
  int32_t ids[64];
  size_t count;
  assert_ok(make(lists, ranks, &tokenizer, &error), &error);
  assert_ok(ommai_tokenizer_encode(tokenizer, text, strlen(text), true, ids, 64, &count, &error), &error);
  assert_int_equal(count, n);
  assert_memory_equal(ids, expected, n * sizeof *ids);
  ommai_tokenizer_destroy(tokenizer);
}

static void expect_refused(const struct lists *lists, bool ranks, enum omma_status expected, const char *part) {
  struct ommai_tokenizer *tokenizer;
  struct omma_error error;
  assert_fails(make(lists, ranks, &tokenizer, &error), expected, part, &error);
  assert_null(tokenizer);
}

static void makes_tokens(void **state) {
  (void)state;
  static struct lists lists;
  begin(&lists);
  add(&lists, "ab", OMMAI_LISTED_NORMAL);  /* 256 */
  add(&lists, "abc", OMMAI_LISTED_NORMAL); /* 257 */
  add(&lists, "[PAD258]", OMMAI_LISTED_UNUSED);
  add(&lists, "<|end|>", OMMAI_LISTED_SPECIAL); /* 259 */
  add(&lists, "<tool>", OMMAI_LISTED_ADDED);    /* 260 */
  merge(&lists, "a b");
  merge(&lists, "ab c");
  expect_ids(&lists, false, "abc<|end|>ab<tool>", (const int32_t[]){257, 259, 256, 260}, 4);
  lists.tokens[258] = (struct ommai_listed_text){NULL, 0}; /* padding is not looked at */
  expect_ids(&lists, false, "ab", (const int32_t[]){256}, 1);
  expect_ids(&lists, true, "abcab", (const int32_t[]){257, 256}, 2);
}

/* Where text is joined by scores: <0xHH> for every byte, the mark, letters. */
static enum omma_status make_scored(const float *scores, struct ommai_tokenizer **tokenizer, struct omma_error *error) {
  static char bytes[256][8];
  static struct lists lists;
  static const char *const pieces[] = {"\xE2\x96\x81",
                                       "a",
                                       "b",
                                       "c",
                                       "ab",
                                       "bc",
                                       "abc",
                                       "\xE2\x96\x81"
                                       "a"};
  lists = (struct lists){.n_tokens = 0};
  for (int byte = 0; byte < 256; byte++) {
    snprintf(bytes[byte], sizeof bytes[byte], "<0x%02X>", byte);
    add(&lists, bytes[byte], OMMAI_LISTED_NORMAL);
  }
  for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) add(&lists, pieces[i], OMMAI_LISTED_NORMAL);
  add(&lists, "</s>", OMMAI_LISTED_SPECIAL);
  const struct ommai_token_list list = {
      .name = "list", .n_tokens = lists.n_tokens, .tokens = lists.tokens, .kinds = lists.kinds, .scores = scores};
  *tokenizer = NULL;
  return ommai_tokenizer_make(&list, &ommai_default_allocator, tokenizer, error);
}

static void the_highest_score_is_joined_first(void **state) {
  (void)state;
  enum { MARK = 256, A, B, C, AB, BC, ABC, MARK_A, END };
  static float scores[MAX_ENTRIES];
  struct ommai_tokenizer *tokenizer;
  struct omma_error error;
  int32_t ids[16];
  size_t count;
  static const struct {
    float ab, bc, abc;
    const char *text;
    size_t n;
    int32_t ids[5];
  } cases[] = {{-1, -2, -3, "abc", 1, {ABC}},
               {-1, -2, -3, " abc", 2, {MARK, ABC}},
               {-2, -1, -9, "abcab", 2, {ABC, AB}},
               {-2, -2, -9, "abc", 1, {ABC}},
               {-5, -6, -9, " ab</s>", 3, {MARK_A, B, END}},
               {-1,
                -2,
                -3,
                "\xC3\xA9"
                "c",
                3,
                {0xC3, 0xA9, C}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    scores[AB] = cases[i].ab, scores[BC] = cases[i].bc, scores[ABC] = cases[i].abc, scores[MARK_A] = -4;
    assert_ok(make_scored(scores, &tokenizer, &error), &error);
    assert_ok(ommai_tokenizer_encode(tokenizer, cases[i].text, strlen(cases[i].text), true, ids, 16, &count, &error), &error);
    assert_int_equal(count, cases[i].n);
    assert_memory_equal(ids, cases[i].ids, count * sizeof *ids);
    ommai_tokenizer_destroy(tokenizer);
  }
  scores[AB] = NAN;
  assert_fails(make_scored(scores, &tokenizer, &error), OMMA_ERROR_FORMAT, "list: scores[260]: expected a number", &error);
}

static void wrong_entries_are_named(void **state) {
  (void)state;
  static struct lists lists;
  static const struct {
    const char *token, *merge, *message;
    enum ommai_listed_kind kind;
  } wrong[] = {{"", NULL, "list: tokens[256]: expected a text that is not empty", OMMAI_LISTED_NORMAL},
               {"\xff", NULL, "list: tokens[256]: expected UTF-8", OMMAI_LISTED_NORMAL},
               {"a", NULL, "collide", OMMAI_LISTED_NORMAL},
               {"", NULL, "list: tokens[256]: expected a text", OMMAI_LISTED_SPECIAL},
               {"ab", "", "list: merges[0]: expected a text", OMMAI_LISTED_NORMAL},
               {"ab", "ab", "list: merges[0]: expected two tokens with a space between", OMMAI_LISTED_NORMAL},
               {"ab", " ", "list: merges[0]: expected two tokens", OMMAI_LISTED_NORMAL},
               {"ab", "a c", "list: merges[0]: \"a\" and \"c\" or both are not tokens", OMMAI_LISTED_NORMAL}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    begin(&lists);
    add(&lists, wrong[i].token, wrong[i].kind);
    if (wrong[i].merge) merge(&lists, wrong[i].merge);
    expect_refused(&lists, false, OMMA_ERROR_FORMAT, wrong[i].message);
  }
}

static void wrong_lists_are_named(void **state) {
  (void)state;
  static struct lists lists;
  begin(&lists);
  lists.kinds[65] = OMMAI_LISTED_UNUSED;
  expect_refused(&lists, false, OMMA_ERROR_FORMAT, "byte 0x41 has no token");
  expect_refused(&lists, true, OMMA_ERROR_FORMAT, "tokens[66]: expected normal tokens, which are ranks, before all others");
  begin(&lists);
  lists.n_tokens = 0;
  expect_refused(&lists, false, OMMA_ERROR_FORMAT, "byte 0x00 has no token");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(makes_tokens),
      cmocka_unit_test(the_highest_score_is_joined_first),
      cmocka_unit_test(wrong_entries_are_named),
      cmocka_unit_test(wrong_lists_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
