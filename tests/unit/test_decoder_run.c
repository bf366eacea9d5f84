/* Prompts and tokens through the decoder: slices, chunks, pages and the rest of the batch do not
 * change a bit; workspaces are checked. */
#include <stdlib.h>

#include "base/allocator.h"
#include "model/model.h"
#include "support/decoder_bench.h"
#include "support/model_fixture.h"
#include "support/test.h"

enum { N_TOKENS = 150, N_PAGES = 24, MAX_ROWS = 4, VOCAB = 544, HIDDEN = 64, CONTEXT = 200 };

static const struct decoder_bench_sizes sizes = {N_PAGES, N_TOKENS, MAX_ROWS, CONTEXT, NULL};
static struct omma_model *models[2]; /* f32, bf16 */
static int32_t prompt[N_TOKENS];

static int set_up(void **state) {
  (void)state;
  struct test_random random = {31};
  for (int i = 0; i < 2; i++) {
    const struct omma_model_options options = {.weights = i ? OMMA_WEIGHTS_BF16 : OMMA_WEIGHTS_F32, .n_threads = 3};
    models[i] = fixture_model("qwen3_vl_tied", &options);
  }
  for (int i = 0; i < N_TOKENS; i++) prompt[i] = (int32_t)test_random_range(&random, 0, 519);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) omma_model_close(models[i]);
  return 0;
}

static void cutting_does_not_change_a_bit(void **state) {
  (void)state;
  for (int m = 0; m < 2; m++) decoder_bench_check_cutting(&models[m]->network.decoder, &sizes, prompt);
}

static void sharing_a_chunk_does_not_change_a_bit(void **state) {
  (void)state;
  for (int m = 0; m < 2; m++) decoder_bench_check_sharing(&models[m]->network.decoder, &sizes, prompt);
}

static void the_batch_does_not_change_a_bit(void **state) {
  (void)state;
  for (int m = 0; m < 2; m++) decoder_bench_check_batch(&models[m]->network.decoder, &sizes, prompt);
}

/* The end of a prompt and a decode step of the same token agree closely, but by design not in every
 * bit. */
static void decode_continues_what_prefill_began(void **state) {
  (void)state;
  struct decoder_bench bench = decoder_bench_make(&models[0]->network.decoder, &sizes, 1);
  const int32_t pages[3] = {0, 1, 2}, other[3] = {3, 4, 5};
  float last[HIDDEN], whole[VOCAB], step[VOCAB];
  struct omma_error error;
  decoder_bench_prefill(&bench, pages, prompt, N_TOKENS, N_TOKENS, 100, last);
  assert_ok(ommai_decode_logits(bench.decoder, (const float *[]){last}, 1, bench.workspace, bench.size, NULL, whole, &error),
            &error);
  decoder_bench_prefill(&bench, other, prompt, N_TOKENS - 1, N_TOKENS, 100, last);
  const struct ommai_decode_row row = decoder_bench_row(prompt[N_TOKENS - 1], N_TOKENS - 1, other);
  decoder_bench_decode(&bench, &row, 1, step);
  for (int i = 0; i < VOCAB; i++) assert_true(step[i] - whole[i] < 1e-4f && whole[i] - step[i] < 1e-4f);
  decoder_bench_free(&bench);
}

static void small_workspaces_are_refused(void **state) {
  (void)state;
  struct decoder_bench bench = decoder_bench_make(&models[0]->network.decoder, &sizes, 1);
  const int32_t pages[3] = {0, 1, 2};
  const struct ommai_prefill_piece piece = {.n_rows = N_TOKENS, .pages = decoder_bench_pages(pages), .next = {.token = -1}};
  struct ommai_prompt_row rows[N_TOKENS] = {{0}};
  const struct ommai_decode_row row = decoder_bench_row(1, 0, pages);
  struct ommai_prefill *run;
  struct omma_error error;
  float logits[VOCAB], last[HIDDEN] = {0};
  int n_refused[3] = {0};
  for (size_t size = 0; size < bench.size; size += 64 + size / 256 * 64) {
    unsigned char *workspace = aligned_alloc(64, size + 64);
    memset(workspace, 0x5a, size + 64);
    enum omma_status status[3];
    status[0] = ommai_prefill_start(bench.decoder, bench.cache, &piece, 1, rows, workspace, size, NULL, &run, &error);
    status[1] = ommai_decode_run(bench.decoder, bench.cache, &row, 1, workspace, size, NULL, logits, &error);
    status[2] = ommai_decode_logits(bench.decoder, (const float *[]){last}, 1, workspace, size, NULL, logits, &error);
    for (int i = 0; i < 3; i++) {
      assert_true(status[i] == OMMA_OK || status[i] == OMMA_ERROR_MEMORY);
      n_refused[i] += status[i] != OMMA_OK;
    }
    for (size_t i = size; i < size + 64; i++) assert_int_equal(workspace[i], 0x5a);
    free(workspace);
  }
  for (int i = 0; i < 3; i++) assert_true(n_refused[i] > 5);
  decoder_bench_free(&bench);
}

static void impossible_sizes_have_no_workspace(void **state) {
  (void)state;
  const struct ommai_decoder *decoder = &models[0]->network.decoder;
  const int64_t wrong[] = {0, -1, INT64_MIN, INT64_MAX};
  for (size_t i = 0; i < 4; i++) {
    assert_int_equal(ommai_decode_workspace_size(decoder, wrong[i], 100, 1), 0);
    assert_int_equal(ommai_decode_workspace_size(decoder, 1, wrong[i], 1), 0);
    assert_int_equal(ommai_prefill_workspace_size(decoder, wrong[i], 1, 100, 1), 0);
    assert_int_equal(ommai_prefill_workspace_size(decoder, 64, wrong[i], 100, 1), 0);
    assert_int_equal(ommai_prefill_workspace_size(decoder, 64, 1, wrong[i], 1), 0);
  }
  /* Contexts of a million tokens exist. */
  assert_true(ommai_decode_workspace_size(decoder, 1, 1 << 20, 1) > 0);
  assert_true(ommai_decode_workspace_size(decoder, 64, 1 << 20, 1) > 0);
  assert_true(ommai_prefill_workspace_size(decoder, 512, OMMAI_PREFILL_MAX_PIECES, 1 << 20, 1) > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sharing_a_chunk_does_not_change_a_bit), cmocka_unit_test(cutting_does_not_change_a_bit),
      cmocka_unit_test(the_batch_does_not_change_a_bit),       cmocka_unit_test(decode_continues_what_prefill_began),
      cmocka_unit_test(small_workspaces_are_refused),          cmocka_unit_test(impossible_sizes_have_no_workspace),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
