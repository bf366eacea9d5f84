/* Gathered experts against the naive loop, row by row and expert by expert: the same bits,
 * whichever rows share an expert, on teams of any size. */
#include <string.h>

#include "base/allocator.h"
#include "base/team.h"
#include "kernels/attention_element.h"
#include "kernels/dtype.h"
#include "language/experts.h"
#include "support/decoder_fixture.h"
#include "support/test.h"

enum { MAX_ROWS = 300, MAX_CHOSEN = 8, MAX_SLOTS = MAX_ROWS * MAX_CHOSEN, MAX_INTERMEDIATE = 128 };

static struct {
  int32_t chosen[MAX_SLOTS], sorted[MAX_SLOTS], places[MAX_SLOTS], starts[MAX_SLOTS], tasks[MAX_SLOTS];
  float weights[MAX_SLOTS];
  float rows[MAX_ROWS * DECODER_HIDDEN]; /* of the decoder's type */
  float gathered[MAX_SLOTS * DECODER_HIDDEN], wide[MAX_SLOTS * 2 * MAX_INTERMEDIATE], gated[MAX_SLOTS * MAX_INTERMEDIATE];
  float results[MAX_SLOTS * DECODER_HIDDEN], expected[MAX_SLOTS * DECODER_HIDDEN];
} memory;

static const struct ommai_experts_scratch scratch = {memory.gathered, memory.wide, memory.gated, NULL};

/* Random rows, and for each the experts that a random router chooses: some get many rows, some
 * none. */
static struct ommai_routing make_problem(const struct ommai_decoder *decoder, int64_t layer, int64_t n_rows, uint64_t seed) {
  const struct ommai_router_config *config = &decoder->config.experts.router;
  struct ommai_routing routing = {.n_experts = config->n_experts,
                                  .n_chosen = config->n_chosen,
                                  .chosen = memory.chosen,
                                  .weights = memory.weights,
                                  .sorted = memory.sorted,
                                  .places = memory.places,
                                  .starts = memory.starts,
                                  .tasks = memory.tasks};
  struct test_random random = {seed};
  assert_true(n_rows * config->n_chosen <= MAX_SLOTS && config->n_experts < MAX_SLOTS);
  assert_true(decoder->config.experts.intermediate_size <= MAX_INTERMEDIATE);
  for (int64_t row = 0; row < n_rows; row++) {
    float logits[MAX_SLOTS];
    for (int64_t e = 0; e < config->n_experts; e++) logits[e] = test_random_normal(&random) - (e % 3 == 0 ? 2.0f : 0.0f);
    ommai_experts_choose(decoder, layer, logits, row, 1, &routing);
    for (int64_t i = row * DECODER_HIDDEN; i < (row + 1) * DECODER_HIDDEN; i++) {
      ommai_attention_store(memory.rows, i, decoder->dtype, test_random_normal(&random));
    }
  }
  memset(memory.results, 0xff, sizeof memory.results);
  return routing;
}

static const void *row_at(const struct ommai_decoder *decoder, int64_t slot, int64_t n_chosen) {
  return ommai_element(memory.rows, slot / n_chosen * DECODER_HIDDEN, decoder->dtype);
}

/* Decoding's form: each slot alone through its expert's two layers. */
static void naive_few(const struct ommai_decoder *decoder, int64_t layer, const struct ommai_routing *routing,
                      int64_t n_slots) {
  int64_t intermediate = decoder->config.experts.intermediate_size;
  for (int64_t slot = 0; slot < n_slots; slot++) {
    const struct ommai_decoder_expert *expert = &decoder->layers[layer].experts[routing->chosen[slot]];
    float wide[2 * MAX_INTERMEDIATE], gated[MAX_INTERMEDIATE];
    ommai_linear_gemv(expert->gate_up.linear, row_at(decoder, slot, routing->n_chosen), DECODER_HIDDEN, 1, wide,
                      2 * intermediate, false, 0, ommai_linear_n_panels(expert->gate_up.linear));
    decoder->ops->silu_mul(wide, wide + intermediate, intermediate, gated, decoder->dtype);
    ommai_linear_gemv(expert->down.linear, gated, intermediate, 1, memory.expected + slot * DECODER_HIDDEN, DECODER_HIDDEN,
                      false, 0, ommai_linear_n_panels(expert->down.linear));
  }
}

