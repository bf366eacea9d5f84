/* Masks of tokens that follow from grammars, against trying each token; what they take, and that
 * they stay. */
#include "grammar/token_mask.h"

#include <stdlib.h>

#include "base/allocator.h"
#include "grammar/answer_grammar.h"
#include "support/text_fixture.h"
#include "text/vocabulary.h"

struct masks_fixture {
  struct ommai_tokenizer *tokenizer;
  struct ommai_token_trie *trie;
  struct ommai_grammar *grammar;
  struct ommai_token_masks *masks;
  struct ommai_recogniser *recogniser; /* another one, for the slow way */
};

static struct ommai_grammar *make_grammar(enum ommai_answer_kind kind, const char *text) {
  struct ommai_grammar *grammar;
  struct omma_error error;
  const struct ommai_grammar_source source = {.kind = kind, .text = text, .size = strlen(text)};
  assert_ok(ommai_answer_grammar_create(&source, &ommai_default_allocator, &grammar, &error), &error);
  return grammar;
}

/* Takes the tokenizer. */
static void open_masks_over(struct masks_fixture *fixture, struct ommai_tokenizer *tokenizer, enum ommai_answer_kind kind,
                            const char *text) {
  struct omma_error error;
  const int32_t end = 3;
  fixture->tokenizer = tokenizer;
  assert_ok(ommai_token_trie_create(fixture->tokenizer, ommai_tokenizer_vocab_size(fixture->tokenizer), &end, 1,
                                    &ommai_default_allocator, &fixture->trie, &error),
            &error);
  fixture->grammar = make_grammar(kind, text);
  assert_ok(ommai_token_masks_create(fixture->grammar, fixture->trie, 0, &fixture->masks, &error), &error);
  assert_ok(ommai_recogniser_create(fixture->grammar, &fixture->recogniser, &error), &error);
}

static void open_masks(struct masks_fixture *fixture, enum ommai_answer_kind kind, const char *text) {
  struct ommai_tokenizer *tokenizer;
  struct omma_error error;
  assert_ok(ommai_tokenizer_load(OMMA_TEST_DATA "/../models/demo", &ommai_default_allocator, &tokenizer, &error), &error);
  open_masks_over(fixture, tokenizer, kind, text);
}

static void close_masks(struct masks_fixture *fixture) {
  ommai_recogniser_destroy(fixture->recogniser);
  ommai_token_masks_destroy(fixture->masks);
  ommai_grammar_destroy(fixture->grammar);
  ommai_token_trie_destroy(fixture->trie);
  ommai_tokenizer_destroy(fixture->tokenizer);
}

/* The token's bytes, one after the other, from a state of the slow recogniser. */
static int32_t step_token(struct masks_fixture *fixture, int32_t state, int32_t token) {
  const char *bytes;
  size_t size;
  bool special;
  if (!ommai_tokenizer_token_bytes(fixture->tokenizer, token, &bytes, &size, &special) || special) return OMMAI_STATE_DEAD;
  for (size_t i = 0; i < size && state >= 0; i++) {
    state = ommai_recogniser_next(fixture->recogniser, state, (unsigned char)bytes[i]);
    assert_true(state != OMMAI_STATE_FULL);
  }
  return state;
}

/* A random answer; at each of its places the mask against every token. */
static void compare_masks(struct masks_fixture *fixture, struct test_random *random) {
  struct ommai_mask_position position = ommai_token_masks_start(fixture->masks);
  int32_t slow = ommai_recogniser_flush(fixture->recogniser, OMMAI_STATE_DEAD);
  slow = ommai_recogniser_start(fixture->recogniser);
  for (int i = 0; i < 12; i++) {
    bool ends, goes_on;
    const uint32_t *mask = ommai_token_masks_get(fixture->masks, &position, &ends, &goes_on);
    assert_int_equal(ends, fixture->recogniser->states[slow].accepts);
    assert_int_equal(ommai_mask_has(mask, 3), ends || step_token(fixture, slow, 3) >= 0);
    int32_t chosen = -1;
    int n_allowed = 0;
    for (int32_t token = 4; token < fixture->trie->vocab_size; token++) {
      bool allowed = step_token(fixture, slow, token) >= 0;
      if (allowed != ommai_mask_has(mask, token)) fail_msg("step %d: token %d: %d by bytes", i, token, allowed);
      if (allowed && test_random_range(random, 0, n_allowed++) == 0) chosen = token;
    }
    if (chosen < 0) return;
    const char *bytes;
    size_t size;
    ommai_tokenizer_token_bytes(fixture->tokenizer, chosen, &bytes, &size, NULL);
    assert_true(ommai_token_masks_advance(fixture->masks, &position, bytes, size));
    slow = step_token(fixture, slow, chosen);
  }
}

