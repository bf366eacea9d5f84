/* Every code point, as the official libraries know it: tests/data/text/unicode.json, from
 * tools/make_unicode_tables.py. */
#include "text/unicode.h"

#include <stdlib.h>

#include "base/allocator.h"
#include "support/text_fixture.h"
#include "text/nfc.h"
#include "text/splitter.h"
#include "text/utf8.h"

enum { N_POINTS = 0x110000, N_LISTED = 20 };

static bool is_surrogate(uint32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

static size_t write_all_points(char *text) {
  size_t size = 0;
  for (uint32_t c = 0; c < N_POINTS; c++) {
    if (!is_surrogate(c)) size += ommai_utf8_encode(c, text + size);
  }
  return size;
}

/* Cuts a text of every code point by a pattern for one character: each match is set in `found`. */
static void find_members(const char *pattern, const char *text, size_t size, bool *found) {
  struct omma_error error;
  struct ommai_splitter *splitter;
  struct ommai_split split;
  memset(found, 0, N_POINTS);
  assert_ok(ommai_splitter_create(pattern, strlen(pattern), &splitter, &error), &error);
  assert_ok(ommai_split_begin(&split, splitter, &ommai_default_allocator, &error), &error);
  assert_ok(ommai_split_text(&split, text, size, &error), &error);
  for (;;) {
    size_t first, last, length;
    assert_ok(ommai_split_next(&split, &first, &last, &error), &error);
    if (first == last) break;
    if (split.match_first == first) found[ommai_utf8_decode(text + first, &length)] = true;
  }
  ommai_split_end(&split);
  ommai_splitter_destroy(splitter);
}

/* Lists what differs; returns how many. */
static size_t count_differences(const char *name, const bool *found, const bool *expected) {
  size_t n = 0;
  for (uint32_t c = 0; c < N_POINTS; c++) {
    if (found[c] == expected[c]) continue;
    if (++n <= N_LISTED) print_error("%s: U+%04X: %s\n", name, (unsigned)c, found[c] ? "matched" : "not matched");
  }
  if (n > 0) print_error("%s: %zu differ\n", name, n);
  return n;
}

static uint32_t point_at(const json_t *array, size_t i) { return (uint32_t)json_integer_value(json_array_get(array, i)); }

/* Runs [[first, category], ...] */
static void expect_category(const json_t *runs, const char *name, bool *expected) {
  memset(expected, 0, N_POINTS);
  for (size_t i = 0; i < json_array_size(runs); i++) {
    const json_t *run = json_array_get(runs, i);
    if (strcmp(json_string_value(json_array_get(run, 1)), name) != 0) continue;
    uint32_t end = i + 1 < json_array_size(runs) ? point_at(json_array_get(runs, i + 1), 0) : N_POINTS;
    for (uint32_t c = point_at(run, 0); c < end; c++) expected[c] = !is_surrogate(c);
  }
}

static void expect_ranges(const json_t *ranges, bool *expected) {
  memset(expected, 0, N_POINTS);
  for (size_t i = 0; i < json_array_size(ranges); i++) {
    const json_t *range = json_array_get(ranges, i);
    for (uint32_t c = point_at(range, 0); c <= point_at(range, 1); c++) expected[c] = true;
  }
}

static void classes_are_the_official_ones(void **state) {
  (void)state;
  static const char categories[][3] = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
                                       "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cn"};
  json_t *root = text_fixture_json(OMMA_TEST_DATA, "unicode.json"), *ranges;
  char *text = malloc(4 * (size_t)N_POINTS), pattern[128];
  bool *found = malloc(N_POINTS), *expected = malloc(N_POINTS);
  size_t size = write_all_points(text), n_wrong = 0;
  for (size_t i = 0; i < sizeof categories / sizeof categories[0]; i++) {
    snprintf(pattern, sizeof pattern, "\\p{%s}", categories[i]);
    find_members(pattern, text, size, found);
    expect_category(json_object_get(root, "categories"), categories[i], expected);
    n_wrong += count_differences(pattern, found, expected);
  }
  const char *script;
  json_object_foreach(json_object_get(root, "scripts"), script, ranges) {
    snprintf(pattern, sizeof pattern, "\\p{%s}", script);
    find_members(pattern, text, size, found);
    expect_ranges(ranges, expected);
    n_wrong += count_differences(pattern, found, expected);
  }
  assert_int_equal(n_wrong, 0);
  free(expected);
  free(found);
  free(text);
  json_decref(root);
}

