#include "text/detokenizer.h"

#include <stdlib.h>

#include "support/text_fixture.h"

/* Pushes ids one by one; every output must consist of whole characters. Returns all of it, to
 * free(). */
static char *stream(const struct ommai_tokenizer *tokenizer, const int32_t *ids, size_t n, bool skip, size_t *size) {
  struct ommai_detokenizer detokenizer = {0};
  char *text = malloc((n + 1) * OMMAI_DETOKENIZER_MAX_OUTPUT);
  size_t used = 0, offset;
  for (size_t i = 0; i <= n; i++) {
    char out[OMMAI_DETOKENIZER_MAX_OUTPUT];
    size_t added =
        i < n ? ommai_detokenizer_push(&detokenizer, tokenizer, ids[i], skip, out) : ommai_detokenizer_flush(&detokenizer, out);
    assert_true(ommai_utf8_valid(out, added, &offset));
    memcpy(text + used, out, added);
    used += added;
  }
  assert_int_equal(detokenizer.n_pending, 0);
  *size = used;
  return text;
}

static void streams_are_the_official_decodes(void **state) {
  (void)state;
  for (size_t f = 0; f < OMMA_N_TEXT_FIXTURES; f++) {
    char path[64];
    snprintf(path, sizeof path, "%s/cases.json", text_fixture_names[f]);
    struct ommai_tokenizer *tokenizer = text_fixture_tokenizer(OMMA_TEST_DATA, text_fixture_names[f]);
    json_t *root = text_fixture_json(OMMA_TEST_DATA, path);
    const json_t *cases = json_object_get(root, "decode");
    for (size_t i = 0; i < json_array_size(cases); i++) {
      const json_t *one = json_array_get(cases, i);
      size_t n, size, n_expected;
      int32_t *ids = text_fixture_ids(json_array_get(one, 0), &n);
      char *expected = text_fixture_bytes(json_array_get(one, 2), &n_expected);
      char *text = stream(tokenizer, ids, n, json_is_true(json_array_get(one, 1)), &size);
      assert_int_equal(size, n_expected);
      assert_memory_equal(text, expected, size);
      free(text);
      free(expected);
      free(ids);
    }
    json_decref(root);
    ommai_tokenizer_destroy(tokenizer);
  }
}

/* The id of a single byte. */
static int32_t byte_id(const struct ommai_tokenizer *tokenizer, unsigned char byte) {
  for (int32_t id = 0; id < ommai_tokenizer_vocab_size(tokenizer); id++) {
    const char *bytes;
    size_t size;
    ommai_tokenizer_token_bytes(tokenizer, id, &bytes, &size, NULL);
    if (size == 1 && (unsigned char)bytes[0] == byte) return id;
  }
  fail_msg("byte 0x%02x has no token", byte);
  return -1;
}

struct step {
  unsigned char byte;
  const char *expected; /* what this byte must bring out at once */
};

static void check_steps(const struct ommai_tokenizer *tokenizer, const struct step *steps, size_t n, const char *at_end) {
  struct ommai_detokenizer detokenizer = {0};
  char out[OMMAI_DETOKENIZER_MAX_OUTPUT];
  for (size_t i = 0; i < n; i++) {
    size_t size = ommai_detokenizer_push(&detokenizer, tokenizer, byte_id(tokenizer, steps[i].byte), true, out);
    assert_int_equal(size, strlen(steps[i].expected));
    assert_memory_equal(out, steps[i].expected, size);
  }
  size_t size = ommai_detokenizer_flush(&detokenizer, out);
  assert_int_equal(size, strlen(at_end));
  assert_memory_equal(out, at_end, size);
}

/* A character appears with its last byte; what is broken appears as soon as no continuation can
 * mend it. */
static void text_appears_at_the_right_time(void **state) {
  (void)state;
  struct ommai_tokenizer *tokenizer = text_fixture_tokenizer(OMMA_TEST_DATA, "digits");
  const struct step whole[] = {{'a', "a"},           {0xF0, ""}, {0x9F, ""},      {0x99, ""},
                               {0x82, "\U0001F642"}, {0xC3, ""}, {0xA9, "\u00E9"}};
  check_steps(tokenizer, whole, 7, "");
  const struct step interrupted[] = {{0xE4, ""},
                                     {0xB8, ""},
                                     {'b',
                                      "\uFFFD"
                                      "b"},
                                     {0xC3, ""},
                                     {0xC3, "\uFFFD"}};
  check_steps(tokenizer, interrupted, 5, "\uFFFD");
  const struct step never[] = {{0x80, "\uFFFD"}, {0xFF, "\uFFFD"}, {0xE0, ""}, {0x80, "\uFFFD\uFFFD"}, {0xF0, ""}, {0x9F, ""}};
  check_steps(tokenizer, never, 6, "\uFFFD");
  ommai_tokenizer_destroy(tokenizer);
}

/* Special tokens that are skipped, and ids without text, do not cut a character in two. */
static void silent_ids_leave_a_character_open(void **state) {
  (void)state;
  struct ommai_tokenizer *tokenizer = text_fixture_tokenizer(OMMA_TEST_DATA, "digits");
  struct ommai_detokenizer detokenizer = {0};
  char out[OMMAI_DETOKENIZER_MAX_OUTPUT];
  int32_t special;
  assert_true(ommai_tokenizer_find(tokenizer, "<|im_end|>", &special));
  assert_int_equal(ommai_detokenizer_push(&detokenizer, tokenizer, byte_id(tokenizer, 0xC3), true, out), 0);
  assert_int_equal(ommai_detokenizer_push(&detokenizer, tokenizer, special, true, out), 0);
  assert_int_equal(ommai_detokenizer_push(&detokenizer, tokenizer, 1 << 24, true, out), 0);
  assert_int_equal(ommai_detokenizer_push(&detokenizer, tokenizer, -1, true, out), 0);
  assert_int_equal(ommai_detokenizer_push(&detokenizer, tokenizer, byte_id(tokenizer, 0xA9), true, out), 2);
  assert_memory_equal(out, "\u00E9", 2);
  assert_int_equal(ommai_detokenizer_push(&detokenizer, tokenizer, special, false, out), 10);
  ommai_tokenizer_destroy(tokenizer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(streams_are_the_official_decodes),
      cmocka_unit_test(text_appears_at_the_right_time),
      cmocka_unit_test(silent_ids_leave_a_character_open),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