static void masks_are_what_the_bytes_allow(void **state) {
  (void)state;
  static const struct {
    enum ommai_answer_kind kind;
    const char *text;
  } cases[] = {
      {OMMAI_ANSWER_JSON_OBJECT, ""},
      {OMMAI_ANSWER_JSON_SCHEMA, "{\"type\":\"string\",\"maxLength\":9}"},
      {OMMAI_ANSWER_JSON_SCHEMA, "{\"pattern\":\"[w-z]\",\"maxLength\":4}"},
      {OMMAI_ANSWER_JSON_SCHEMA, "{\"pattern\":\"[0-9a-f]{3}\"}"},
      {OMMAI_ANSWER_JSON_SCHEMA, "{\"pattern\":\"^x|[a-c]{2}$|é\"}"},
      {OMMAI_ANSWER_JSON_SCHEMA,
       "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":\"^[a-z ]*$\",\"maxLength\":7}}"},
      {OMMAI_ANSWER_REGEX, ".{0,40}x|[ -~]{3}"},
      {OMMAI_ANSWER_REGEX, "\\S+( \\S+)*"},
      {OMMAI_ANSWER_REGEX, "[^,;]{2,9}(,[^a-m]*)?"},
      {OMMAI_ANSWER_REGEX, "[^ ]*"}, /* controls, but no blank */
      {OMMAI_ANSWER_JSON_SCHEMA, "{\"type\":\"string\",\"pattern\":\"[a-m]{3}\"}"},
      {OMMAI_ANSWER_JSON_SCHEMA, "{\"anyOf\":[{\"enum\":[\"a\",\"an\"]},{\"type\":\"string\",\"maxLength\":12}]}"},
      {OMMAI_ANSWER_CHOICE, "[\"yes\",\"no\",\"note\"]"},
  };
  struct test_random random = {7};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct masks_fixture fixture;
    open_masks(&fixture, cases[i].kind, cases[i].text);
    for (int j = 0; j < 3; j++) compare_masks(&fixture, &random);
    close_masks(&fixture);
  }
}

/* A tokenizer of the 256 bytes and these tokens, as byte-level BPE spells them. */
static struct ommai_tokenizer *make_tokenizer(const char *const *tokens, size_t n) {
  struct text_folder *folder;
  struct ommai_tokenizer *tokenizer;
  struct omma_error error;
  const char *name;
  json_t *id, *document = text_fixture_json(OMMA_TEST_DATA, "digits/tokenizer.json");
  json_t *model = json_object_get(document, "model"), *vocabulary = json_object();
  json_object_foreach(json_object_get(model, "vocab"), name, id) {
    if (json_integer_value(id) < 256) json_object_set(vocabulary, name, id);
  }
  for (size_t i = 0; i < n; i++) json_object_set_new(vocabulary, tokens[i], json_integer(256 + (json_int_t)i));
  json_object_set_new(model, "vocab", vocabulary);
  json_object_set_new(model, "merges", json_array());
  json_object_set_new(document, "added_tokens", json_array());
  char *text = json_dumps(document, JSON_COMPACT);
  text_folder_make((void **)&folder);
  text_folder_write(folder->tokenizer, text);
  assert_ok(ommai_tokenizer_load(folder->path, &ommai_default_allocator, &tokenizer, &error), &error);
  text_folder_remove((void **)&folder);
  free(text);
  json_decref(document);
  return tokenizer;
}

