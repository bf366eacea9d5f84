/* Settings by table: reading, defaults, ranges of what a program filled, names in errors. */
#include <math.h>

#include "base/option.h"
#include "server/core/server_options.h"
#include "support/test.h"

struct values {
  bool flag;
  const char *text;
  struct ommai_strings list;
  int port;
  int64_t wait_ms;
  double share;
  struct ommai_optional_integer limit, choice;
  struct ommai_optional_number heat;
  struct {
    int64_t bytes;
  } inner;
};
#define OMMAI_VALUES struct values

static const char *const words[] = {"left", "right", NULL}, *const automatic[] = {"auto", NULL};

static const struct ommai_option table[] = {
    OMMAI_FLAG("flag", flag, "a flag", .initial = "on"),
    OMMAI_STRING("text", text, "T", "a text", .initial = "none"),
    OMMAI_WORDS("list", list, "T", "a list"),
    OMMAI_INTEGER("port", port, "N", 0, 65535, "an int", .initial = "8000"),
    OMMAI_INTEGER("wait", wait_ms, "S", 1, 60, "seconds, kept as milliseconds", .initial = "5", .factor = 1000),
    OMMAI_NUMBER("share", share, "X", 0, 1, "a number", .initial = "0.5", .above_minimum = true),
    OMMAI_SIZE("limit", limit, "SIZE", 1, (int64_t)1 << 40, "left open", .unset_words = automatic),
    OMMAI_CHOICE("choice", choice, "WORD", words, "a choice, left open"),
    OMMAI_NUMBER("heat", heat, "X", 0, INFINITY, "a number, left open"),
    OMMAI_SIZE("inner-bytes", inner.bytes, "SIZE", 16, 1024, "of a struct inside", .initial = "1K"),
};
enum { FLAG, TEXT, LIST, PORT, WAIT, SHARE, LIMIT, CHOICE, HEAT, INNER, N_OPTIONS };

static void set_defaults(struct values *values) {
  for (size_t i = 0; i < N_OPTIONS; i++) ommai_option_set_default(&table[i], values);
}

static void defaults_are_read_from_the_table(void **state) {
  (void)state;
  struct values values;
  memset(&values, 0x5a, sizeof values);
  set_defaults(&values);
  assert_true(values.flag);
  assert_string_equal(values.text, "none");
  assert_int_equal(values.list.count, 0);
  assert_int_equal(values.port, 8000);
  assert_int_equal(values.wait_ms, 5000);
  assert_true(values.share == 0.5);
  assert_false(values.limit.given || values.choice.given || values.heat.given);
  assert_int_equal(values.inner.bytes, 1024);
}

static void values_have_the_types_of_their_members(void **state) {
  (void)state;
  static const struct {
    int option;
    const char *text, *shown;
  } cases[] = {{FLAG, "off", "false"}, {FLAG, "true", "true"},  {TEXT, "x", "x"},      {PORT, "0", "0"},
               {WAIT, "7", "7"},       {SHARE, "0.25", "0.25"}, {LIMIT, "2K", "2048"}, {LIMIT, "auto", "none"},
               {CHOICE, "right", "1"}, {CHOICE, "left", "0"},   {HEAT, "0", "0"},      {HEAT, "inf", "inf"},
               {INNER, "16", "16"}};
  struct values values = {0};
  struct omma_error error;
  char shown[32];
  set_defaults(&values);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct ommai_option *option = &table[cases[i].option];
    assert_int_equal(ommai_option_read(option, cases[i].text, &values, &error), OMMA_OK);
    ommai_option_show(option, &values, shown, sizeof shown);
    assert_string_equal(shown, cases[i].shown);
  }
  assert_int_equal(values.wait_ms, 7000);
  assert_true(values.heat.given);
  assert_int_equal(ommai_option_read(&table[LIST], "a", &values, &error), OMMA_OK);
  assert_int_equal(ommai_option_read(&table[LIST], "b", &values, &error), OMMA_OK);
  assert_int_equal(values.list.count, 2);
  assert_string_equal(values.list.items[1], "b");
  ommai_strings_release(&values.list);
}

static void what_does_not_fit_is_refused_with_what_was_expected(void **state) {
  (void)state;
  static const struct {
    int option;
    const char *text, *message;
  } cases[] = {{FLAG, "maybe", "must be true or false"},
               {PORT, "65536", "must be from 0 to 65535"},
               {PORT, "1K", "must be an integer"},
               {PORT, " 1", "must be an integer"},
               {WAIT, "0", "must be from 1 to 60"},
               {SHARE, "0", "must be above 0 and at most 1"},
               {SHARE, "nan", "must be a number"},
               {LIMIT, "0", "must be 1 or more"},
               {LIMIT, "1X", "must be an integer, with a unit (k, K, m, M, g, G) or without"},
               {CHOICE, "up", "must be one of left, right"},
               {HEAT, "-1", "must be 0 or more"}};
  struct values values = {0};
  struct omma_error error;
  set_defaults(&values);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(ommai_option_read(&table[cases[i].option], cases[i].text, &values, &error), OMMA_ERROR_ARGUMENT);
    assert_string_equal(error.message, cases[i].message);
    assert_string_equal(error.field, table[cases[i].option].name);
  }
  assert_int_equal(values.port, 8000);
}

static void numbers_of_a_program_are_checked_by_member(void **state) {
  (void)state;
  struct values values = {0};
  struct omma_error error;
  set_defaults(&values);
  for (size_t i = 0; i < N_OPTIONS; i++) assert_int_equal(ommai_option_check(&table[i], &values, &error), OMMA_OK);
  values.inner.bytes = 15;
  assert_int_equal(ommai_option_check(&table[INNER], &values, &error), OMMA_ERROR_ARGUMENT);
  assert_string_equal(error.field, "bytes");
  assert_string_equal(error.message, "bytes: must be from 16 to 1024, found 15");
  values.wait_ms = 61000;
  assert_int_equal(ommai_option_check(&table[WAIT], &values, &error), OMMA_ERROR_ARGUMENT);
  assert_string_equal(error.message, "wait_ms: must be from 1 to 60, found 61");
}

/* Each setting of the server is within its own range, so that its defaults make a server. */
static void defaults_of_the_server_are_good(void **state) {
  (void)state;
  struct omma_server_options options;
  struct omma_error error;
  ommai_server_options_default(&options);
  assert_int_equal(ommai_server_options_check(&options, &error), OMMA_OK);
  assert_int_equal(options.settings.drain_ns, 5000000000);
  assert_int_equal(options.settings.max_page_pixels, 16000000);
  options.n_workers = 1;
  assert_int_equal(ommai_server_options_check(&options, &error), OMMA_ERROR_ARGUMENT);
  assert_string_equal(error.field, "n_workers");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(defaults_are_read_from_the_table), cmocka_unit_test(values_have_the_types_of_their_members),
      cmocka_unit_test(what_does_not_fit_is_refused_with_what_was_expected),
      cmocka_unit_test(numbers_of_a_program_are_checked_by_member), cmocka_unit_test(defaults_of_the_server_are_good)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
