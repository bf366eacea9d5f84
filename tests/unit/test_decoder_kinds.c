/* Decoders of every kind, whole: against double precision; chunks (also of more rows than are cut along the outputs), slices,
 * threads, pages and company do not change a bit. */
#include <math.h>
#include <stdlib.h>

#include "base/allocator.h"
#include "support/decoder_bench.h"
#include "support/decoder_fixture.h"
#include "support/test.h"

enum { N_TOKENS = 290, N_PAGES = 24, MAX_ROWS = 4, CONTEXT = 340, N_WORKERS = 3 };

static const struct decoder_bench_sizes sizes = {N_PAGES, N_TOKENS, MAX_ROWS, CONTEXT};
static struct decoder_fixture fixtures[2 * DECODER_KINDS]; /* of each kind f32, bf16 */
static int32_t prompt[N_TOKENS + 1];

static int set_up(void **state) {
  (void)state;
  struct test_random random = {5};
  for (int kind = 0; kind < DECODER_KINDS; kind++) {
    for (int type = OMMA_F32; type <= OMMA_BF16; type++) {
      decoder_fixture_make(&fixtures[2 * kind + type], kind, (enum omma_dtype)type, N_WORKERS);
    }
  }
  for (int i = 0; i <= N_TOKENS; i++) prompt[i] = (int32_t)test_random_range(&random, 0, DECODER_VOCAB - 1);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  for (int i = 0; i < 2 * DECODER_KINDS; i++) decoder_fixture_free(&fixtures[i]);
  return 0;
}