/* The last token of capitals, zA, and the first ones of letters beyond ASCII, zé and zéé, begin
 * alike. */
static void groups_of_tokens_have_trees_of_their_own(void **state) {
  (void)state;
  static const char *const tokens[] = {"zA", "z\u00c3\u00a9", "z\u00c3\u00a9\u00c3\u00a9"};
  static const char *const patterns[] = {"bé", "zé", "[bz]?é+", "z(A|éé)"};
  struct test_random random = {8};
  for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
    struct masks_fixture fixture;
    open_masks_over(&fixture, make_tokenizer(tokens, 3), OMMAI_ANSWER_REGEX, patterns[i]);
    compare_masks(&fixture, &random);
    close_masks(&fixture);
  }
}

/* More states follow two letters than are remembered for a shortcut; of the last ones a token goes
 * on. */
static void tokens_behind_many_states_are_found(void **state) {
  (void)state;
  char text[4096];
  size_t used = (size_t)snprintf(text, sizeof text, "[\"the\"");
  for (char first = 'a'; first <= 'z'; first++) {
    for (char second = 'a'; second <= 'j'; second++) {
      used += (size_t)snprintf(text + used, sizeof text - used, ",\"%c%c-%c%c\"", first, second, first, second);
    }
  }
  (void)snprintf(text + used, sizeof text - used, "]");
  struct test_random random = {9};
  struct masks_fixture fixture;
  open_masks(&fixture, OMMAI_ANSWER_CHOICE, text);
  compare_masks(&fixture, &random);
  close_masks(&fixture);
}

enum { N_WORDS = 4000, MAX_WORD = 8 };

static struct ommai_tokenizer *make_many_words(void) {
  static char words[N_WORDS][MAX_WORD + 1];
  const char *tokens[N_WORDS];
  struct test_random random = {10};
  for (int i = 0; i < N_WORDS; i++) {
    for (int j = 0; j < MAX_WORD; j++) words[i][j] = (char)('a' + test_random_range(&random, 0, 25));
    tokens[i] = words[i];
  }
  return make_tokenizer(tokens, N_WORDS);
}

/* Inside strings, where nearly all tokens are allowed, these are not looked at one by one; nor
 * where the last mask found out what is needed for the next. */
static void masks_inside_strings_take_little_work(void **state) {
  (void)state;
  static const char *const schemas[] = {"{\"type\":\"string\"}", "{\"type\":\"string\",\"maxLength\":40}",
                                        /* as many letters as the longest words have, or one more */
                                        "{\"type\":\"string\",\"pattern\":\"^[a-z]{8}x?$\"}"};
  for (int i = 0; i < 3; i++) {
    struct masks_fixture fixture;
    open_masks_over(&fixture, make_many_words(), OMMAI_ANSWER_JSON_SCHEMA, schemas[i]);
    struct ommai_mask_position position = ommai_token_masks_start(fixture.masks);
    assert_true(ommai_token_masks_advance(fixture.masks, &position, "\"", 1));
    if (i == 1) {
      assert_true(ommai_token_masks_make(fixture.masks, &position, true));
      assert_true(ommai_token_masks_advance(fixture.masks, &position, "a", 1));
    }
    ommai_token_masks_limit(fixture.masks, INT64_MAX / 2);
    assert_true(ommai_token_masks_make(fixture.masks, &position, true));
    int64_t work = ommai_token_masks_unlimited(fixture.masks);
    print_message("%s: %lld steps, %zu nodes\n", schemas[i], (long long)work, fixture.trie->n_nodes);
    assert_in_range(work, 1, fixture.trie->n_nodes / 4);
    close_masks(&fixture);
  }
}

