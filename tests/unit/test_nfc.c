#include "text/nfc.h"

#include <stdlib.h>
#include <utf8proc.h>

#include "base/allocator.h"
#include "support/test.h"
#include "text/unicode.h"
#include "text/utf8.h"

/* utf8proc's whole-string function is the reference; it loses U+11A7 after a Hangul syllable, which
 * is tested apart, as are the characters that it knows and the official library does not
 * (test_unicode.c). */
static void check(const char *text, size_t size) {
  struct omma_error error;
  struct ommai_nfc_text normal;
  utf8proc_uint8_t *expected = NULL;
  utf8proc_ssize_t n =
      utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)size, &expected, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  assert_true(n >= 0);
  assert_ok(ommai_nfc(text, size, &ommai_default_allocator, &normal, &error), &error);
  if (normal.size != (size_t)n || memcmp(normal.text, expected, normal.size) != 0)
    fail_msg("differs for \"%.*s\"", (int)size, text);
  ommai_nfc_release(&normal, &ommai_default_allocator);
  free(expected);
}

/* Every code point alone, before and after others that it may combine with. */
static void every_code_point_in_context(void **state) {
  (void)state;
  static const uint32_t contexts[][2] = {{'a', 'b'},       {'e', 0x301},   {0x1100, 0x1161}, {0xAC00, 0x11A8},
                                         {0x304B, 0x3099}, {0x915, 0x93C}, {'q', 0x323},     {0x6C34, 0x0308}};
  for (uint32_t c = 0; c < 0x32000; c++) {
    if ((c >= 0xD800 && c <= 0xDFFF) || c == 0x11A7 || ommai_unicode_is_inert(c)) continue;
    for (size_t i = 0; i < sizeof contexts / sizeof contexts[0]; i++) {
      char text[16];
      size_t size = ommai_utf8_encode(contexts[i][0], text);
      size += ommai_utf8_encode(c, text + size);
      size += ommai_utf8_encode(contexts[i][1], text + size);
      check(text, size);
    }
  }
}

static void random_marks_are_ordered(void **state) {
  (void)state;
  static const uint32_t pool[] = {'a',   'e',    0x301, 0x316,  0x327,  0x345,  0x338, 0x5B0,
                                  0x64B, 0x3099, 0x94D, 0xAC00, 0x11A8, 0x212B, 'x'};
  struct test_random random = {11};
  for (int round = 0; round < 3000; round++) {
    char text[400];
    size_t size = 0;
    int64_t n = test_random_range(&random, 0, 60), spread = test_random_range(&random, 1, 14);
    for (int64_t i = 0; i < n; i++) size += ommai_utf8_encode(pool[test_random_range(&random, 0, spread)], text + size);
    check(text, size);
  }
}

/* U+11A7 is one before the first trailing consonant and combines with nothing. */
static void hangul_filler_is_kept(void **state) {
  (void)state;
  struct omma_error error;
  struct ommai_nfc_text normal;
  const char text[] = "\u1100\u1161\u11A7\u11A8";
  assert_ok(ommai_nfc(text, sizeof text - 1, &ommai_default_allocator, &normal, &error), &error);
  assert_int_equal(normal.size, 9);
  assert_memory_equal(normal.text, "\uAC00\u11A7\u11A8", 9);
  ommai_nfc_release(&normal, &ommai_default_allocator);
}

static void text_in_form_is_not_copied(void **state) {
  (void)state;
  struct omma_error error;
  struct ommai_nfc_text normal;
  const char text[] = "Straße, 図, 한국어, русский, Ünïcödé";
  assert_ok(ommai_nfc(text, sizeof text - 1, &ommai_default_allocator, &normal, &error), &error);
  assert_ptr_equal(normal.text, text);
  assert_null(normal.memory);
}

/* A text that alternates two marks takes quadratic time where marks are sorted by exchanging
 * neighbours. */
static void long_runs_of_marks_are_quick(void **state) {
  (void)state;
  enum { N = 400000 };
  struct omma_error error;
  struct ommai_nfc_text normal;
  char *text = malloc(4 * N);
  for (size_t i = 0; i < N; i++) memcpy(text + 4 * i, "\u0301\u0316", 4);
  assert_ok(ommai_nfc(text, 4 * N, &ommai_default_allocator, &normal, &error), &error);
  assert_int_equal(normal.size, 4 * N);
  assert_memory_equal(normal.text, "\u0316\u0316\u0316", 6);
  assert_memory_equal(normal.text + 4 * N - 4, "\u0301\u0301", 4);
  ommai_nfc_release(&normal, &ommai_default_allocator);
  free(text);
}

/* Each character from the longest ones that make its parts: the bound on how much shorter form C
 * can be. */
static void texts_shrink_no_more_than_stated(void **state) {
  (void)state;
  enum { N_POINTS = 0x110000, MAX_PARTS = 8 };
  uint8_t *longest = calloc(N_POINTS, 1);
  char bytes[OMMAI_UTF8_MAX_BYTES];
  utf8proc_int32_t parts[MAX_PARTS];
  double max_shrinking = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (int32_t c = 0; c < N_POINTS; c++) {
      if (c >= 0xD800 && c <= 0xDFFF) continue;
      size_t size = ommai_utf8_encode((uint32_t)c, bytes), made_of = 0;
      utf8proc_ssize_t n = utf8proc_decompose_char(c, parts, MAX_PARTS, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, NULL);
      assert_true(n >= 1 && n <= MAX_PARTS);
      if (pass == 0 && n == 1 && size > longest[parts[0]]) longest[parts[0]] = (uint8_t)size;
      for (utf8proc_ssize_t i = 0; i < n; i++) made_of += longest[parts[i]];
      if (pass == 1 && (double)made_of / (double)size > max_shrinking) max_shrinking = (double)made_of / (double)size;
    }
  }
  assert_true(max_shrinking == 3.5 && max_shrinking <= OMMAI_NFC_MAX_SHRINKING);
  free(longest);
}

static void failing_allocations_are_reported(void **state) {
  (void)state;
  struct test_allocator allocator;
  struct omma_error error;
  struct ommai_nfc_text normal;
  for (int64_t fail_at = 0; fail_at < 2; fail_at++) {
    test_allocator_init(&allocator);
    allocator.fail_at = fail_at;
    assert_fails(ommai_nfc("e\u0301", 3, &allocator.interface, &normal, &error), OMMA_ERROR_MEMORY, "normalisation", &error);
    assert_int_equal(allocator.n_live, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_code_point_in_context),
      cmocka_unit_test(random_marks_are_ordered),
      cmocka_unit_test(hangul_filler_is_kept),
      cmocka_unit_test(text_in_form_is_not_copied),
      cmocka_unit_test(long_runs_of_marks_are_quick),
      cmocka_unit_test(failing_allocations_are_reported),
      cmocka_unit_test(texts_shrink_no_more_than_stated),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
