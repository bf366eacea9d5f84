#include "text/bpe.h"

#include <stdlib.h>

#include "base/allocator.h"
#include "support/test.h"

enum { N_LETTERS = 4, MAX_TOKENS = 60 };

/* A random vocabulary over a few letters: bytes of each token, and merges in random order of
 * rank. */
struct model {
  struct ommai_bpe bpe;
  char texts[MAX_TOKENS][64];
  struct ommai_merge merges[MAX_TOKENS];
  int n_tokens, n_merges;
};

static int find_text(const struct model *model, const char *text) {
  for (int i = 0; i < model->n_tokens; i++) {
    if (strcmp(model->texts[i], text) == 0) return i;
  }
  return -1;
}

static void make_model(struct model *model, struct test_random *random) {
  struct omma_error error;
  *model = (struct model){.n_tokens = N_LETTERS};
  for (int i = 0; i < N_LETTERS; i++) model->texts[i][0] = (char)('a' + i);
  assert_ok(ommai_bpe_init(&model->bpe, MAX_TOKENS, &ommai_default_allocator, &error), &error);
  for (int i = 0; i < N_LETTERS; i++) model->bpe.byte_ids['a' + i] = i;
  while (model->n_tokens < MAX_TOKENS) {
    int left = (int)test_random_range(random, 0, model->n_tokens - 1),
        right = (int)test_random_range(random, 0, model->n_tokens - 1);
    char joined[128];
    snprintf(joined, sizeof joined, "%s%s", model->texts[left], model->texts[right]);
    if (strlen(joined) >= sizeof model->texts[0] || find_text(model, joined) >= 0) continue;
    strcpy(model->texts[model->n_tokens], joined);
    model->merges[model->n_merges++] = (struct ommai_merge){.left = left, .right = right, .result = model->n_tokens++};
  }
  for (int i = 0; i < model->n_merges; i++) model->merges[i].rank = i;
  for (int i = model->n_merges - 1; i > 0; i--) {
    int j = (int)test_random_range(random, 0, i);
    int32_t rank = model->merges[i].rank;
    model->merges[i].rank = model->merges[j].rank;
    model->merges[j].rank = rank;
  }
  for (int i = 0; i < model->n_merges; i++) assert_true(ommai_bpe_add(&model->bpe, model->merges[i]));
}

/* The definition: again and again, look at all pairs and join the one of lowest rank, the leftmost
 * first. */
static size_t encode_by_definition(const struct model *model, int32_t *ids, size_t n) {
  for (;;) {
    const struct ommai_merge *best = NULL;
    size_t at = 0;
    for (size_t i = 0; i + 1 < n; i++) {
      for (int m = 0; m < model->n_merges; m++) {
        const struct ommai_merge *merge = &model->merges[m];
        if (merge->left != ids[i] || merge->right != ids[i + 1] || (best && merge->rank >= best->rank)) continue;
        best = merge;
        at = i;
      }
    }
    if (!best) return n;
    ids[at] = best->result;
    memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof *ids);
    n--;
  }
}

static void joins_as_defined(void **state) {
  (void)state;
  struct omma_error error;
  struct test_random random = {3};
  static struct model model;
  for (int round = 0; round < 60; round++) {
    make_model(&model, &random);
    for (int piece = 0; piece < 20; piece++) {
      char text[400];
      int32_t expected[400], ids[400];
      size_t n = (size_t)test_random_range(&random, 1, piece == 0 ? 400 : 40);
      for (size_t i = 0; i < n; i++) {
        expected[i] = (int32_t)test_random_range(&random, 0, N_LETTERS - 1);
        text[i] = (char)('a' + expected[i]);
      }
      struct ommai_id_sink sink = {.ids = ids, .capacity = 400};
      assert_ok(ommai_bpe_encode(&model.bpe, text, n, &ommai_default_allocator, &sink, &error), &error);
      size_t n_expected = encode_by_definition(&model, expected, n);
      assert_int_equal(sink.count, n_expected);
      assert_memory_equal(ids, expected, n_expected * sizeof *ids);
    }
    ommai_bpe_clear(&model.bpe, &ommai_default_allocator);
  }
}

/* One word of a million bytes: quadratic time would take hours. */
static void a_huge_word_is_quick(void **state) {
  (void)state;
  enum { SIZE = 1000000 };
  struct omma_error error;
  struct test_random random = {5};
  static struct model model;
  make_model(&model, &random);
  char *text = malloc(SIZE);
  for (int kind = 0; kind < 2; kind++) {
    for (size_t i = 0; i < SIZE; i++) text[i] = (char)('a' + (kind ? test_random_range(&random, 0, N_LETTERS - 1) : 0));
    struct ommai_id_sink sink = {0};
    assert_ok(ommai_bpe_encode(&model.bpe, text, SIZE, &ommai_default_allocator, &sink, &error), &error);
    assert_in_range(sink.count, 1, SIZE);
  }
  free(text);
  ommai_bpe_clear(&model.bpe, &ommai_default_allocator);
}

static void sink_counts_past_its_end(void **state) {
  (void)state;
  struct omma_error error;
  struct ommai_bpe bpe = {0};
  int32_t ids[3] = {-1, -1, -1};
  assert_ok(ommai_bpe_init(&bpe, 0, &ommai_default_allocator, &error), &error);
  bpe.byte_ids['x'] = 7;
  struct ommai_id_sink sink = {.ids = ids, .capacity = 2};
  assert_ok(ommai_bpe_encode(&bpe, "xxxxx", 5, &ommai_default_allocator, &sink, &error), &error);
  assert_ok(ommai_bpe_encode(&bpe, "", 0, &ommai_default_allocator, &sink, &error), &error);
  assert_int_equal(sink.count, 5);
  assert_int_equal(ids[1], 7);
  assert_int_equal(ids[2], -1);
  ommai_bpe_clear(&bpe, &ommai_default_allocator);
}

static void failing_allocations_are_reported(void **state) {
  (void)state;
  struct omma_error error;
  struct test_allocator allocator;
  struct ommai_bpe bpe = {0};
  char text[1000];
  memset(text, 'x', sizeof text);
  test_allocator_init(&allocator);
  allocator.fail_at = 0;
  assert_fails(ommai_bpe_init(&bpe, 10, &allocator.interface, &error), OMMA_ERROR_MEMORY, "merge table", &error);
  allocator.fail_at = -1;
  assert_ok(ommai_bpe_init(&bpe, 10, &allocator.interface, &error), &error);
  for (int64_t i = 0; i < 2; i++) {
    struct ommai_id_sink sink = {0};
    allocator.fail_at = allocator.n_allocations + i;
    assert_fails(ommai_bpe_encode(&bpe, text, sizeof text, &allocator.interface, &sink, &error), OMMA_ERROR_MEMORY,
                 "long piece", &error);
    assert_int_equal(allocator.n_live, 1);
  }
  ommai_bpe_clear(&bpe, &allocator.interface);
  assert_int_equal(allocator.n_live, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(joins_as_defined),
      cmocka_unit_test(a_huge_word_is_quick),
      cmocka_unit_test(sink_counts_past_its_end),
      cmocka_unit_test(failing_allocations_are_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
