/* Lines of the log: what clients send cannot break out of them. */
#include "server/core/log_line.h"

#include <jansson.h>

#include "base/allocator.h"
#include "support/test.h"

#define HOSTILE "a b\"\\\n\r\x1b[31m\x7f\xff\xc3\xa9"

static void make(struct ommai_log_line *line, bool json, const char *value) {
  ommai_log_line_begin(line, &ommai_default_allocator, json, "info", "access");
  ommai_log_line_string(line, "path", value);
  ommai_log_line_string(line, "absent", NULL);
  ommai_log_line_integer(line, "status", 404);
  ommai_log_line_number(line, "temperature", 0.5);
  ommai_log_line_seconds(line, "total", 1.25);
}

static void a_text_line_is_one_line_of_ascii(void **state) {
  (void)state;
  struct ommai_log_line line;
  make(&line, false, HOSTILE);
  const char *text = ommai_log_line_end(&line);
  assert_non_null(text);
  for (const char *c = text; *c; c++) assert_true(*c >= 0x20 && *c < 0x7f);
  assert_non_null(strstr(text, "Z INFO access path=\"a b\\\"\\\\\\x0a\\x0d\\x1b[31m\\x7f\\xff\\xc3\\xa9\" status=404"));
  assert_non_null(strstr(text, " temperature=0.5 total=1.2500"));
  assert_null(strstr(text, "absent"));
  assert_int_equal(text[4], '-');
  assert_int_equal(text[10], 'T');
  ommai_log_line_free(&line);
}

static void plain_values_are_not_quoted(void **state) {
  (void)state;
  struct ommai_log_line line;
  make(&line, false, "/v1/models");
  assert_non_null(strstr(ommai_log_line_end(&line), " path=/v1/models status=404"));
  ommai_log_line_free(&line);
  make(&line, false, "");
  assert_non_null(strstr(ommai_log_line_end(&line), " path=\"\" status=404"));
  ommai_log_line_free(&line);
}

static void a_json_line_is_one_object(void **state) {
  (void)state;
  struct ommai_log_line line;
  json_error_t reason;
  make(&line, true, HOSTILE);
  const char *text = ommai_log_line_end(&line);
  assert_non_null(text);
  for (const char *c = text; *c; c++) assert_true(*c >= 0x20 && *c < 0x7f);
  json_t *root = json_loads(text, 0, &reason);
  if (!root) fail_msg("%s: %s", text, reason.text);
  assert_string_equal(json_string_value(json_object_get(root, "event")), "access");
  assert_string_equal(json_string_value(json_object_get(root, "level")), "info");
  assert_string_equal(json_string_value(json_object_get(root, "path")), "a b\"\\\n\r\x1b[31m\x7f\xef\xbf\xbd\xc3\xa9");
  assert_int_equal(json_integer_value(json_object_get(root, "status")), 404);
  assert_true(json_real_value(json_object_get(root, "total")) == 1.25);
  json_decref(root);
  ommai_log_line_free(&line);
}

static void a_json_line_keeps_all_characters(void **state) {
  (void)state;
  static const char value[] =
      "\xc2\x9b"
      "2J \xe2\x80\xae \xf0\x9f\x90\x9b \xef\xbf\xbf";
  struct ommai_log_line line;
  make(&line, true, value);
  const char *text = ommai_log_line_end(&line);
  assert_non_null(strstr(text, "\"\\u009b2J \\u202e \\ud83d\\udc1b \\uffff\""));
  json_t *root = json_loads(text, 0, NULL);
  assert_non_null(root);
  assert_string_equal(json_string_value(json_object_get(root, "path")), value);
  json_decref(root);
  ommai_log_line_free(&line);
}

static void long_values_are_cut(void **state) {
  (void)state;
  static char value[5000];
  struct ommai_log_line line;
  memset(value, 'x', sizeof value - 1);
  make(&line, false, value);
  const char *text = ommai_log_line_end(&line);
  assert_true(strlen(text) < 700);
  assert_non_null(strstr(text, "xxx... status=404"));
  ommai_log_line_free(&line);
}

static void without_memory_there_is_no_line(void **state) {
  (void)state;
  struct test_allocator allocator;
  struct ommai_log_line line;
  test_allocator_init(&allocator);
  allocator.fail_at = 0;
  ommai_log_line_begin(&line, &allocator.interface, true, "info", "access");
  ommai_log_line_string(&line, "path", "x");
  assert_null(ommai_log_line_end(&line));
  ommai_log_line_free(&line);
  assert_int_equal(allocator.n_live, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_text_line_is_one_line_of_ascii),
      cmocka_unit_test(plain_values_are_not_quoted),
      cmocka_unit_test(a_json_line_is_one_object),
      cmocka_unit_test(a_json_line_keeps_all_characters),
      cmocka_unit_test(long_values_are_cut),
      cmocka_unit_test(without_memory_there_is_no_line),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