/* Making a mask changes none of those that are remembered. */
static void remembered_masks_stay_as_they_are(void **state) {
  (void)state;
  enum { N = OMMAI_TOKEN_MASK_KEPT + 8 };
  struct masks_fixture fixture;
  struct ommai_mask_position positions[N];
  open_masks(&fixture, OMMAI_ANSWER_JSON_SCHEMA, "{\"type\":\"string\",\"maxLength\":120}");
  size_t n_words = (size_t)fixture.trie->n_words, size = n_words * sizeof(uint32_t);
  uint32_t *copies = calloc(N + 1, size), *first = copies + N * n_words;
  memcpy(first, ommai_token_masks_first(fixture.masks).words, size);
  positions[0] = ommai_token_masks_start(fixture.masks);
  for (int i = 0; i < N; i++) {
    bool ends, goes_on;
    int n_kept = 0;
    if (i) positions[i] = positions[i - 1];
    assert_true(ommai_token_masks_advance(fixture.masks, &positions[i], i ? "a" : "\"", 1));
    memcpy(copies + (size_t)i * n_words, ommai_token_masks_get(fixture.masks, &positions[i], &ends, &goes_on), size);
    for (int j = 0; j <= i; j++) {
      struct ommai_mask_view view = ommai_token_masks_recall(fixture.masks, &positions[j]);
      if (!view.words) continue;
      assert_memory_equal(view.words, copies + (size_t)j * n_words, size);
      n_kept++;
    }
    assert_int_equal(n_kept, i < OMMAI_TOKEN_MASK_KEPT ? i + 1 : OMMAI_TOKEN_MASK_KEPT);
    assert_memory_equal(ommai_token_masks_first(fixture.masks).words, first, size);
  }
  free(copies);
  close_masks(&fixture);
}

static void characters_are_of_one_class_each(void **state) {
  (void)state;
  static const struct {
    uint32_t code;
    int class;
  } cases[] = {
      {0x00, OMMAI_CLASS_CONTROL},     {'\t', OMMAI_CLASS_TAB},        {'\n', OMMAI_CLASS_LINE_FEED},
      {0x0b, OMMAI_CLASS_CONTROL},     {'\r', OMMAI_CLASS_RETURN},     {0x1f, OMMAI_CLASS_CONTROL},
      {' ', OMMAI_CLASS_MARKS},        {'/', OMMAI_CLASS_MARKS + 15},  {'0', OMMAI_CLASS_DIGIT},
      {'9', OMMAI_CLASS_DIGIT},        {':', OMMAI_CLASS_MARKS + 16},  {'@', OMMAI_CLASS_MARKS + 22},
      {'A', OMMAI_CLASS_CAPITAL},      {'Z', OMMAI_CLASS_CAPITAL},     {'[', OMMAI_CLASS_MARKS + 23},
      {'`', OMMAI_CLASS_MARKS + 28},   {'a', OMMAI_CLASS_SMALL},       {'z', OMMAI_CLASS_SMALL},
      {'{', OMMAI_CLASS_MARKS + 29},   {0x7f, OMMAI_CLASS_MARKS + 33}, {0x80, OMMAI_CLASS_2_BYTES},
      {0x85, OMMAI_CLASS_ODD},         {0xa0, OMMAI_CLASS_ODD},        {0xe9, OMMAI_CLASS_2_BYTES},
      {0x7ff, OMMAI_CLASS_2_BYTES},    {0x800, OMMAI_CLASS_3_BYTES},   {0x1fff, OMMAI_CLASS_3_BYTES},
      {0x2000, OMMAI_CLASS_ODD},       {0x200a, OMMAI_CLASS_ODD},      {0x200b, OMMAI_CLASS_3_BYTES},
      {0xfeff, OMMAI_CLASS_ODD},       {0xffff, OMMAI_CLASS_3_BYTES},  {0x10000, OMMAI_CLASS_4_BYTES},
      {0x10ffff, OMMAI_CLASS_4_BYTES},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int class = ommai_char_class(cases[i].code);
    if (class != cases[i].class) fail_msg("U+%04X: class %d, expected %d", cases[i].code, class, cases[i].class);
  }
}

