/* Which tokens top-k and top-p leave: those of a plain sort, token by token, whatever the
 * distribution. */
#include "language/token_cut.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "support/test.h"

enum { MAX_VOCAB = 5 * OMMAI_TOKEN_PART + 77, MAX_PARTS = MAX_VOCAB / OMMAI_TOKEN_PART + 1 };

static float values[MAX_VOCAB];
static uint32_t weights[MAX_VOCAB];
static bool expected[MAX_VOCAB];
static int32_t order[MAX_VOCAB];

static int in_order(const void *a, const void *b) {
  int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
  if (values[i] != values[j]) return values[i] > values[j] ? -1 : 1;
  return i < j ? -1 : i > j;
}

/* The definition: a sort, the first k, the shortest beginning that has its share. */
static void sort_and_cut(int64_t vocab, const struct ommai_token_cut_settings *settings) {
  size_t n = 0, kept = 0;
  uint64_t all = 0, sum = 0, share;
  memset(expected, 0, sizeof expected);
  for (int32_t i = 0; i < vocab; i++) {
    if (values[i] >= settings->floor) order[n++] = i;
  }
  qsort(order, n, sizeof *order, in_order);
  if (settings->top_k > 0 && (size_t)settings->top_k < n) n = (size_t)settings->top_k;
  for (size_t i = 0; i < n; i++) all += weights[order[i]];
  share = (uint64_t)ceil(settings->top_p * (double)all);
  if (settings->top_p < 1 && share < all) {
    for (kept = 0; kept == 0 || sum < share; kept++) sum += weights[order[kept]];
    n = kept;
  }
  for (size_t i = 0; i < n; i++) expected[order[i]] = true;
}

static int run_cut(struct ommai_token_cut *cut, int64_t vocab, const struct ommai_token_cut_settings *settings) {
  int n_looks = 0;
  for (ommai_token_cut_begin(cut, values, settings); cut->open; n_looks++) {
    for (int64_t part = 0; part * OMMAI_TOKEN_PART < vocab; part++) ommai_token_cut_look(cut, part);
    ommai_token_cut_narrow(cut);
  }
  return n_looks;
}

static void compare(const struct ommai_token_cut *cut, int64_t vocab, const char *name,
                    const struct ommai_token_cut_settings *settings) {
  uint64_t sums[MAX_PARTS] = {0};
  for (int32_t i = 0; i < vocab; i++) {
    if (ommai_token_cut_leaves(cut, i) != expected[i]) {
      fail_msg("%s, vocabulary %d, top-k %d, top-p %g, floor %g: token %d of value %g is %s", name, (int)vocab,
               (int)settings->top_k, settings->top_p, (double)settings->floor, (int)i, (double)values[i],
               expected[i] ? "cut off" : "left");
    }
    sums[i / OMMAI_TOKEN_PART] += expected[i] ? weights[i] : 0;
  }
  for (int64_t part = 0; part * OMMAI_TOKEN_PART < vocab; part++) {
    if (cut->parts[part].weight != sums[part]) fail_msg("%s: the weight of part %d", name, (int)part);
  }
}

/* ---- distributions ---- */

static float normal(struct test_random *random, int64_t i) {
  (void)i;
  return test_random_normal(random);
}
static float wide(struct test_random *random, int64_t i) {
  (void)i;
  return 6.0f * test_random_normal(random);
}
static float nearly_flat(struct test_random *random, int64_t i) {
  (void)i;

  return 9.0f + 1e-6f * (float)test_random_range(random, -3, 3);
}
static float flat(struct test_random *random, int64_t i) {
  (void)random;
  (void)i;
  return (float)(i * 0) - 2.5f;
}
static float few_values(struct test_random *random, int64_t i) {
  (void)i;

  return 0.5f * (float)test_random_range(random, 0, 4);
}
static float two_values(struct test_random *random, int64_t i) {
  (void)random;
  return (i % 3 ? 0.0f : 1.0f);
}
static float both_zeros(struct test_random *random, int64_t i) {
  (void)i;

  return (test_random_range(random, 0, 1) ? 0.0f : -0.0f);
}
static float one_huge(struct test_random *random, int64_t i) { return i == 11 ? 1e30f : test_random_normal(random); }
static float largest(struct test_random *random, int64_t i) { return i % 1000 == 5 ? FLT_MAX : test_random_normal(random); }
static float banned(struct test_random *random, int64_t i) { return i % 2 ? -INFINITY : test_random_normal(random); }
static float rising(struct test_random *random, int64_t i) {
  (void)random;
  return 1e-4f * (float)i;
}
static float close_together(struct test_random *random, int64_t i) {
  float value = i == 3 ? 8.0f : 1.0f; /* thousands of neighbouring floats far from the largest */
  for (int64_t n = test_random_range(random, 0, 40); n > 0 && i != 3; n--) value = nextafterf(value, 2.0f);
  return value;
}
/* the sample of each part misleads */
static float unlike_its_beginning(struct test_random *random, int64_t i) {
  return test_random_normal(random) + (i % OMMAI_TOKEN_PART < OMMAI_TOKEN_PART / 4 ? -4.0f : 0.0f);
}

