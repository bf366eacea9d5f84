/* Decoders of every kind, whole: against double precision; chunks (also of more rows than are cut along the outputs), slices,
 * threads, pages and company do not change a bit. */
#include <math.h>
#include <stdlib.h>

#include "base/allocator.h"
#include "base/team.h"
#include "language/decode.h"
#include "language/prefill.h"
#include "support/decoder_fixture.h"
#include "support/test.h"

enum { N_TOKENS = 290, N_PAGES = 24, MAX_ROWS = 4, CONTEXT = 340, N_WORKERS = 3 };

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

struct bench {
  const struct ommai_decoder *decoder;
  struct ommai_kv_cache *cache;
  struct ommai_team *team;
  const struct omma_team *interface;
  void *workspace;
  size_t size;
};

/* Memory that nobody has written holds NaN. */
static struct bench make_bench(const struct ommai_decoder *decoder, int n_threads) {
  struct bench bench = {.decoder = decoder};
  struct omma_error error;
  assert_ok(ommai_kv_cache_create(&decoder->config, decoder->dtype, N_PAGES, &ommai_default_allocator, &bench.cache, &error),
            &error);
  assert_ok(ommai_team_create(n_threads, false, &ommai_default_allocator, &bench.team, &error), &error);
  bench.interface = ommai_team_interface(bench.team);
  size_t prefill = ommai_prefill_workspace_size(decoder, N_TOKENS, CONTEXT, n_threads);
  size_t decode = ommai_decode_workspace_size(decoder, MAX_ROWS, CONTEXT, n_threads);
  assert_true(prefill > 0 && decode > 0);
  bench.size = prefill > decode ? prefill : decode;
  bench.workspace = aligned_alloc(64, (bench.size + 63) / 64 * 64);
  memset(bench.workspace, 0xff, bench.size);
  memset(bench.cache->keys, 0xff, bench.cache->bytes);
  if (bench.cache->values) memset(bench.cache->values, 0xff, bench.cache->bytes);
  return bench;
}

static void free_bench(struct bench *bench) {
  ommai_kv_cache_destroy(bench->cache);
  ommai_team_destroy(bench->team);
  free(bench->workspace);
}

/* Prefills prompt[0 .. n) shifted by `shift` ids; the residual of the last row into last[DECODER_HIDDEN]. */
static void prefill(struct bench *bench, const int32_t *pages, int64_t n, int shift, int64_t chunk, int64_t max_tasks,
                    float *last) {
  struct ommai_prompt_row rows[N_TOKENS];
  struct omma_error error;
  struct ommai_prefill *run = NULL;
  for (int32_t i = 0; i < n; i++) {
    rows[i] = (struct ommai_prompt_row){.token = (prompt[i] + shift) % DECODER_VOCAB, .position = {i, i, i}};
  }
  for (int64_t first = 0; first < n; first += chunk) {
    int64_t count = n - first < chunk ? n - first : chunk;
    assert_ok(ommai_prefill_start(bench->decoder, bench->cache, pages, first, rows + first, count, bench->workspace,
                                  bench->size, bench->interface, &run, &error),
              &error);
    while (!ommai_prefill_done(run)) assert_ok(ommai_prefill_advance(run, max_tasks, &error), &error);
    memcpy(last, ommai_prefill_residual(run, count - 1), DECODER_HIDDEN * sizeof(float));
  }
}

static struct ommai_decode_row row_at(int32_t token, int32_t index, const int32_t *pages) {
  return (struct ommai_decode_row){token, {index, index, index}, index, pages};
}

