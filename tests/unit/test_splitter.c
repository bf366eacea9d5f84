#include "text/splitter.h"

#include <stdlib.h>

#include "base/allocator.h"
#include "support/test.h"
#include "text/pattern.h"

struct translation {
  const char *pattern, *expected;
};

static void patterns_keep_their_meaning(void **state) {
  (void)state;
  static const struct translation table[] = {
      {"", ""},
      {"(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+", "(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"},
      {"\\s+(?!\\S)|\\s*[\\r\\n]+", "\\p{White_Space}+(?!\\P{White_Space})|\\p{White_Space}*[\\r\\n]+"},
      {"[\\s\\S]", "[\\p{White_Space}\\P{White_Space}]"},
      {"\\p{Han}|\\P{Latin}", "\\p{sc:Han}|\\P{sc:Latin}"},
      {"a{2}b{1,}c{1,3}|.\\.|\\-\\[|(x)??", "a{2}b{1,}c{1,3}|.\\.|\\-\\[|(x)??"},
      {"図+|[日本]", "図+|[日本]"},
      {"[\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{Cc}\\p{Cf}\\p{Cs}\\p{Co}&&[^a\\s]]", "[^\\p{Cn}a\\p{White_Space}]"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct omma_error error;
    char out[512];
    assert_ok(ommai_pattern_translate(table[i].pattern, strlen(table[i].pattern), out, sizeof out, &error), &error);
    assert_string_equal(out, table[i].expected);
  }
}

/* Syntax whose meaning differs between the dialects, or that is not known, must not pass. */
static void other_syntax_is_refused(void **state) {
  (void)state;
  static const char *const patterns[] = {
      "\\h",
      "\\d+",
      "\\w",
      "\\b",
      "\\R",
      "\\X",
      "\\1",
      "\\x41",
      "\\u0041",
      "\\",
      "^a",
      "a$",
      "(?<n>a)",
      "(?>a)",
      "(?#c)a",
      "(*UTF)a",
      "(?x:a)",
      "(?m)a",
      "[[a]b]",
      "[a&&b]",
      "[[:alpha:]]",
      "[",
      "[a",
      "[]a]",
      "[^]",
      "a{,3}",
      "a{2,3}+",
      "a{2}?",
      "a{",
      "a{x}",
      "\\p{Foo}",
      "\\p{^L}",
      "\\pL",
      "\\p{",
      "\\p{LL}",
      "\\p{}",
      "[\\p{Lu}&&[^\\p{Han}]b]",
      "[\\p{Lu}a&&[^b]]",
      "[\\p{Han}&&[^b]]",
      "[\\p{Lu}&&[^b]",
      "[\\p{Lu}&&[b]]",
      "[^\\p{Lu}&&[^b]]",
      "[日-本]",
      "[!-本]",
      "[日-~]",
      "\\p{Cyrillic}",
      "a|\U00013460",
      "[\U00020000]",
  };
  for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
    struct omma_error error;
    char out[512];
    enum omma_status status = ommai_pattern_translate(patterns[i], strlen(patterns[i]), out, sizeof out, &error);
    if (status != OMMA_ERROR_UNSUPPORTED) fail_msg("\"%s\" was taken as \"%s\"", patterns[i], out);
    assert_non_null(strstr(error.message, "pattern: byte"));
  }
}

static void limits_are_kept(void **state) {
  (void)state;
  struct omma_error error;
  struct ommai_splitter *splitter;
  char pattern[OMMAI_PATTERN_MAX_BYTES + 1], out[16];
  memset(pattern, 'a', sizeof pattern);
  assert_fails(ommai_splitter_create(pattern, sizeof pattern, &splitter, &error), OMMA_ERROR_LIMIT, "2049", &error);
  assert_fails(ommai_pattern_translate(pattern, 16, out, sizeof out, &error), OMMA_ERROR_LIMIT, "16 bytes", &error);
  memset(pattern, '(', sizeof pattern);
  assert_fails(ommai_splitter_create(pattern, 1000, &splitter, &error), OMMA_ERROR_FORMAT, "nest", &error);
  assert_fails(ommai_splitter_create("a\0b", 3, &splitter, &error), OMMA_ERROR_UNSUPPORTED, "NUL", &error);
  assert_fails(ommai_splitter_create("a)", 2, &splitter, &error), OMMA_ERROR_FORMAT, "does not compile", &error);
  assert_fails(ommai_splitter_create("a*", 2, &splitter, &error), OMMA_ERROR_UNSUPPORTED, "match nothing", &error);
  assert_fails(ommai_splitter_create("", 0, &splitter, &error), OMMA_ERROR_UNSUPPORTED, "match nothing", &error);
}