/* Each of these strings needs states of its own, far more than there is room for. */
static void full_tables_change_no_answer(void **state) {
  (void)state;
  struct masks_fixture fixture;
  open_masks(&fixture, OMMAI_ANSWER_JSON_SCHEMA, "{\"type\":\"string\",\"minLength\":30000,\"maxLength\":30001}");
  struct ommai_mask_position position = ommai_token_masks_start(fixture.masks), first = position;
  bool ends, goes_on;
  assert_true(ommai_token_masks_advance(fixture.masks, &position, "\"", 1));
  for (int i = 0; i < 30000; i++) {
    assert_true(ommai_token_masks_advance(fixture.masks, &position, i % 2 ? "a" : "\xc3\xa9", i % 2 ? 1 : 2));
    if (i % 1000 == 0) (void)ommai_token_masks_get(fixture.masks, &position, &ends, &goes_on);
  }
  assert_true(ommai_token_masks_know(fixture.masks, &position));
  assert_false(ommai_token_masks_know(fixture.masks, &first));
  (void)ommai_token_masks_get(fixture.masks, &position, &ends, &goes_on);
  assert_true(!ends && goes_on);
  assert_true(ommai_token_masks_advance(fixture.masks, &position, "x\"", 2));
  (void)ommai_token_masks_get(fixture.masks, &position, &ends, &goes_on);
  assert_true(ends && !goes_on);
  close_masks(&fixture);
}

/* Tables that are full of another answer's states are no reason to forbid tokens, at the first of
 * their states too. */
static void full_tables_forbid_nothing_at_their_first_state(void **state) {
  (void)state;
  struct masks_fixture fixture;
  open_masks(&fixture, OMMAI_ANSWER_REGEX, "x.{20000}|[a-w][0-9]{2}");
  struct ommai_mask_position long_one = ommai_token_masks_start(fixture.masks);
  assert_true(ommai_token_masks_advance(fixture.masks, &long_one, "x", 1));
  for (int i = 0; i < 10000; i++) assert_true(ommai_token_masks_advance(fixture.masks, &long_one, "a", 1));
  while (ommai_token_masks_try_advance(fixture.masks, &long_one, "a", 1, false)) continue;
  struct ommai_mask_position first = ommai_token_masks_start(fixture.masks);
  assert_int_equal(first.state, 0);
  long_one = first;
  assert_true(ommai_token_masks_advance(fixture.masks, &long_one, "x", 1));
  while (ommai_token_masks_try_advance(fixture.masks, &long_one, "a", 1, false)) continue;
  assert_true(ommai_token_masks_make(fixture.masks, &first, true));
  assert_memory_equal(ommai_token_masks_recall(fixture.masks, &first).words, ommai_token_masks_first(fixture.masks).words,
                      (size_t)fixture.trie->n_words * sizeof(uint32_t));
  close_masks(&fixture);
}

/* A walk along it touches nothing but the states of its bytes. */
static void the_longest_token_is_allowed(void **state) {
  (void)state;
  char text[OMMAI_VOCABULARY_MAX_TOKEN_BYTES + 1] = {0};
  const char *const tokens[] = {memset(text, 'a', OMMAI_VOCABULARY_MAX_TOKEN_BYTES)};
  struct masks_fixture fixture;
  open_masks_over(&fixture, make_tokenizer(tokens, 1), OMMAI_ANSWER_REGEX, "(a|b){1024}");
  struct ommai_mask_position position = ommai_token_masks_start(fixture.masks);
  ommai_token_masks_limit(fixture.masks, INT64_MAX / 2);
  assert_true(ommai_token_masks_make(fixture.masks, &position, true));
  assert_in_range(ommai_token_masks_unlimited(fixture.masks), 1, 1000000);
  assert_true(ommai_mask_has(ommai_token_masks_recall(fixture.masks, &position).words, 256));
  close_masks(&fixture);
}

enum { PORTION = 30000 }; /* more than a pass over the tree takes */

/* A mask that is made in many small portions of work is the one that is made at once, also where
 * the tables are emptied meanwhile. */
