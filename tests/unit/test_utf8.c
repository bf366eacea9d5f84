#include "text/utf8.h"

#include <stdlib.h>
#include <utf8proc.h>

#include "support/text_fixture.h"

static void every_code_point_survives(void **state) {
  (void)state;
  for (uint32_t c = 0; c < 0x110000; c++) {
    char bytes[OMMAI_UTF8_MAX_BYTES];
    size_t size = ommai_utf8_encode(c, bytes), length = 0, offset;
    uint32_t back = 0;
    if (c >= 0xD800 && c <= 0xDFFF) {
      assert_int_equal(ommai_utf8_next(bytes, size, &length, &back), OMMAI_UTF8_INVALID);
      continue;
    }
    assert_int_equal(ommai_utf8_next(bytes, size, &length, &back), OMMAI_UTF8_VALID);
    assert_int_equal(back, c);
    assert_int_equal(length, size);
    assert_int_equal(ommai_utf8_decode(bytes, &length), c);
    assert_int_equal(length, size);
    assert_true(ommai_utf8_valid(bytes, size, &offset));
    for (size_t cut = 1; cut < size; cut++) {
      assert_int_equal(ommai_utf8_next(bytes, cut, &length, &back), OMMAI_UTF8_INCOMPLETE);
      assert_int_equal(length, cut);
    }
  }
}

static void replacement_is_that_of_python(void **state) {
  (void)state;
  json_t *root = text_fixture_json(OMMA_TEST_DATA, "utf8.json");
  const json_t *cases = json_object_get(root, "cases");
  for (size_t i = 0; i < json_array_size(cases); i++) {
    size_t size, n_expected, offset;
    char *bytes = text_fixture_bytes(json_array_get(json_array_get(cases, i), 0), &size);
    char *expected = text_fixture_bytes(json_array_get(json_array_get(cases, i), 1), &n_expected);
    char *out = malloc(3 * size + 1);
    assert_int_equal(ommai_utf8_replace(bytes, size, NULL, 0), n_expected);
    assert_int_equal(ommai_utf8_replace(bytes, size, out, 3 * size), n_expected);
    assert_memory_equal(out, expected, n_expected);
    bool same = size == n_expected && memcmp(bytes, expected, size) == 0;
    assert_int_equal(ommai_utf8_valid(bytes, size, &offset), same);
    if (!same) assert_memory_equal(bytes, expected, offset);
    free(out);
    free(expected);
    free(bytes);
  }
  json_decref(root);
}

/* The offset is right at every place of a long text, whatever the reading in words of eight bytes
 * does. */
static void offset_of_the_first_fault(void **state) {
  (void)state;
  for (size_t at = 0; at < 40; at++) {
    char text[41];
    size_t offset = 99;
    memset(text, 'x', sizeof text);
    text[at] = (char)0x80;
    assert_false(ommai_utf8_valid(text, sizeof text, &offset));
    assert_int_equal(offset, at);
    assert_true(ommai_utf8_valid(text, at, &offset));
  }
}

static void white_space_is_that_of_unicode(void **state) {
  (void)state;
  for (int32_t c = 0; c < 0x110000; c++) {
    utf8proc_category_t category = utf8proc_category(c);
    bool expected = category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP ||
                    (c >= 9 && c <= 13) || c == 0x85;
    assert_int_equal(ommai_utf8_white_space((uint32_t)c), expected);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_code_point_survives),
      cmocka_unit_test(replacement_is_that_of_python),
      cmocka_unit_test(offset_of_the_first_fault),
      cmocka_unit_test(white_space_is_that_of_unicode),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