/* Cuts text and joins the pieces with bars. */
static void check_pieces(const char *pattern, const char *text, const char *expected) {
  struct omma_error error;
  struct ommai_splitter *splitter;
  struct ommai_split split;
  char out[256] = "";
  size_t used = 0;
  assert_ok(ommai_splitter_create(pattern, strlen(pattern), &splitter, &error), &error);
  assert_ok(ommai_split_begin(&split, splitter, &ommai_default_allocator, &error), &error);
  assert_ok(ommai_split_text(&split, text, strlen(text), &error), &error);
  for (;;) {
    size_t first, last;
    assert_ok(ommai_split_next(&split, &first, &last, &error), &error);
    if (first == last) break;
    used += (size_t)snprintf(out + used, sizeof out - used, "%.*s|", (int)(last - first), text + first);
  }
  ommai_split_end(&split);
  ommai_splitter_destroy(splitter);
  assert_string_equal(out, expected);
}

static void matches_and_gaps_are_pieces(void **state) {
  (void)state;
  check_pieces("[0-9]", "a12bc", "a|1|2|bc|");
  check_pieces("[0-9]+", "", "");
  check_pieces("[0-9]+", "abc", "abc|");
  check_pieces("x|(?<=x)y", "xyzy", "x|y|zy|");
  check_pieces("\\s+(?!\\S)|\\s+|\\S", "  a", " | |a|");
  check_pieces("(?i:'s)|.", "'S'\u017f\n", "'S|'\u017f|\n|");
  check_pieces("\\s", "a\u180e\u3000\u00a0b", "a\u180e|\u3000|\u00a0|b|");
  check_pieces("\\p{Han}+", "a中文、b", "a|中文|、b|");
}

/* Letters, a digit and a symbol of Unicode 15 and 16, and a character of Unicode 17, which is none
 * yet. */
static void younger_characters_have_their_class(void **state) {
  (void)state;
  check_pieces("\\p{L}+|\\p{N}", "a\U00011F04\U00031350b\U0001E4F0\U0001FAE8", "a\U00011F04\U00031350b|\U0001E4F0|\U0001FAE8|");
  check_pieces("\\p{Han}+", "\U00011F04\U00031350\u4e2d", "\U00011F04|\U00031350\u4e2d|");
  check_pieces("[^\\s\\p{L}]+", "\U00016EA0\U00011F04", "\U00016EA0|\U00011F04|");
}

/* Runs a pattern over a text of `size` equal characters; the status of the first failing step, or
 * OK. */
static enum omma_status run_over(const char *pattern, char character, size_t size, char last_character) {
  struct omma_error error;
  struct ommai_splitter *splitter;
  struct ommai_split split;
  char *text = malloc(size);
  memset(text, character, size);
  text[size - 1] = last_character;
  assert_ok(ommai_splitter_create(pattern, strlen(pattern), &splitter, &error), &error);
  assert_ok(ommai_split_begin(&split, splitter, &ommai_default_allocator, &error), &error);
  assert_ok(ommai_split_text(&split, text, size, &error), &error);
  enum omma_status status;
  size_t first, last;
  do {
    status = ommai_split_next(&split, &first, &last, &error);
  } while (status == OMMA_OK && first != last);
  if (status != OMMA_OK) assert_non_null(strstr(error.message, "gives up"));
  ommai_split_end(&split);
  ommai_splitter_destroy(splitter);
  free(text);
  return status;
}

/* Exponential and quadratic backtracking end in an error and soon. */
static void evil_patterns_give_up(void **state) {
  (void)state;
  assert_int_equal(run_over("(?:a+)+[bc]", 'a', 5000, 'd'), OMMA_ERROR_LIMIT);
  assert_int_equal(run_over("(?:a|a)+[bc]", 'a', 5000, 'd'), OMMA_ERROR_LIMIT);
  assert_int_equal(run_over("(?:a|aa)+(?=[bc])|(?:.*.*.*)[bc]", 'a', 5000, 'd'), OMMA_ERROR_LIMIT);
  assert_int_equal(run_over("a(?=.*[bc])|a", 'a', 300000, 'd'), OMMA_ERROR_LIMIT);
}

/* What the patterns in use do with long runs is within the limits. */
static void usual_patterns_manage_long_runs(void **state) {
  (void)state;
  static const char *const patterns[] = {
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
      "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
      "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
      "[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{"
      "Han}]]+"
      "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+|\\p{N}{1,3}| "
      "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+"
      "|\\s+(?!\\S)|\\s+"};
  static const char runs[][2] = {{' ', 'x'}, {' ', ' '},  {'\n', 'x'}, {'a', '!'},
                                 {'A', '!'}, {'!', '\n'}, {'7', 'a'},  {'\'', 's'}};
  for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
    for (size_t r = 0; r < sizeof runs / sizeof runs[0]; r++) {
      assert_int_equal(run_over(patterns[i], runs[r][0], 300000, runs[r][1]), OMMA_OK);
    }
  }
  /* More than the compiler's own stack holds: the interpreter takes over. */
  assert_int_equal(run_over("(?:a|b)+", 'a', 20000, 'b'), OMMA_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(patterns_keep_their_meaning),
      cmocka_unit_test(other_syntax_is_refused),
      cmocka_unit_test(limits_are_kept),
      cmocka_unit_test(matches_and_gaps_are_pieces),
      cmocka_unit_test(younger_characters_have_their_class),
      cmocka_unit_test(evil_patterns_give_up),
      cmocka_unit_test(usual_patterns_manage_long_runs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
