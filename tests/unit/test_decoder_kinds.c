/* Decoders of every kind, whole: against double precision; chunks (also of more rows than are cut
 * along the outputs), slices, threads, pages and the rest of the batch do not change a bit. */
#include <math.h>
#include <stdlib.h>

#include "base/allocator.h"
#include "language/mixer.h"
#include "support/decoder_bench.h"
#include "support/decoder_fixture.h"
#include "support/linear_fixture.h"
#include "support/test.h"

enum { N_TOKENS = 290, N_PAGES = 24, MAX_ROWS = 4, CONTEXT = 340, N_WORKERS = 3 };

static const struct decoder_bench_sizes sizes = {N_PAGES, N_TOKENS, MAX_ROWS, CONTEXT, NULL};
static struct decoder_fixture fixtures[2 * DECODER_KINDS]; /* of each kind f32, bf16 */
static int32_t prompt[N_TOKENS + 1];

static int set_up(void **state) {
  (void)state;
  struct test_random random = {5};
  for (int kind = 0; kind < DECODER_KINDS; kind++) {
    for (int type = OMMA_F32; type <= OMMA_BF16; type++) {
      decoder_fixture_make(&fixtures[2 * kind + type], kind, (enum omma_dtype)type, N_WORKERS, &ommai_default_allocator);
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

/* Of small runs each test has one of both types of a kind, `odd` the other one of it. */
static bool left_out(int fixture, bool odd) { return test_small() && fixture % 2 != (fixture / 2 + odd) % 2; }

static double distance(const float *got, const double *expected) {
  double difference = 0, size = 0;
  for (int i = 0; i < DECODER_VOCAB; i++) {
    difference += (got[i] - expected[i]) * (got[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return sqrt(difference / size);
}

/* Both ways of computing a token, in chunks and not: prefill to its end, and a decode step after
 * it. */
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
      assert_ok(ommai_decode_logits(bench.decoder, (const float *[]){last}, 1, bench.workspace, bench.size, bench.interface,
                                    logits, &error),
                &error);
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
  for (int f = 0; f < 2 * DECODER_KINDS; f++) {
    if (!left_out(f, false)) decoder_bench_check_cutting(&fixtures[f].decoder, &sizes, prompt);
  }
}

static void sharing_a_chunk_does_not_change_a_bit(void **state) {
  (void)state;
  for (int f = 0; f < 2 * DECODER_KINDS; f++) {
    if (!left_out(f, true)) decoder_bench_check_sharing(&fixtures[f].decoder, &sizes, prompt);
  }
}

static void the_batch_does_not_change_a_bit(void **state) {
  (void)state;
  for (int f = 0; f < 2 * DECODER_KINDS; f++) {
    if (!left_out(f, false)) decoder_bench_check_batch(&fixtures[f].decoder, &sizes, prompt);
  }
}

/* f32 layers over a KV cache in bf16. */
static struct ommai_decoder with_bf16_cache(int kind) {
  struct ommai_decoder decoder = fixtures[2 * kind].decoder;
  decoder.kv_type = OMMA_BF16;
  return decoder;
}

/* The bits do not depend on chunks and batch; returns the distance of a token's logits, after a
 * prompt in chunks, from those of the fixture in double precision. */
static double keep_promises(const struct ommai_decoder *decoder, const struct decoder_fixture *fixture) {
  const int32_t pages[5] = {3, 1, 7, 2, 4};
  float last[DECODER_HIDDEN], logits[DECODER_VOCAB];
  double expected[DECODER_VOCAB];
  decoder_bench_check_cutting(decoder, &sizes, prompt);
  decoder_bench_check_batch(decoder, &sizes, prompt);
  decoder_bench_check_sharing(decoder, &sizes, prompt);
  struct decoder_bench bench = decoder_bench_make(decoder, &sizes, 2);
  assert_int_equal(bench.cache->dtype, decoder->kv_type);
  decoder_bench_prefill(&bench, pages, prompt, 257, 128, 5, last);
  const struct ommai_decode_row row = decoder_bench_row(prompt[257], 257, pages);
  decoder_bench_decode(&bench, &row, 1, logits);
  decoder_fixture_oracle(fixture, prompt, 258, expected);
  decoder_bench_free(&bench);
  return distance(logits, expected);
}

static void a_bf16_cache_with_f32_layers_keeps_every_promise(void **state) {
  (void)state;
  for (int kind = 0; kind < DECODER_KINDS; kind++) {
    const struct ommai_decoder decoder = with_bf16_cache(kind);
    double error = keep_promises(&decoder, &fixtures[2 * kind]);
    if (!(error > 1e-5 && error < 1e-2)) fail_msg("kind %d: distance %g", kind, error);
  }
}

/* f32 and bf16 layers over integers with scales, where the kind takes them. The distance is that of
 * the integers, far above any other rounding in f32. */
static void an_int8_cache_keeps_every_promise(void **state) {
  (void)state;
  for (int f = 0; f < 2 * DECODER_KINDS; f++) {
    struct ommai_decoder decoder = fixtures[f].decoder;
    if (!decoder.config.layers[0].mixer->int8_cache || left_out(f, true)) continue;
    decoder.kv_type = OMMA_INT8;
    double error = keep_promises(&decoder, &fixtures[f]);
    if (!(error > 1e-5 && error < 3e-2)) fail_msg("decoder %d: distance %g", f, error);
  }
}

static void small_workspaces_are_refused(void **state) {
  (void)state;
  const int32_t pages[5] = {0, 1, 2, 3, 4};
  for (int kind = 0; kind < 2 * DECODER_KINDS; kind++) {
    const struct ommai_decoder decoder = kind % 2 ? with_bf16_cache(kind / 2) : fixtures[kind].decoder;
    struct decoder_bench bench = decoder_bench_make(&decoder, &sizes, 1);
    const struct ommai_prefill_piece piece = {.n_rows = N_TOKENS, .pages = decoder_bench_pages(pages), .next = {.token = -1}};
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
      status[0] = ommai_prefill_start(bench.decoder, bench.cache, &piece, 1, rows, workspace, size, NULL, &run, &error);
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

/* What a layer's product fails with is what the prompt fails with: layers in parts and in tiles, an
 * expert, a head of MLA. */
static void a_failing_layer_is_reported(void **state) {
  (void)state;
  const struct ommai_decoder *grouped = &fixtures[2 * DECODER_BIASED].decoder, *mla = &fixtures[2 * DECODER_MLA].decoder;
  const struct ommai_decoder_layer *routed = &mla->layers[mla->config.n_layers - 1];
  const struct {
    const struct ommai_decoder *decoder;
    struct ommai_linear *linear;
  } cases[] = {{grouped, grouped->layers[1].o.linear},
               {grouped, grouped->layers[0].dense.down.linear},
               {mla, routed->router.linear},
               {mla, routed->experts[0].down.linear},
               {mla, routed->mla_heads[1].expand.linear}};
  const int32_t pages[5] = {3, 1, 7, 2, 4};
  const struct ommai_prefill_piece piece = {.n_rows = N_TOKENS, .pages = decoder_bench_pages(pages), .next = {.token = -1}};
  struct ommai_prompt_row rows[N_TOKENS] = {{0}};
  for (int i = 0; i < N_TOKENS; i++) rows[i].token = prompt[i];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct decoder_bench bench = decoder_bench_make(cases[i].decoder, &sizes, 2);
    struct ommai_linear_code broken;
    struct ommai_prefill *run;
    struct omma_error error;
    fixture_break_linear(cases[i].linear, &broken);
    assert_ok(ommai_prefill_start(bench.decoder, bench.cache, &piece, 1, rows, bench.workspace, bench.size, bench.interface,
                                  &run, &error),
              &error);
    enum omma_status status = OMMA_OK;
    while (status == OMMA_OK && !ommai_prefill_done(run)) status = ommai_prefill_advance(run, 100, &error);
    assert_fails(status, OMMA_ERROR_LIMIT, "decoder: no tiles today", &error);
    fixture_mend_linear(cases[i].linear);
    decoder_bench_free(&bench);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(logits_match_double_precision),
      cmocka_unit_test(cutting_does_not_change_a_bit),
      cmocka_unit_test(sharing_a_chunk_does_not_change_a_bit),
      cmocka_unit_test(the_batch_does_not_change_a_bit),
      cmocka_unit_test(a_bf16_cache_with_f32_layers_keeps_every_promise),
      cmocka_unit_test(an_int8_cache_keeps_every_promise),
      cmocka_unit_test(small_workspaces_are_refused),
      cmocka_unit_test(failed_allocations_leave_nothing),
      cmocka_unit_test(a_failing_layer_is_reported),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
