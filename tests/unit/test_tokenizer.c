#include "text/tokenizer.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/allocator.h"
#include "support/text_fixture.h"
#include "text/utf8.h"

struct fixture {
  const char *name;
  struct ommai_tokenizer *tokenizer;
  json_t *cases;
};

static struct fixture open_fixture(const char *name) {
  char path[64];
  snprintf(path, sizeof path, "%s/cases.json", name);
  return (struct fixture){name, text_fixture_tokenizer(OMMA_TEST_DATA, name), text_fixture_json(OMMA_TEST_DATA, path)};
}

static void close_fixture(struct fixture *fixture) {
  ommai_tokenizer_destroy(fixture->tokenizer);
  json_decref(fixture->cases);
}

/* Encodes with the size asked for first, and compares with the official ids. Returns false on a
 * difference. */
static bool encodes_as_official(const struct fixture *fixture, const json_t *one) {
  struct omma_error error;
  size_t size, n_expected, needed, count;
  char *text = text_fixture_bytes(json_array_get(one, 0), &size);
  int32_t *expected = text_fixture_ids(json_array_get(one, 1), &n_expected);
  assert_ok(ommai_tokenizer_encode(fixture->tokenizer, text, size, true, NULL, 0, &needed, &error), &error);
  assert_true(needed <= 3 * size);
  int32_t *ids = malloc((needed + 1) * sizeof *ids);
  assert_ok(ommai_tokenizer_encode(fixture->tokenizer, text, size, true, ids, needed, &count, &error), &error);
  assert_int_equal(count, needed);
  bool same = count == n_expected && memcmp(ids, expected, count * sizeof *ids) == 0;
  if (!same) print_error("%s: \"%s\"\n", fixture->name, text);
  free(ids);
  free(expected);
  free(text);
  return same;
}

static void ids_are_the_official_ones(void **state) {
  (void)state;
  for (size_t f = 0; f < OMMA_N_TEXT_FIXTURES; f++) {
    struct fixture fixture = open_fixture(text_fixture_names[f]);
    const json_t *cases = json_object_get(fixture.cases, "encode");
    assert_true(json_array_size(cases) > 250);
    int n_wrong = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) n_wrong += !encodes_as_official(&fixture, json_array_get(cases, i));
    assert_int_equal(n_wrong, 0);
    close_fixture(&fixture);
  }
}

static void decodes_are_the_official_ones(void **state) {
  (void)state;
  struct omma_error error;
  for (size_t f = 0; f < OMMA_N_TEXT_FIXTURES; f++) {
    struct fixture fixture = open_fixture(text_fixture_names[f]);
    const json_t *cases = json_object_get(fixture.cases, "decode");
    for (size_t i = 0; i < json_array_size(cases); i++) {
      const json_t *one = json_array_get(cases, i);
      size_t n_ids, size, n_expected, needed;
      int32_t *ids = text_fixture_ids(json_array_get(one, 0), &n_ids);
      bool skip = json_is_true(json_array_get(one, 1));
      char *expected = text_fixture_bytes(json_array_get(one, 2), &n_expected);
      assert_ok(ommai_tokenizer_decode(fixture.tokenizer, ids, n_ids, skip, NULL, 0, &needed, &error), &error);
      char *bytes = malloc(needed + 1), *text = malloc(3 * needed + 1);
      assert_ok(ommai_tokenizer_decode(fixture.tokenizer, ids, n_ids, skip, bytes, needed, &size, &error), &error);
      assert_int_equal(size, needed);
      size_t n_text = ommai_utf8_replace(bytes, size, text, 3 * needed);
      assert_int_equal(n_text, n_expected);
      assert_memory_equal(text, expected, n_text);
      free(text);
      free(bytes);
      free(expected);
      free(ids);
    }
    close_fixture(&fixture);
  }
}