static const struct {
  const char *name;
  float (*value)(struct test_random *random, int64_t i);
} distributions[] = {{"normal", normal},
                     {"wide", wide},
                     {"nearly flat", nearly_flat},
                     {"flat", flat},
                     {"few values", few_values},
                     {"two values", two_values},
                     {"both zeros", both_zeros},
                     {"one huge", one_huge},
                     {"largest", largest},
                     {"banned", banned},
                     {"rising", rising},
                     {"close together", close_together},
                     {"unlike its beginning", unlike_its_beginning}};

static struct ommai_token_cut_settings random_settings(struct test_random *random, int64_t vocab, double temperature) {
  static const double top_p[] = {1, 0.9, 0.5, 0.999999, 1e-9, 0.1};
  static const int64_t top_k[] = {0, 0, 1, 20, 1000};
  struct ommai_token_cut_settings settings = {.highest = -INFINITY, .scale = (float)(1 / temperature)};
  for (int64_t i = 0; i < vocab; i++) settings.highest = fmaxf(settings.highest, values[i]);
  settings.floor = fmaxf((float)(settings.highest - 21 * temperature), -FLT_MAX);
  if (test_random_range(random, 0, 3) == 0) settings.floor = fmaxf((float)(settings.highest - 3 * temperature), -FLT_MAX);
  settings.top_p = top_p[test_random_range(random, 0, 5)];
  settings.top_k =
      test_random_range(random, 0, 5) ? top_k[test_random_range(random, 0, 4)] : test_random_range(random, 1, vocab + 5);
  return settings;
}

static void it_leaves_what_a_sort_leaves(void **state) {
  (void)state;
  static const int64_t sizes[] = {1, 7, 600, OMMAI_TOKEN_PART, OMMAI_TOKEN_PART + 1, 40000, MAX_VOCAB};
  static const double temperatures[] = {1, 0.2, 2, 1e-5};
  const struct ommai_row_ops *const tables[2] = {&ommai_row_ops_scalar, ommai_row_ops(ommai_cpu_best())};
  struct test_random random = {2026};
  for (size_t size = 0; size < sizeof sizes / sizeof *sizes; size++) {
    int64_t vocab = sizes[size];
    struct ommai_arena arena;
    ommai_arena_measure(&arena);
    ommai_token_cut_place(&arena, vocab, NULL);
    size_t bytes = (arena.used + 63) / 64 * 64;
    void *memory = aligned_alloc(64, bytes);
    assert_non_null(memory);
    memset(memory, 0x5a, bytes);
    for (size_t i = 0; i < sizeof distributions / sizeof *distributions; i++) {
      for (int trial = 0; trial < (test_small() ? 3 : 12); trial++) {
        const struct ommai_row_ops *ops = tables[trial % 2];
        double temperature = temperatures[test_random_range(&random, 0, 3)];
        ommai_arena_init(&arena, memory, bytes);
        struct ommai_token_cut cut = ommai_token_cut_place(&arena, vocab, ops);
        for (int64_t token = 0; token < vocab; token++) values[token] = distributions[i].value(&random, token);
        struct ommai_token_cut_settings settings = random_settings(&random, vocab, temperature);
        ommai_row_ops_scalar.weigh(values, settings.highest, settings.scale, vocab, weights);
        sort_and_cut(vocab, &settings);
        int n_looks = run_cut(&cut, vocab, &settings);
        compare(&cut, vocab, distributions[i].name, &settings);
        if (n_looks > 45) fail_msg("%s: %d looks", distributions[i].name, n_looks);
      }
    }
    free(memory);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(it_leaves_what_a_sort_leaves)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
