/* The part of cmocka that the tests of the attention operator use, for builds without any library
 * (a cross compiler's, for example). A failure ends the program; everything else reads as
 * cmocka's. Included after the headers that cmocka.h wants. */
#pragma once

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
  const char *name;
  void (*test_func)(void **state);
  int (*setup_func)(void **state);
  int (*teardown_func)(void **state);
  void *initial_state;
};

/* Of the file that runs the tests. */
static jmp_buf bare_skipped __attribute__((unused));

/* Prints where and why, and ends the program. */
_Noreturn __attribute__((format(printf, 3, 4))) static inline void bare_fail(const char *file, int line, const char *format,
                                                                             ...) {
  va_list arguments;
  fprintf(stderr, "%s:%d: ", file, line);
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputs("\n[  FAILED  ]\n", stderr);
  exit(1);
}

static inline void bare_compare_integers(const char *file, int line, uintmax_t found, uintmax_t expected) {
  if (found != expected) bare_fail(file, line, "found %#" PRIxMAX ", expected %#" PRIxMAX, found, expected);
}

static inline void bare_compare_memory(const char *file, int line, const void *found, const void *expected, size_t size) {
  const unsigned char *a = found, *b = expected;
  for (size_t i = 0; i < size; i++) {
    if (a[i] != b[i]) bare_fail(file, line, "byte %zu: found %#x, expected %#x", i, a[i], b[i]);
  }
}

static inline void bare_compare_strings(const char *file, int line, const char *found, const char *expected) {
  if (strcmp(found, expected) != 0) bare_fail(file, line, "found \"%s\", expected \"%s\"", found, expected);
}

static inline int bare_run(const struct CMUnitTest *tests, size_t n_tests) {
  volatile size_t n_passed = 0;
  for (volatile size_t i = 0; i < n_tests; i++) {
    void *state = tests[i].initial_state;
    if (!tests[i].name) continue;
    fprintf(stderr, "[ RUN      ] %s\n", tests[i].name);
    if (setjmp(bare_skipped) != 0) {
      fprintf(stderr, "[  SKIPPED ] %s\n", tests[i].name);
      continue;
    }
    if (tests[i].setup_func && tests[i].setup_func(&state) != 0) return 1;
    tests[i].test_func(&state);
    if (tests[i].teardown_func && tests[i].teardown_func(&state) != 0) return 1;
    fprintf(stderr, "[       OK ] %s\n", tests[i].name);
    n_passed++;
  }
  fprintf(stderr, "[  PASSED  ] %zu test(s).\n", n_passed);
  return 0;
}

#define print_message(...) (void)printf(__VA_ARGS__)
#define fail_msg(...) bare_fail(__FILE__, __LINE__, __VA_ARGS__)
#define assert_true(condition) ((condition) ? (void)0 : fail_msg("%s", #condition))
#define assert_null(pointer) assert_true((pointer) == NULL)
#define assert_non_null(pointer) assert_true((pointer) != NULL)
#define assert_int_equal(found, expected) bare_compare_integers(__FILE__, __LINE__, (uintmax_t)(found), (uintmax_t)(expected))
#define assert_memory_equal(found, expected, size) bare_compare_memory(__FILE__, __LINE__, found, expected, size)
#define assert_string_equal(found, expected) bare_compare_strings(__FILE__, __LINE__, found, expected)

#define skip() longjmp(bare_skipped, 1)

#define cmocka_unit_test(test) \
  { #test, test, NULL, NULL, NULL }
#define cmocka_unit_test_setup_teardown(test, setup, teardown) \
  { #test, test, setup, teardown, NULL }
#define cmocka_run_group_tests(tests, setup, teardown) bare_run(tests, sizeof(tests) / sizeof *(tests))
