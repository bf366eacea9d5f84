#include "text/json_cursor.h"

#include <jansson.h>
#include <stdlib.h>

#include "support/test.h"

static struct ommai_json_cursor over(const char *text) { return (struct ommai_json_cursor){text, strlen(text), 0}; }

static void strings_are_unescaped(void **state) {
  (void)state;
  struct ommai_json_cursor cursor = over(" \"a\\n\\\"\\\\\\/\\u00e9\\ud83d\\ude42\\u0120é図\" ,\"\"");
  char out[64];
  size_t size;
  assert_true(ommai_json_cursor_string(&cursor, out, sizeof out, &size));
  assert_string_equal(out, "a\n\"\\/é\U0001F642\u0120é図");
  assert_int_equal(size, strlen(out));
  bool more;
  assert_true(ommai_json_cursor_next(&cursor, ']', &more));
  assert_true(more);
  assert_true(ommai_json_cursor_string(&cursor, out, sizeof out, &size));
  assert_int_equal(size, 0);
  assert_false(ommai_json_cursor_next(&cursor, ']', &more));
}

static void numbers_are_ids(void **state) {
  (void)state;
  static const char *const bad[] = {"", "-1", "+1", "01", "2147483648", "99999999999999999999999", "x", "\"1\"", "null"};
  int32_t value;
  struct ommai_json_cursor cursor = over("0 2147483647");
  assert_true(ommai_json_cursor_number(&cursor, &value));
  assert_int_equal(value, 0);
  assert_true(ommai_json_cursor_number(&cursor, &value));
  assert_int_equal(value, INT32_MAX);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    cursor = over(bad[i]);
    assert_false(ommai_json_cursor_number(&cursor, &value));
  }
}

static void values_are_skipped(void **state) {
  (void)state;
  static const char *const values[] = {"1.5e3", "null", "\"a\\\"}]\"", "{\"a\":[1,{\"b\":\"]\"}]}", "[]", "[[[]],\"\\\\\"]"};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    char text[64];
    snprintf(text, sizeof text, " %s ,", values[i]);
    struct ommai_json_cursor cursor = over(text);
    assert_true(ommai_json_cursor_skip(&cursor));
    assert_true(ommai_json_cursor_take(&cursor, ','));
    for (size_t n = 1; n < strlen(values[i]); n++) {
      cursor = (struct ommai_json_cursor){values[i], n, 0};
      ommai_json_cursor_skip(&cursor);
      assert_in_range(cursor.at, 0, n);
    }
  }
}

/* On broken strings cursor and parser agree on what is a string and what it contains. */
static void strings_agree_with_the_parser(void **state) {
  (void)state;
  static const char *const parts[] = {
      "a",    "é",       "図",   "\xF0\x9F\x99\x82", "\\n",  "\\u0041", "\\ud83d", "\\ude42", "\\u12",   "\\x",
      "\\",   "\xC3",    "\x80", "\xED\xA0\x80",     "\x01", "\x7F",    "\\\"",    "\"",      "\\u0000", "\\uD83D\\uDE42",
      "\xFF", "\\uABCD", "\\/"};
  struct test_random random = {17};
  int n_good = 0;
  for (int round = 0; round < 20000; round++) {
    char text[256] = "\"", out[256];
    size_t size;
    for (int64_t i = test_random_range(&random, 0, 5); i > 0; i--) {
      strcat(text, parts[test_random_range(&random, 0, sizeof parts / sizeof parts[0] - 1)]);
    }
    if (round % 8) strcat(text, "\"");
    struct ommai_json_cursor cursor = over(text);
    bool good = ommai_json_cursor_string(&cursor, out, sizeof out, &size) && cursor.at == strlen(text);
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    if (good != (value != NULL)) fail_msg("cursor and parser disagree on %s", text);
    if (good) assert_string_equal(out, json_string_value(value));
    json_decref(value);
    n_good += good;
  }
  assert_true(n_good > 2000);
}

/* A string is taken whole or not at all, and nothing is written past the end. */
static void strings_fit_or_fail(void **state) {
  (void)state;
  const char text[] = "\"abcdefghij\\u00e9\\ud83d\\ude42\"";
  for (size_t capacity = 0; capacity < 64; capacity++) {
    char *out = malloc(capacity ? capacity : 1);
    size_t size = 0;
    struct ommai_json_cursor cursor = over(text);
    if (ommai_json_cursor_string(&cursor, out, capacity, &size)) {
      assert_int_equal(size, 16);
    } else {
      assert_true(capacity < 32);
    }
    free(out);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(strings_are_unescaped), cmocka_unit_test(numbers_are_ids),
      cmocka_unit_test(values_are_skipped),    cmocka_unit_test(strings_agree_with_the_parser),
      cmocka_unit_test(strings_fit_or_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
