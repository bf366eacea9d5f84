/* Texts without pieces are encoded in n log n: the work is counted, not timed. The sources that
 * encode are compiled once more for this program, so that they call __sanitizer_cov_trace_pc in
 * each basic block (tests/CMakeLists.txt). */
#include <math.h>
#include <stdlib.h>

#include "support/test.h"
#include "support/text_fixture.h"
#include "text/utf8.h"

enum { SIZE = 1 << 20 };

static uint64_t n_blocks;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) { n_blocks++; }

/* Bytes of valid UTF-8 into text; returns how many of the `size` were used. */
typedef size_t (*fill_function)(char *text, size_t size, struct test_random *random);

static size_t repeat(char *text, size_t size, const char *part) {
  size_t n = strlen(part), used = 0;
  for (; used + n <= size; used += n) memcpy(text + used, part, n);
  return used;
}

static size_t one_letter(char *text, size_t size, struct test_random *random) {
  (void)random;
  return repeat(text, size, "e");
}

static size_t letters(char *text, size_t size, struct test_random *random) {
  for (size_t i = 0; i < size; i++) text[i] = " aehinrst\n"[test_random_range(random, 0, 9)];
  return size;
}

/* Joined from both ends of a word. */
static size_t words(char *text, size_t size, struct test_random *random) {
  (void)random;
  return repeat(text, size, "The colour of the picture? ");
}

/* A token for each byte. */
static size_t unknown_characters(char *text, size_t size, struct test_random *random) {
  size_t used = 0;
  while (used + 4 <= size) used += ommai_utf8_encode((uint32_t)test_random_range(random, 0x20000, 0x2A000), text + used);
  return used;
}

static size_t marks(char *text, size_t size, struct test_random *random) {
  (void)random;
  return repeat(text, size, "\xE2\x96\x81");
}

static size_t added_tokens(char *text, size_t size, struct test_random *random) {
  (void)random;
  return repeat(text, size, "</s>x");
}

/* What added tokens begin with. */
static size_t cut_tokens(char *text, size_t size, struct test_random *random) {
  (void)random;
  return repeat(text, size, "<|IMAGE_PLACEHOLDER|");
}

static const struct {
  const char *name;
  fill_function fill;
} texts[] = {{"one letter", one_letter},    {"letters", letters}, {"words", words},
             {"bytes", unknown_characters}, {"marks", marks},     {"added tokens", added_tokens},
             {"cut tokens", cut_tokens}};

/* Basic blocks that encoding takes, for each byte and binary digit of the size. */
static double work(const struct ommai_tokenizer *tokenizer, fill_function fill, size_t size, char *text, int32_t *ids) {
  struct test_random random = {23};
  struct omma_error error;
  size_t count;
  size = fill(text, size, &random);
  n_blocks = 0;
  assert_ok(ommai_tokenizer_encode(tokenizer, text, size, true, ids, SIZE, &count, &error), &error);
  assert_true(n_blocks > size / 4);
  return (double)n_blocks / ((double)size * log2((double)size));
}

static void work_grows_as_n_log_n(void **state) {
  (void)state;
  struct ommai_tokenizer *tokenizer = text_fixture_tokenizer(OMMA_TEST_DATA, "marked");
  char *text = malloc(SIZE);
  int32_t *ids = malloc(SIZE * sizeof *ids);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    double less = work(tokenizer, texts[i].fill, SIZE / 16, text, ids), more = work(tokenizer, texts[i].fill, SIZE, text, ids);
    print_message("%s: %.2f blocks for each byte and log2 of the size, %.2f of 16 times as many\n", texts[i].name, less, more);
    assert_true(more < 1.1 * less);
    assert_true(more < 64);
  }
  free(ids);
  free(text);
  ommai_tokenizer_destroy(tokenizer);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(work_grows_as_n_log_n)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
