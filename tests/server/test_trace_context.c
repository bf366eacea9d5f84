/* The header traceparent: what W3C's Trace Context allows, and nothing else. */
#include "server/publish/trace_context.h"

#include <stdlib.h>
#include <string.h>

#include "support/test.h"

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"
#define GOOD "00-" TRACE "-" PARENT "-01"

static bool parse(const char *text, struct ommai_trace_context *context) {
  /* a copy of its exact size, so that AddressSanitizer sees a byte read too many */
  char *copy = strdup(text);
  bool good = ommai_trace_context_parse(copy, context);
  free(copy);
  return good;
}

static void ids_and_the_flag_are_read(void **state) {
  (void)state;
  static const uint8_t trace[] = {0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd,
                                  0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80, 0x31, 0x9c};
  static const uint8_t parent[] = {0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31};
  struct ommai_trace_context context;
  assert_true(parse(GOOD, &context));
  assert_memory_equal(context.trace_id, trace, sizeof trace);
  assert_memory_equal(context.parent_id, parent, sizeof parent);
  assert_true(context.sampled);
  assert_true(parse("00-" TRACE "-" PARENT "-00", &context));
  assert_false(context.sampled);
  assert_true(parse("00-" TRACE "-" PARENT "-ff", &context)); /* unknown flags are left alone */
  assert_true(context.sampled);
  assert_true(parse("00-" TRACE "-" PARENT "-fe", &context));
  assert_false(context.sampled);
}

static void later_versions_may_be_longer(void **state) {
  (void)state;
  struct ommai_trace_context context;
  assert_true(parse("cc-" TRACE "-" PARENT "-01", &context));
  assert_true(parse("cc-" TRACE "-" PARENT "-01-what-the-future-will-be-like", &context));
  assert_false(parse("cc-" TRACE "-" PARENT "-01.what-the-future-will-be-like", &context));
}

static void everything_else_is_refused(void **state) {
  (void)state;
  static const char *const wrong[] = {
      "",
      "-",
      "00",
      "00-" TRACE "-" PARENT,
      "00-" TRACE "-" PARENT "-",
      "00-" TRACE "-" PARENT "-0",
      "00-" TRACE "-" PARENT "-011",
      "00-" TRACE "-" PARENT "-01-",
      GOOD " ",
      " " GOOD,
      GOOD "," GOOD,
      "ff-" TRACE "-" PARENT "-01",
      "0g-" TRACE "-" PARENT "-01",
      "00_" TRACE "-" PARENT "-01",
      "00-" TRACE "_" PARENT "-01",
      "00-" TRACE "-" PARENT "_01",
      "00-0AF7651916CD43DD8448EB211C80319C-" PARENT "-01",
      "00-" TRACE "-B7AD6B7169203331-01",
      "00-" TRACE "-" PARENT "-0X",
      "00-00000000000000000000000000000000-" PARENT "-01",
      "00-" TRACE "-0000000000000000-01",
      "00-0af7651916cd43dd8448eb211c80319\xff-" PARENT "-01",
      "%s%n%s%n-%d",
  };
  struct ommai_trace_context context;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    if (parse(wrong[i], &context)) fail_msg("taken: %s", wrong[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ids_and_the_flag_are_read),
      cmocka_unit_test(later_versions_may_be_longer),
      cmocka_unit_test(everything_else_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