static void masks_in_portions_are_the_same(void **state) {
  (void)state;
  static const char *const patterns[] = {"(.{1,200}){1,200}", "x*(.{1,300}a|.{1,301}b|.{1,302}c)", "([a-z]{1,9} ?){1,50}"};
  for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
    struct masks_fixture at_once, slow;
    open_masks(&at_once, OMMAI_ANSWER_REGEX, patterns[i]);
    open_masks(&slow, OMMAI_ANSWER_REGEX, patterns[i]);
    struct ommai_mask_position there = ommai_token_masks_start(at_once.masks), here = ommai_token_masks_start(slow.masks);
    for (int j = 0; j < 5; j++) {
      bool ends, goes_on;
      const uint32_t *expected = ommai_token_masks_get(at_once.masks, &there, &ends, &goes_on);
      ommai_token_masks_limit(slow.masks, PORTION);
      for (int tries = 0; !ommai_token_masks_make(slow.masks, &here, true); tries++) {
        assert_in_range(ommai_token_masks_unlimited(slow.masks), PORTION, 10 * PORTION);
        assert_in_range(tries, 0, 100000);
        ommai_token_masks_limit(slow.masks, PORTION);
      }
      ommai_token_masks_unlimited(slow.masks);
      struct ommai_mask_view view = ommai_token_masks_recall(slow.masks, &here);
      assert_memory_equal(view.words, expected, (size_t)at_once.trie->n_words * sizeof *expected);
      assert_true(view.ends == ends && view.goes_on == goes_on);
      assert_true(ommai_token_masks_advance(at_once.masks, &there, "a", 1));
      assert_true(ommai_token_masks_advance(slow.masks, &here, "a", 1));
    }
    close_masks(&at_once);
    close_masks(&slow);
  }
}

static void expect_forced(struct masks_fixture *fixture, const char *prefix, const char *expected) {
  struct ommai_mask_position position = ommai_token_masks_start(fixture->masks);
  char bytes[64];
  assert_true(ommai_token_masks_advance(fixture->masks, &position, prefix, strlen(prefix)));
  size_t n = ommai_token_masks_forced(fixture->masks, &position, bytes, sizeof bytes);
  assert_int_equal(n, strlen(expected));
  assert_memory_equal(bytes, expected, n);
}

static void forced_bytes_are_those_of_the_only_way(void **state) {
  (void)state;
  struct masks_fixture fixture;
  open_masks(
      &fixture, OMMAI_ANSWER_JSON_SCHEMA,
      "{\"type\":\"object\",\"properties\":{\"first name\":{\"type\":\"string\"},\"first gr\u00f6\u00dfe\":{\"const\":1}},"
      "\"required\":[\"first gr\u00f6\u00dfe\"]}");
  expect_forced(&fixture, "", "{");
  expect_forced(&fixture, "{\"", "first ");
  expect_forced(&fixture, "{\"first g",
                "r\xc3\xb6\xc3\x9f"
                "e\":");
  expect_forced(&fixture, "{\"first name\"", ":");
  expect_forced(&fixture, "{\"first name\":", ""); /* a blank or not */
  expect_forced(&fixture, "{\"first name\":\"x\",\"",
                "first gr\xc3\xb6\xc3\x9f"
                "e\":");
  expect_forced(&fixture,
                "{\"first gr\xc3\xb6\xc3\x9f"
                "e\":1}",
                ""); /* it may only end */
  close_masks(&fixture);
  /* bytes that the grammar does not tell apart are several */
  open_masks(&fixture, OMMAI_ANSWER_REGEX, "[0-9]:");
  expect_forced(&fixture, "", "");
  expect_forced(&fixture, "7", ":");
  close_masks(&fixture);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(characters_are_of_one_class_each),
      cmocka_unit_test(masks_are_what_the_bytes_allow),
      cmocka_unit_test(groups_of_tokens_have_trees_of_their_own),
      cmocka_unit_test(tokens_behind_many_states_are_found),
      cmocka_unit_test(masks_inside_strings_take_little_work),
      cmocka_unit_test(remembered_masks_stay_as_they_are),
      cmocka_unit_test(full_tables_change_no_answer),
      cmocka_unit_test(full_tables_forbid_nothing_at_their_first_state),
      cmocka_unit_test(the_longest_token_is_allowed),
      cmocka_unit_test(masks_in_portions_are_the_same),
      cmocka_unit_test(forced_bytes_are_those_of_the_only_way),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