/* What is in form C and has no white space taken along comes back byte for byte. */
static void encoding_loses_nothing(void **state) {
  (void)state;
  struct omma_error error;
  struct ommai_tokenizer *tokenizer = text_fixture_tokenizer(OMMA_TEST_DATA, "capitals");
  struct test_random random = {7};
  for (int round = 0; round < 500; round++) {
    char text[256], back[256];
    size_t size = 0, count, n_back;
    int32_t ids[256];
    while (size < 200) {
      uint32_t c = (uint32_t)test_random_range(&random, 0, round % 2 ? 0x17F : 0x10FFFF);
      if (c < 0xD800 || c > 0xDFFF) size += ommai_utf8_encode(c, text + size);
    }
    for (int parse_added = 0; parse_added < 2; parse_added++) {
      assert_ok(ommai_tokenizer_encode(tokenizer, text, size, parse_added, ids, 256, &count, &error), &error);
      assert_ok(ommai_tokenizer_decode(tokenizer, ids, count, false, back, sizeof back, &n_back, &error), &error);
      assert_int_equal(n_back, size);
      assert_memory_equal(back, text, size);
    }
  }
  ommai_tokenizer_destroy(tokenizer);
}

/* A megabyte in one piece: one that takes time by the square would not end. */
static void a_long_piece_is_encoded(void **state) {
  (void)state;
  enum { SIZE = 1 << 20 };
  struct omma_error error;
  struct ommai_tokenizer *tokenizer = text_fixture_tokenizer(OMMA_TEST_DATA, "marked");
  struct test_random random = {17};
  char *text = malloc(SIZE), *back = malloc(SIZE);
  int32_t *ids = malloc(SIZE * sizeof *ids);
  size_t count, size;
  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < SIZE; i++) text[i] = round ? " aehinrst\n"[test_random_range(&random, 0, 9)] : 'e';
    assert_ok(ommai_tokenizer_encode(tokenizer, text, SIZE, true, ids, SIZE, &count, &error), &error);
    assert_true(count < SIZE);
    assert_ok(ommai_tokenizer_decode(tokenizer, ids, count, false, back, SIZE, &size, &error), &error);
    assert_int_equal(size, SIZE);
    assert_memory_equal(text, back, SIZE);
  }
  free(ids);
  free(back);
  free(text);
  ommai_tokenizer_destroy(tokenizer);
}

static void added_tokens_can_be_plain_text(void **state) {
  (void)state;
  struct omma_error error;
  struct ommai_tokenizer *tokenizer = text_fixture_tokenizer(OMMA_TEST_DATA, "digits");
  const char text[] = "<|im_end|>";
  int32_t ids[16], marker;
  size_t count, size;
  assert_true(ommai_tokenizer_find(tokenizer, text, &marker));
  assert_ok(ommai_tokenizer_encode(tokenizer, text, sizeof text - 1, true, ids, 16, &count, &error), &error);
  assert_int_equal(count, 1);
  assert_int_equal(ids[0], marker);
  assert_ok(ommai_tokenizer_encode(tokenizer, text, sizeof text - 1, false, ids, 16, &count, &error), &error);
  assert_true(count > 1);
  for (size_t i = 0; i < count; i++) assert_int_not_equal(ids[i], marker);
  char back[16];
  assert_ok(ommai_tokenizer_decode(tokenizer, ids, count, true, back, sizeof back, &size, &error), &error);
  assert_int_equal(size, sizeof text - 1);
  assert_memory_equal(back, text, size);
  ommai_tokenizer_destroy(tokenizer);
}

static void tokens_have_bytes_and_kinds(void **state) {
  (void)state;
  struct ommai_tokenizer *tokenizer = text_fixture_tokenizer(OMMA_TEST_DATA, "digits");
  const char *bytes;
  size_t size;
  bool special;
  int32_t id, n_ids = ommai_tokenizer_vocab_size(tokenizer);
  assert_true(ommai_tokenizer_find(tokenizer, "<|im_start|>", &id));
  assert_true(ommai_tokenizer_token_bytes(tokenizer, id, &bytes, &size, &special));
  assert_int_equal(size, 12);
  assert_memory_equal(bytes, "<|im_start|>", 12);
  assert_true(special);
  assert_true(ommai_tokenizer_find(tokenizer, "<think>", &id));
  assert_true(ommai_tokenizer_token_bytes(tokenizer, id, &bytes, &size, &special));
  assert_false(special);
  assert_true(ommai_tokenizer_find(tokenizer, " the", &id));
  assert_true(ommai_tokenizer_token_bytes(tokenizer, id, &bytes, &size, NULL));
  assert_memory_equal(bytes, " the", 4);
  assert_false(ommai_tokenizer_find(tokenizer, "no such token", &id));
  assert_false(ommai_tokenizer_find(tokenizer, "", &id));
  for (int32_t i = -2; i < n_ids + 3; i++) {
    bool known = ommai_tokenizer_token_bytes(tokenizer, i, &bytes, &size, &special);
    assert_int_equal(known, i >= 0 && i < n_ids);
    assert_int_equal(known, size > 0);
    if (!known) assert_false(special);
  }
  ommai_tokenizer_destroy(tokenizer);
}