static double distance(const float *got, const double *expected) {
  double difference = 0, size = 0;
  for (int i = 0; i < DECODER_VOCAB; i++) {
    difference += (got[i] - expected[i]) * (got[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return sqrt(difference / size);
}

/* Both ways of computing a token, in chunks and not: prefill to its end, and a decode step behind it. */
static void logits_match_double_precision(void **state) {
  (void)state;
  static const int64_t lengths[] = {1, 2, 63, 64, 65, 257};
  const int32_t pages[5] = {3, 1, 7, 2, 4};
  for (int kind = 0; kind < DECODER_KINDS; kind++) {
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
      struct decoder_bench bench = decoder_bench_make(&fixtures[2 * kind].decoder, &sizes, 2);
      float last[DECODER_HIDDEN], logits[DECODER_VOCAB];
      double expected[DECODER_VOCAB];
      struct omma_error error;
      int64_t n = lengths[i];
      decoder_bench_prefill(&bench, pages, prompt, n, n == 65 ? 64 : 320, 5, last);
      assert_ok(ommai_decode_logits(bench.decoder, last, bench.workspace, bench.size, bench.interface, logits, &error), &error);
      decoder_fixture_oracle(&fixtures[2 * kind], prompt, n, expected);
      assert_true(distance(logits, expected) < 1e-5);
      const struct ommai_decode_row row = decoder_bench_row(prompt[n], (int32_t)n, pages);
      decoder_bench_decode(&bench, &row, 1, logits);
      decoder_fixture_oracle(&fixtures[2 * kind], prompt, n + 1, expected);
      assert_true(distance(logits, expected) < 1e-5);
      decoder_bench_free(&bench);
    }
  }
}

static void cutting_does_not_change_a_bit(void **state) {
  (void)state;
  const struct {
    int64_t chunk, max_tasks;
    int n_threads;
    int32_t pages[5];
  } cuts[] = {{N_TOKENS, 1, 1, {0, 1, 2, 3, 4}},
              {64, 1000, 1, {5, 6, 7, 8, 9}},
              {128, 3, 2, {20, 2, 11, 12, 7}},
              {256, 1, 3, {N_PAGES - 1, 1, 0, 14, 3}},
              {N_TOKENS, INT64_MAX, 3, {9, 8, 7, 6, 5}}};
  const int32_t pages[5] = {3, 4, 5, 6, 7};
  for (int f = 0; f < 2 * DECODER_KINDS; f++) {
    float reference[DECODER_HIDDEN], last[DECODER_HIDDEN], reference_logits[DECODER_VOCAB], logits[DECODER_VOCAB];
    struct decoder_bench bench = decoder_bench_make(&fixtures[f].decoder, &sizes, 1);
    decoder_bench_prefill(&bench, pages, prompt, N_TOKENS, N_TOKENS, 1000, reference);
    const struct ommai_decode_row row = decoder_bench_row(17, N_TOKENS, pages);
    decoder_bench_decode(&bench, &row, 1, reference_logits);
    decoder_bench_free(&bench);
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
      bench = decoder_bench_make(&fixtures[f].decoder, &sizes, cuts[i].n_threads);
      decoder_bench_prefill(&bench, cuts[i].pages, prompt, N_TOKENS, cuts[i].chunk, cuts[i].max_tasks, last);
      assert_memory_equal(last, reference, sizeof last);
      const struct ommai_decode_row other = decoder_bench_row(17, N_TOKENS, cuts[i].pages);
      decoder_bench_decode(&bench, &other, 1, logits);
      assert_memory_equal(logits, reference_logits, sizeof logits);
      decoder_bench_free(&bench);
    }
  }
}

/* Four sequences of different lengths, decoded together and alone, in any order. */
static void company_does_not_change_a_bit(void **state) {
  (void)state;
  const int32_t lengths[MAX_ROWS] = {N_TOKENS, 1, 64, 127};
  const int32_t pages[MAX_ROWS][5] = {{0, 5, 9, 12, 13}, {1, 2, 3}, {4, 6, 7}, {8, 10, 11}};
  for (int f = 0; f < 2 * DECODER_KINDS; f++) {
    struct decoder_bench bench = decoder_bench_make(&fixtures[f].decoder, &sizes, 2);
    float last[DECODER_HIDDEN], together[MAX_ROWS][DECODER_VOCAB], alone[MAX_ROWS][DECODER_VOCAB];
    float turned[MAX_ROWS][DECODER_VOCAB];
    struct ommai_decode_row rows[MAX_ROWS], back[MAX_ROWS];
    for (int i = 0; i < MAX_ROWS; i++) {
      decoder_bench_prefill(&bench, pages[i], prompt + i, lengths[i], N_TOKENS + 42, 100, last);
      rows[i] = decoder_bench_row(30 + i, lengths[i], pages[i]);
      back[MAX_ROWS - 1 - i] = rows[i];
    }
    for (int i = 0; i < MAX_ROWS; i++) decoder_bench_decode(&bench, &rows[i], 1, alone[i]);
    decoder_bench_decode(&bench, rows, MAX_ROWS, together[0]);
    decoder_bench_decode(&bench, back, MAX_ROWS, turned[0]);
    for (int i = 0; i < MAX_ROWS; i++) {
      assert_memory_equal(together[i], alone[i], sizeof alone[i]);
      assert_memory_equal(turned[MAX_ROWS - 1 - i], alone[i], sizeof alone[i]);
      for (int j = 0; j < DECODER_VOCAB; j++) assert_true(alone[i][j] == alone[i][j]);
    }
    decoder_bench_free(&bench);
  }
}

static void small_workspaces_are_refused(void **state) {
  (void)state;
  const int32_t pages[5] = {0, 1, 2, 3, 4};
  for (int kind = 0; kind < DECODER_KINDS; kind++) {
    struct decoder_bench bench = decoder_bench_make(&fixtures[2 * kind].decoder, &sizes, 1);
    struct ommai_prompt_row rows[N_TOKENS] = {{0}};
    const struct ommai_decode_row row = decoder_bench_row(1, 0, pages);
    struct ommai_prefill *run;
    struct omma_error error;
    float logits[DECODER_VOCAB];
    int n_refused[2] = {0};
    for (size_t size = 0; size < bench.size; size += 64 + size / 128 * 64) {
      unsigned char *workspace = aligned_alloc(64, size + 64);
      memset(workspace, 0x5a, size + 64);
      enum omma_status status[2];
      status[0] =
          ommai_prefill_start(bench.decoder, bench.cache, pages, 0, rows, N_TOKENS, workspace, size, NULL, &run, &error);
      status[1] = ommai_decode_run(bench.decoder, bench.cache, &row, 1, workspace, size, NULL, logits, &error);
      for (int i = 0; i < 2; i++) {
        assert_true(status[i] == OMMA_OK || status[i] == OMMA_ERROR_MEMORY);
        n_refused[i] += status[i] != OMMA_OK;
      }
      for (size_t i = size; i < size + 64; i++) assert_int_equal(workspace[i], 0x5a);
      free(workspace);
    }
    for (int i = 0; i < 2; i++) assert_true(n_refused[i] > 5);
    decoder_bench_free(&bench);
  }
}

/* The tables of layers, experts and heads, with an allocator that fails. */
static void failed_allocations_leave_nothing(void **state) {
  (void)state;
  for (int kind = 0; kind < DECODER_KINDS; kind++) {
    struct test_allocator allocator;
    enum omma_status status = OMMA_ERROR_MEMORY;
    test_allocator_init(&allocator);
    for (int64_t n = 0; status != OMMA_OK; n++) {
      struct ommai_decoder decoder = {.config = fixtures[2 * kind].decoder.config};
      struct omma_error error;
      allocator.fail_at = allocator.n_allocations + n;
      status = ommai_decoder_allocate(&decoder, &allocator.interface, &error);
      assert_true(status == OMMA_OK || status == OMMA_ERROR_MEMORY);
      ommai_decoder_free(&decoder, &allocator.interface);
      assert_int_equal(allocator.n_live, 0);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(logits_match_double_precision),    cmocka_unit_test(cutting_does_not_change_a_bit),
      cmocka_unit_test(company_does_not_change_a_bit),    cmocka_unit_test(small_workspaces_are_refused),
      cmocka_unit_test(failed_allocations_leave_nothing),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