static void decode(struct bench *bench, const struct ommai_decode_row *rows, int64_t n, float *logits) {
  struct omma_error error;
  assert_ok(
      ommai_decode_run(bench->decoder, bench->cache, rows, n, bench->workspace, bench->size, bench->interface, logits, &error),
      &error);
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
      struct bench bench = make_bench(&fixtures[2 * kind].decoder, 2);
      float last[DECODER_HIDDEN], logits[DECODER_VOCAB];
      double expected[DECODER_VOCAB];
      struct omma_error error;
      int64_t n = lengths[i];
      prefill(&bench, pages, n, 0, n == 65 ? 64 : 320, 5, last);
      assert_ok(ommai_decode_logits(bench.decoder, last, bench.workspace, bench.size, bench.interface, logits, &error), &error);
      decoder_fixture_oracle(&fixtures[2 * kind], prompt, n, expected);
      assert_true(distance(logits, expected) < 1e-5);
      const struct ommai_decode_row row = row_at(prompt[n], (int32_t)n, pages);
      decode(&bench, &row, 1, logits);
      decoder_fixture_oracle(&fixtures[2 * kind], prompt, n + 1, expected);
      assert_true(distance(logits, expected) < 1e-5);
      free_bench(&bench);
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
    struct bench bench = make_bench(&fixtures[f].decoder, 1);
    prefill(&bench, pages, N_TOKENS, 0, N_TOKENS, 1000, reference);
    const struct ommai_decode_row row = row_at(17, N_TOKENS, pages);
    decode(&bench, &row, 1, reference_logits);
    free_bench(&bench);
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
      bench = make_bench(&fixtures[f].decoder, cuts[i].n_threads);
      prefill(&bench, cuts[i].pages, N_TOKENS, 0, cuts[i].chunk, cuts[i].max_tasks, last);
      assert_memory_equal(last, reference, sizeof last);
      const struct ommai_decode_row other = row_at(17, N_TOKENS, cuts[i].pages);
      decode(&bench, &other, 1, logits);
      assert_memory_equal(logits, reference_logits, sizeof logits);
      free_bench(&bench);
    }
  }
}

/* Four sequences of different lengths, decoded together and alone, in any order. */
static void company_does_not_change_a_bit(void **state) {
  (void)state;
  const int32_t lengths[MAX_ROWS] = {N_TOKENS, 1, 64, 127};
  const int32_t pages[MAX_ROWS][5] = {{0, 5, 9, 12, 13}, {1, 2, 3}, {4, 6, 7}, {8, 10, 11}};
  for (int f = 0; f < 2 * DECODER_KINDS; f++) {
    struct bench bench = make_bench(&fixtures[f].decoder, 2);
    float last[DECODER_HIDDEN], together[MAX_ROWS][DECODER_VOCAB], alone[MAX_ROWS][DECODER_VOCAB];
    float turned[MAX_ROWS][DECODER_VOCAB];
    struct ommai_decode_row rows[MAX_ROWS], back[MAX_ROWS];
    for (int i = 0; i < MAX_ROWS; i++) {
      prefill(&bench, pages[i], lengths[i], i, N_TOKENS + 42, 100, last);
      rows[i] = row_at(30 + i, lengths[i], pages[i]);
      back[MAX_ROWS - 1 - i] = rows[i];
    }
    for (int i = 0; i < MAX_ROWS; i++) decode(&bench, &rows[i], 1, alone[i]);
    decode(&bench, rows, MAX_ROWS, together[0]);
    decode(&bench, back, MAX_ROWS, turned[0]);
    for (int i = 0; i < MAX_ROWS; i++) {
      assert_memory_equal(together[i], alone[i], sizeof alone[i]);
      assert_memory_equal(turned[MAX_ROWS - 1 - i], alone[i], sizeof alone[i]);
      for (int j = 0; j < DECODER_VOCAB; j++) assert_true(alone[i][j] == alone[i][j]);
    }
    free_bench(&bench);
  }
}

static void small_workspaces_are_refused(void **state) {
  (void)state;
  const int32_t pages[5] = {0, 1, 2, 3, 4};
  for (int kind = 0; kind < DECODER_KINDS; kind++) {
    struct bench bench = make_bench(&fixtures[2 * kind].decoder, 1);
    struct ommai_prompt_row rows[N_TOKENS] = {{0}};
    const struct ommai_decode_row row = row_at(1, 0, pages);
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
    free_bench(&bench);
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