static void wrong_calls_report_what_is_wrong(void **state) {
  (void)state;
  struct omma_error error;
  struct ommai_tokenizer *tokenizer = text_fixture_tokenizer(OMMA_TEST_DATA, "digits");
  int32_t ids[4];
  char out[4];
  size_t count, size;
  assert_fails(ommai_tokenizer_encode(tokenizer, "abc\xE4\xB8", 5, true, ids, 4, &count, &error), OMMA_ERROR_FORMAT, "byte 3",
               &error);
  assert_fails(ommai_tokenizer_encode(tokenizer, "\xED\xA0\x80", 3, true, ids, 4, &count, &error), OMMA_ERROR_FORMAT, "byte 0",
               &error);
  assert_fails(ommai_tokenizer_encode(tokenizer, "1234567", 7, true, ids, 4, &count, &error), OMMA_ERROR_ARGUMENT,
               "room for 4, needs 7", &error);
  assert_int_equal(count, 7);
  assert_fails(ommai_tokenizer_encode(tokenizer, "", OMMAI_TOKENIZER_MAX_TEXT + 1, true, ids, 4, &count, &error),
               OMMA_ERROR_LIMIT, "8388609", &error);
  assert_ok(ommai_tokenizer_encode(tokenizer, NULL, 0, true, NULL, 0, &count, &error), &error);
  assert_int_equal(count, 0);
  const int32_t negative[2] = {3, -7}, padding[3] = {1, 1 << 20, INT32_MAX}, many[5] = {1, 2, 3, 4, 5};
  assert_fails(ommai_tokenizer_decode(tokenizer, negative, 2, false, out, 4, &size, &error), OMMA_ERROR_ARGUMENT, "ids[1]",
               &error);
  assert_fails(ommai_tokenizer_decode(tokenizer, many, 5, false, out, 4, &size, &error), OMMA_ERROR_ARGUMENT, "needs 5",
               &error);
  assert_int_equal(size, 5);
  assert_ok(ommai_tokenizer_decode(tokenizer, padding, 3, false, out, 4, &size, &error), &error);
  assert_int_equal(size, 1);
  ommai_tokenizer_destroy(tokenizer);
}

/* A count is exact below its limit, and never more than there is. */
static void counts_stop_at_their_limit(void **state) {
  (void)state;
  struct omma_error error;
  for (size_t f = 0; f < OMMA_N_TEXT_FIXTURES; f++) {
    struct fixture fixture = open_fixture(text_fixture_names[f]);
    const json_t *cases = json_object_get(fixture.cases, "encode");
    for (size_t i = 0; i < json_array_size(cases); i++) {
      size_t size, exact = json_array_size(json_array_get(json_array_get(cases, i), 1)), count;
      char *text = text_fixture_bytes(json_array_get(json_array_get(cases, i), 0), &size);
      const size_t limits[] = {exact + 1, exact, exact / 2, 1};
      for (size_t l = 0; l < sizeof limits / sizeof limits[0]; l++) {
        assert_ok(ommai_tokenizer_count(fixture.tokenizer, text, size, limits[l], &count, &error), &error);
        if (exact < limits[l]) {
          assert_int_equal(count, exact);
        } else {
          assert_true(count >= limits[l] && count <= exact);
        }
      }
      free(text);
    }
    close_fixture(&fixture);
  }
}