/* Prompts' form: the same through the layers of tiles. */
static void naive_tiles(const struct ommai_decoder *decoder, int64_t layer, const struct ommai_routing *routing,
                        int64_t n_slots, struct ommai_row_tiles *tiles) {
  int64_t intermediate = decoder->config.experts.intermediate_size;
  for (int64_t slot = 0; slot < n_slots; slot++) {
    const struct ommai_decoder_expert *expert = &decoder->layers[layer].experts[routing->chosen[slot]];
    memcpy(memory.gathered, row_at(decoder, slot, routing->n_chosen), DECODER_HIDDEN * ommai_dtype_size(decoder->dtype));
    ommai_row_tiles_apply(tiles, expert->gate_up.op, memory.gathered, memory.wide, 1, 0);
    decoder->ops->silu_mul(memory.wide, memory.wide + intermediate, intermediate, memory.gated, decoder->dtype);
    ommai_row_tiles_apply(tiles, expert->down.op, memory.gated, memory.expected + slot * DECODER_HIDDEN, 1, 0);
  }
}

static void expect_results(const struct ommai_routing *routing, int64_t n_slots) {
  for (int64_t slot = 0; slot < n_slots; slot++) {
    const float *result = memory.results + routing->places[slot] * DECODER_HIDDEN;
    assert_memory_equal(result, memory.expected + slot * DECODER_HIDDEN, DECODER_HIDDEN * sizeof(float));
  }
}

static void check(const struct ommai_decoder *decoder, int64_t n_rows, const struct omma_team *team) {
  int64_t layer = decoder->config.n_layers - 1;
  struct ommai_routing routing = make_problem(decoder, layer, n_rows, (uint64_t)n_rows);
  int64_t n_slots = n_rows * routing.n_chosen;

  ommai_experts_run_few(decoder, layer, &routing, n_rows, memory.rows, &scratch, memory.results, team);
  naive_few(decoder, layer, &routing, n_slots);
  expect_results(&routing, n_slots);

  struct ommai_row_tiles tiles;
  memset(memory.results, 0xff, sizeof memory.results);
  ommai_row_tiles_init(&tiles, n_rows, 1, OMMAI_LINEAR_MAX_ROWS);
  int64_t n_tiles = ommai_routing_sort(&routing, n_rows, OMMAI_MAX_TILE_ROWS);
  for (int64_t tile = n_tiles - 1; tile >= 0; tile--) {
    ommai_experts_run_tile(decoder, layer, &routing, tile, memory.rows, memory.results, &scratch, &tiles, 0);
  }
  naive_tiles(decoder, layer, &routing, n_slots, &tiles);
  assert_false(tiles.failure.taken);
  expect_results(&routing, n_slots);

  float sum[DECODER_HIDDEN] = {0}, expected[DECODER_HIDDEN] = {0};
  ommai_experts_add_row(decoder, &routing, n_rows - 1, memory.results, sum);
  for (int64_t slot = n_slots - routing.n_chosen; slot < n_slots; slot++) {
    for (int64_t d = 0; d < DECODER_HIDDEN; d++)
      expected[d] += routing.weights[slot] * memory.expected[slot * DECODER_HIDDEN + d];
  }
  for (int64_t d = 0; d < DECODER_HIDDEN; d++) assert_float_equal(sum[d], expected[d], 1e-5f);
}

static void gathered_experts_equal_the_naive_loop(void **state) {
  (void)state;
  static const int64_t counts[] = {1, 2, 5, 16, 130, MAX_ROWS};
  static const int workers[] = {1, 2, 3, 40};
  enum { N_TEAMS = sizeof workers / sizeof *workers };
  static struct decoder_fixture fixture;
  struct ommai_team *teams[N_TEAMS];
  struct omma_error error;
  for (int t = 0; t < N_TEAMS; t++) {
    assert_ok(ommai_team_create(workers[t], false, &ommai_default_allocator, &teams[t], &error), &error);
  }
  for (int kind = DECODER_MOE; kind <= DECODER_MLA; kind++) {
    for (int type = OMMA_F32; type <= OMMA_BF16; type++) {
      decoder_fixture_make(&fixture, kind, (enum omma_dtype)type, 1, &ommai_default_allocator);
      for (size_t i = 0; i < N_TEAMS * sizeof counts / sizeof *counts; i++) {
        check(&fixture.decoder, counts[i / N_TEAMS], ommai_team_interface(teams[i % N_TEAMS]));
      }
      decoder_fixture_free(&fixture);
    }
  }
  for (int t = 0; t < N_TEAMS; t++) ommai_team_destroy(teams[t]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(gathered_experts_equal_the_naive_loop)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