/* True when form C of the text is what is expected; otherwise it is listed, as long as few were. */
static bool normalises_to(const char *text, size_t size, const char *expected, size_t n_expected, size_t n_wrong) {
  struct omma_error error;
  struct ommai_nfc_text normal;
  assert_ok(ommai_nfc(text, size, &ommai_default_allocator, &normal, &error), &error);
  bool same = normal.size == n_expected && memcmp(normal.text, expected, n_expected) == 0;
  for (size_t at = 0, length; !same && n_wrong < N_LISTED && at < size; at += length) {
    print_error("U+%04X%s", (unsigned)ommai_utf8_decode(text + at, &length),
                at + length < size ? " " : " is normalised otherwise\n");
  }
  ommai_nfc_release(&normal, &ommai_default_allocator);
  return same;
}

/* Each code point between a mark of a high and one of a low class; what is not listed keeps its
 * order. */
static void every_code_point_keeps_its_place(void **state) {
  (void)state;
  json_t *root = text_fixture_json(OMMA_TEST_DATA, "unicode.json");
  const json_t *listed = json_object_get(root, "nfcBetweenMarks");
  size_t next = 0, n_wrong = 0;
  for (uint32_t c = 0; c < N_POINTS; c++) {
    if (is_surrogate(c)) continue;
    char text[16] = "a\u0315";
    size_t size = 3 + ommai_utf8_encode(c, text + 3), n_expected = 0;
    memcpy(text + size, "\u0334", 2);
    size += 2;
    char *changed = NULL;
    if (next < json_array_size(listed) && point_at(json_array_get(listed, next), 0) == c) {
      changed = text_fixture_bytes(json_array_get(json_array_get(listed, next++), 1), &n_expected);
    }
    n_wrong += !normalises_to(text, size, changed ? changed : text, changed ? n_expected : size, n_wrong);
    free(changed);
  }
  assert_int_equal(next, json_array_size(listed));
  assert_int_equal(n_wrong, 0);
  json_decref(root);
}

static void texts_are_composed_as_official(void **state) {
  (void)state;
  json_t *root = text_fixture_json(OMMA_TEST_DATA, "unicode.json");
  const json_t *cases = json_object_get(root, "nfc");
  assert_true(json_array_size(cases) > 1000);
  size_t n_wrong = 0;
  for (size_t i = 0; i < json_array_size(cases); i++) {
    size_t size, n_expected;
    char *text = text_fixture_bytes(json_array_get(json_array_get(cases, i), 0), &size);
    char *expected = text_fixture_bytes(json_array_get(json_array_get(cases, i), 1), &n_expected);
    n_wrong += !normalises_to(text, size, expected, n_expected, n_wrong);
    free(expected);
    free(text);
  }
  assert_int_equal(n_wrong, 0);
  json_decref(root);
}

/* A stand-in is as long as what it stands for, and needs none itself. */
static void stand_ins_can_be_put_in_place(void **state) {
  (void)state;
  size_t n = 0;
  for (uint32_t c = 0; c < N_POINTS; c++) {
    uint32_t instead = ommai_unicode_stand_in(c);
    if (instead == c) continue;
    char bytes[OMMAI_UTF8_MAX_BYTES], instead_bytes[OMMAI_UTF8_MAX_BYTES];
    assert_int_equal(ommai_utf8_encode(c, bytes), ommai_utf8_encode(instead, instead_bytes));
    assert_int_equal(ommai_unicode_stand_in(instead), instead);
    assert_true(ommai_unicode_stands_in(instead));
    n++;
  }
  assert_true(n > 10000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(classes_are_the_official_ones),
      cmocka_unit_test(every_code_point_keeps_its_place),
      cmocka_unit_test(texts_are_composed_as_official),
      cmocka_unit_test(stand_ins_can_be_put_in_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
