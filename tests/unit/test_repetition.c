/* What answers repeat: against lists of tokens of which others' code said what it bans and where it
 * ends (tools/make_repetition_fixtures.py), and against the definitions. */
#include "engine/repetition.h"

#include <inttypes.h>

#include "base/allocator.h"
#include "support/test.h"

enum { MAX_TOKENS = 100, MAX_VOCAB = 10 };

/* As the script's. */
static uint64_t draw(uint64_t *seed, uint64_t n) {
  uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (z ^ (z >> 31)) % n;
}

static int32_t next_token(uint64_t *seed, const int32_t *tokens, int64_t n, uint64_t vocab, const bool *banned) {
  int32_t token = (int32_t)draw(seed, vocab);
  int64_t back = (int64_t)draw(seed, 12) + 1;
  if (draw(seed, 3) && back < n) token = tokens[n - back];
  if (draw(seed, 8)) {
    for (uint64_t i = 0; i < vocab && banned[token]; i++) token = (token + 1) % (int32_t)vocab;
  }
  return token;
}

static int64_t find_bans(const struct ommai_repetition *repetition, const int32_t *tokens, int64_t n, bool *banned) {
  int64_t count = 0;
  memset(banned, 0, MAX_VOCAB);
  for (int64_t at = ommai_repetition_first(repetition, tokens, n); at >= 0;
       at = ommai_repetition_next(repetition, tokens, n, at)) {
    assert_false(banned[tokens[at]]); /* none comes twice */
    banned[tokens[at]] = true;
    count++;
  }
  return count;
}

static uint64_t hash_bans(uint64_t digest, int64_t step, const bool *banned, uint64_t vocab) {
  const uint64_t prime = UINT64_C(0x100000001b3);
  digest = (digest ^ (uint64_t)step) * prime;
  for (uint64_t token = 0; token < vocab; token++) {
    if (banned[token]) digest = (digest ^ token) * prime;
  }
  return (digest ^ vocab) * prime;
}

static void a_list_is_as_others_have_it(const char *line) {
  uint64_t seed, vocab, wanted, digest = UINT64_C(0xcbf29ce484222325);
  int64_t length, size, end, found = 0;
  struct omma_repetition_detection detection;
  int32_t tokens[MAX_TOKENS];
  bool banned[MAX_VOCAB] = {false};
  struct omma_error error;
  struct ommai_repetition repetition;
  assert_int_equal(sscanf(line,
                          "%" SCNu64 " %" SCNd64 " %" SCNu64 " %" SCNd64 " %" SCNu64 " %" SCNd64 " %" SCNd64 " %" SCNd64
                          " %" SCNd64,
                          &seed, &length, &vocab, &size, &wanted, &detection.max_pattern_size, &detection.min_pattern_size,
                          &detection.min_count, &end),
                   9);
  for (int i = 0; i < 6; i++) (void)draw(&seed, 1); /* the settings, which the line has */
  assert_ok(ommai_repetition_init(&repetition, size, &detection, length, &ommai_default_allocator, &error), &error);
  for (int64_t n = 1; n <= length; n++) {
    tokens[n - 1] = next_token(&seed, tokens, n - 1, vocab, banned);
    ommai_repetition_take(&repetition, tokens, n);
    find_bans(&repetition, tokens, n, banned);
    digest = hash_bans(digest, n, banned, vocab);
    if (!found && ommai_repetition_found(&repetition, n)) found = n;
  }
  assert_true(digest == wanted);
  assert_int_equal(found, end);
  ommai_repetition_free(&repetition, &ommai_default_allocator);
}

static void lists_are_as_others_have_them(void **state) {
  (void)state;
  char line[200];
  int n = 0;
  FILE *file = fopen(OMMA_TEST_DATA "/data/repetition/answers.txt", "r");
  assert_non_null(file);
  for (; fgets(line, sizeof line, file); n++) a_list_is_as_others_have_it(line);
  fclose(file);
  assert_int_equal(n, 2000);
}

/* ---- the definitions ---- */

