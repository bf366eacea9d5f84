/* How often a decode step calls its team, each time a barrier of all workers: counted by a team
 * that stands before the real one. */
#include "base/allocator.h"
#include "model/model.h"
#include "support/decoder_bench.h"
#include "support/model_fixture.h"
#include "support/test.h"

/* Enough rows that preparing them is worth a run. */
enum { MAX_ROWS = 96, CONTEXT = 128, VOCAB = 2048 };

struct counter {
  const struct omma_team *team;
  int64_t n_runs;
};

static void counted_run(void *context, int64_t n_tasks, omma_task task, void *task_context) {
  struct counter *counter = context;
  counter->n_runs++;
  counter->team->run(counter->team->context, n_tasks, task, task_context);
}

/* Runs of a step of n rows, each a sequence of its own at its first token. */
static int64_t count_runs(const struct ommai_decoder *decoder, int64_t n) {
  static const struct decoder_bench_sizes sizes = {MAX_ROWS, CONTEXT, MAX_ROWS, CONTEXT, NULL};
  static float logits[MAX_ROWS * VOCAB];
  static int32_t pages[MAX_ROWS];
  struct decoder_bench bench = decoder_bench_make(decoder, &sizes, 2);
  struct counter counter = {.team = bench.interface};
  const struct omma_team counted = {&counter, bench.interface->n_workers, counted_run};
  struct ommai_decode_row rows[MAX_ROWS];
  for (int32_t row = 0; row < n; row++) {
    pages[row] = row;
    rows[row] = decoder_bench_row(row + 3, 0, pages + row);
  }
  bench.interface = &counted;
  assert_true(decoder->config.vocab_size <= VOCAB);
  decoder_bench_decode(&bench, rows, n, logits);
  decoder_bench_free(&bench);
  return counter.n_runs;
}

/* A layer's runs: qkv, attention, o, gate with up and their product, down. More rows: q, k and v of
 * each row before attention. Integers of many rows: and before each of the four layers its rows,
 * with norms and products in the same run. The logits' layer is one more. */
static void a_step_has_few_runs(void **state) {
  (void)state;
  struct omma_error error;
  for (int integers = 0; integers < 2; integers++) {
    struct omma_model_options options = {.quantization = integers ? "int8" : NULL, .n_threads = 2};
    struct omma_model *model;
    assert_ok(omma_model_open(OMMA_TEST_DATA "/../models/demo", &options, &model, &error), &error);
    const struct ommai_decoder *decoder = &model->network.decoder;
    int64_t layers = decoder->config.n_layers;
    bool prepared = ommai_linear_prepares_rows(decoder->lm_head);
    assert_int_equal(count_runs(decoder, 1), 5 * layers + 1);
    assert_int_equal(count_runs(decoder, 8), 6 * layers + 1);
    assert_int_equal(count_runs(decoder, MAX_ROWS), integers ? 10 * layers + 1 + prepared : 6 * layers + 1);
    omma_model_close(model);
  }
}

/* A routed layer's runs: qkv, attention, o, the router, each expert's rows, gate with up, their
 * product, down. More rows: q, k and v of each row before attention, and its choice of experts.
 * Integers: no more than that, since what a layer reads is prepared where it is made. */
static void experts_add_few_runs(void **state) {
  (void)state;
  for (int integers = 0; integers < 2; integers++) {
    const struct omma_model_options options = {.quantization = integers ? "int8" : NULL, .n_threads = 2};
    struct omma_model *model = fixture_model("qwen3_vl_moe", &options);
    const struct ommai_decoder *decoder = &model->network.decoder;
    int64_t layers = decoder->config.n_layers, routed = 0;
    for (int64_t i = 0; i < layers; i++) routed += decoder->config.layers[i].ffn->routed;
    assert_int_equal(count_runs(decoder, 1), 5 * layers + 3 * routed + 1);
    assert_int_equal(count_runs(decoder, 8), 6 * layers + 4 * routed + 1);
    omma_model_close(model);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_step_has_few_runs), cmocka_unit_test(experts_add_few_runs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