/* What is broken at its end is not looked at where its length alone makes it too long. */
static void hopeless_texts_are_not_read(void **state) {
  (void)state;
  enum { SIZE = 40000, LIMIT = 100 };
  struct omma_error error;
  size_t count;
  char *text = malloc(SIZE);
  memset(text, ' ', SIZE);
  text[SIZE - 1] = (char)0xFF;
  struct ommai_tokenizer *tokenizer = text_fixture_tokenizer(OMMA_TEST_DATA, "digits");
  assert_ok(ommai_tokenizer_count(tokenizer, text, SIZE, LIMIT, &count, &error), &error);
  assert_true(count >= LIMIT && count < SIZE);
  assert_fails(ommai_tokenizer_count(tokenizer, text, SIZE, SIZE, &count, &error), OMMA_ERROR_FORMAT, "byte 39999", &error);
  ommai_tokenizer_destroy(tokenizer);
  /* A token that takes white space along may cover all of it. */
  tokenizer = text_fixture_tokenizer(OMMA_TEST_DATA, "plain");
  memcpy(text + SIZE - 6, "[LEFT]", 6);
  assert_ok(ommai_tokenizer_count(tokenizer, text, SIZE, LIMIT, &count, &error), &error);
  assert_int_equal(count, 1);
  ommai_tokenizer_destroy(tokenizer);
  free(text);
}

/* Every allocation of an encoding that needs all of them fails once; afterwards nothing is left
 * behind. */
static void failing_allocations_are_reported(void **state) {
  (void)state;
  struct test_allocator allocator;
  struct omma_error error;
  struct ommai_tokenizer *tokenizer;
  test_allocator_init(&allocator);
  assert_ok(ommai_tokenizer_load(OMMA_TEST_DATA "/data/text/digits", &allocator.interface, &tokenizer, &error), &error);
  int64_t live = allocator.n_live, first = allocator.n_allocations;
  char text[1500];
  size_t count;
  for (size_t i = 0; i < sizeof text; i += 3) memcpy(text + i, "e\xCC\x81", 3);
  assert_ok(ommai_tokenizer_encode(tokenizer, text, sizeof text, true, NULL, 0, &count, &error), &error);
  int64_t n = allocator.n_allocations - first;
  assert_true(n >= 4);
  for (int64_t i = 0; i < n; i++) {
    allocator.fail_at = allocator.n_allocations + i;
    assert_fails(ommai_tokenizer_encode(tokenizer, text, sizeof text, true, NULL, 0, &count, &error), OMMA_ERROR_MEMORY,
                 "out of memory", &error);
    allocator.fail_at = -1;
    assert_int_equal(allocator.n_live, live);
  }
  ommai_tokenizer_destroy(tokenizer);
  assert_int_equal(allocator.n_live, 0);
}

static void *encode_all(void *argument) {
  const struct fixture *fixture = argument;
  const json_t *cases = json_object_get(fixture->cases, "encode");
  intptr_t n_wrong = 0;
  for (size_t i = 0; i < json_array_size(cases); i++) n_wrong += !encodes_as_official(fixture, json_array_get(cases, i));
  return (void *)n_wrong;
}

static void threads_share_a_tokenizer(void **state) {
  (void)state;
  enum { N_THREADS = 4 };
  struct fixture fixture = open_fixture("digits");
  pthread_t threads[N_THREADS];
  for (int i = 0; i < N_THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, encode_all, &fixture), 0);
  for (int i = 0; i < N_THREADS; i++) {
    void *n_wrong;
    pthread_join(threads[i], &n_wrong);
    assert_null(n_wrong);
  }
  close_fixture(&fixture);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ids_are_the_official_ones),        cmocka_unit_test(decodes_are_the_official_ones),
      cmocka_unit_test(encoding_loses_nothing),           cmocka_unit_test(a_long_piece_is_encoded),
      cmocka_unit_test(added_tokens_can_be_plain_text),   cmocka_unit_test(counts_stop_at_their_limit),
      cmocka_unit_test(hopeless_texts_are_not_read),      cmocka_unit_test(tokens_have_bytes_and_kinds),
      cmocka_unit_test(wrong_calls_report_what_is_wrong), cmocka_unit_test(failing_allocations_are_reported),
      cmocka_unit_test(threads_share_a_tokenizer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