static bool is_banned(const int32_t *tokens, int64_t n, int64_t size, int32_t token) {
  for (int64_t at = 0; n >= size && at + size <= n; at++) {
    if (tokens[at + size - 1] == token && !memcmp(tokens + at, tokens + n - (size - 1), (size_t)(size - 1) * sizeof *tokens))
      return true;
  }
  return false;
}

static bool repeats(const int32_t *tokens, int64_t n, int64_t pattern, int64_t count) {
  if (pattern * count > n) return false;
  for (int64_t i = n - pattern * (count - 1); i < n; i++) {
    if (tokens[i] != tokens[i - pattern]) return false;
  }
  return true;
}

/* Sizes from 1 on, also such that the answer is too short for, in lists that repeat themselves over
 * long spans. */
static void lists_are_as_the_settings_say(void **state) {
  (void)state;
  struct test_random random = {20261123};
  static int32_t tokens[1000];
  for (int round = 0; round < 200; round++) {
    int64_t length = test_random_range(&random, 1, 300), size = test_random_range(&random, 1, round % 2 ? 5 : 310);
    int64_t period = test_random_range(&random, 1, 60), noise = test_random_range(&random, 2, 200);
    int64_t low = test_random_range(&random, 0, 20), high = low + test_random_range(&random, 1, 100);
    const struct omma_repetition_detection detection = {high, low, test_random_range(&random, 2, 4)};
    struct ommai_repetition repetition;
    struct omma_error error;
    assert_ok(ommai_repetition_init(&repetition, size, &detection, length, &ommai_default_allocator, &error), &error);
    for (int64_t n = 1; n <= length; n++) {
      bool copied = n > period && test_random_range(&random, 0, noise);
      tokens[n - 1] = copied ? tokens[n - 1 - period] : (int32_t)test_random_range(&random, 0, MAX_VOCAB - 1);
      ommai_repetition_take(&repetition, tokens, n);
      bool banned[MAX_VOCAB], found = false;
      find_bans(&repetition, tokens, n, banned);
      for (int32_t token = 0; token < MAX_VOCAB; token++) {
        assert_int_equal(banned[token], is_banned(tokens, n, size, token) && size < length);
      }
      for (int64_t pattern = low ? low : 1; pattern <= high; pattern++) {
        found = found || repeats(tokens, n, pattern, detection.min_count);
      }
      assert_int_equal(ommai_repetition_found(&repetition, n), found);
    }
    ommai_repetition_free(&repetition, &ommai_default_allocator);
  }
}

static void settings_that_are_off_take_nothing(void **state) {
  (void)state;
  struct ommai_repetition repetition;
  struct omma_error error;
  const struct omma_repetition_detection off = {0, 0, 0};
  const int32_t tokens[] = {1, 1, 1, 1};
  assert_ok(ommai_repetition_init(&repetition, 0, &off, 4, &ommai_default_allocator, &error), &error);
  assert_null(repetition.heads);
  assert_null(repetition.runs);
  for (int64_t n = 1; n <= 4; n++) ommai_repetition_take(&repetition, tokens, n);
  assert_int_equal(ommai_repetition_first(&repetition, tokens, 4), -1);
  assert_false(ommai_repetition_found(&repetition, 4));
  ommai_repetition_free(&repetition, &ommai_default_allocator);
}

/* What an engine's estimate counts is at least what an answer takes. */
static void the_bytes_are_enough(void **state) {
  (void)state;
  const struct omma_repetition_detection detection = {INT32_MAX, 0, 2};
  for (int64_t capacity = 1; capacity < 5000; capacity += 37) {
    struct ommai_repetition repetition;
    struct omma_error error;
    assert_ok(ommai_repetition_init(&repetition, 1, &detection, capacity, &ommai_default_allocator, &error), &error);
    size_t used = repetition.n_heads + (repetition.next ? (size_t)capacity : 0) + (size_t)repetition.max_pattern + 1;
    assert_true(used * sizeof(int32_t) <= ommai_repetition_bytes(capacity));
    ommai_repetition_free(&repetition, &ommai_default_allocator);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_are_as_others_have_them),
      cmocka_unit_test(lists_are_as_the_settings_say),
      cmocka_unit_test(settings_that_are_off_take_nothing),
      cmocka_unit_test(the_bytes_are_enough),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
