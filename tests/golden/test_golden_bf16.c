/* The language models in bf16 compared with f32: the logits at every token of a text stay near. A
 * router's choice is a step: where the scores of two experts lie nearer than bf16 is exact,
 * another expert is taken, and that token and those that look at it go elsewhere. So routed models
 * are held to the bound with all experts chosen: all else is as before, and no choice is left. */
#include <stdlib.h>

#include "model/model.h"
#include "support/decoder_bench.h"
#include "support/golden.h"
#include "support/model_fixture.h"
#include "support/test.h"

enum { MAX_TOKENS = 384, N_PAGES = MAX_TOKENS / 64, MAX_VOCAB = 1024 };

static const struct decoder_bench_sizes sizes = {N_PAGES, MAX_TOKENS, 1, MAX_TOKENS, NULL};

static struct omma_model *open_model(const char *name, enum omma_weight_type weights, bool all_experts) {
  const struct omma_model_options options = {.weights = weights, .n_threads = 1};
  struct omma_model *model = fixture_model(name, &options);
  struct ommai_router_config *router = &model->network.decoder.config.experts.router;
  if (all_experts) router->n_chosen = router->n_experts;
  assert_true(model->config.text.vocab_size <= MAX_VOCAB);
  return model;
}

/* The logits [n, vocabulary] at each of n tokens. */
static void read_text(const struct omma_model *model, const int64_t *ids, int64_t n, float *logits) {
  const int32_t pages[N_PAGES] = {2, 0, 3, 1, 5, 4};
  struct decoder_bench bench = decoder_bench_make(&model->network.decoder, &sizes, 1);
  for (int32_t i = 0; i < n; i++) {
    const int32_t snapshot[OMMAI_SNAPSHOT_PAGES] = {i > 0 ? 0 : -1, 0, -1};
    struct ommai_decode_row row = decoder_bench_row((int32_t)ids[i], i, pages);
    for (int64_t g = 0; g < bench.cache->layout.n_groups; g++) {
      if (bench.cache->layout.groups[g].state.kind == OMMAI_STATE_SNAPSHOT) row.pages.of_group[g] = snapshot;
    }
    decoder_bench_decode(&bench, &row, 1, logits + i * model->config.text.vocab_size);
  }
  decoder_bench_free(&bench);
}

/* Over the golden cases of text alone. */
static struct golden_error compare(const char *name, bool all_experts) {
  static float exact[MAX_TOKENS * MAX_VOCAB], rounded[MAX_TOKENS * MAX_VOCAB];
  struct omma_model *f32 = open_model(name, OMMA_WEIGHTS_F32, all_experts),
                    *bf16 = open_model(name, OMMA_WEIGHTS_BF16, all_experts);
  struct golden_error worst = {0};
  json_t *manifest = golden_manifest(name);
  struct golden_case c;
  for (size_t i = 0; golden_case_open(name, manifest, i, &c); i++) {
    int64_t n, *ids = golden_i64(&c, "language.input_ids", &n);
    assert_true(n <= MAX_TOKENS);
    if (c.n_images == 0) {
      read_text(f32, ids, n, exact);
      read_text(bf16, ids, n, rounded);
      struct golden_error off = golden_compare(rounded, exact, n, f32->config.text.vocab_size);
      if (off.whole > worst.whole) worst.whole = off.whole;
      if (off.worst_row > worst.worst_row) worst.worst_row = off.worst_row;
    }
    free(ids);
    golden_case_close(&c);
  }
  json_decref(manifest);
  omma_model_close(f32);
  omma_model_close(bf16);
  assert_true(worst.whole > 0);
  return worst;
}

static void logits_stay_near_f32(void **state) {
  (void)state;
  for (size_t m = 0; golden_models[m]; m++) {
    struct golden_error off = compare(golden_models[m], true), own = compare(golden_models[m], false);
    print_message(
        "%s: bf16 is off by %.4f over a text and %.4f at the worst token; with its own choice of experts %.4f, %.4f\n",
        golden_models[m], off.whole, off.worst_row, own.whole, own.worst_row);
    /* Rows of 32 values, and the rounding of weights that are F32 and F16 comes on top: the
     * official code in bf16 is off by up to 0.10 and 0.075 at a token of these texts. */
    bool narrow = strcmp(golden_models[m], "qwen3_vl_wide") == 0 || strcmp(golden_models[m], "paddleocr_vl_saved") == 0;
    double worst_row = narrow ? 7e-2 : 5e-2;
    /* Over these texts the official code in bf16 is off by up to 0.049, and by 0.29 at a token. The
     * inputs of linear layers rounded alone make 0.036 and 0.33 (docs/models/qwen3_5.md). */
    bool delta = strncmp(golden_models[m], "qwen3_5", 7) == 0;
    if (delta) worst_row = 4e-1;
    if (!(off.whole <= (delta ? 4e-2 : 2e-2) && off.worst_row <= worst_row))
      fail_msg("%s: bf16 is too far off", golden_models[m]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(logits_stay_near_f32)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
