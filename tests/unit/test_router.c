/* The router's choice and weights, and the sorting of rows by expert. */
#include "language/router.h"

#include <math.h>
#include <stdlib.h>

#include "support/test.h"

static struct ommai_router_config router(int64_t n_experts, int64_t n_chosen) {
  return (struct ommai_router_config){
      .n_experts = n_experts, .n_chosen = n_chosen, .n_groups = 1, .n_chosen_groups = 1, .normalise = true, .scale = 1};
}

static void expect(const struct ommai_router_config *config, const float *logits, const float *bias, const int32_t *experts,
                   const double *weights) {
  int32_t chosen[8];
  float got[8];
  ommai_router_choose(config, logits, bias, chosen, got);
  for (int64_t i = 0; i < config->n_chosen; i++) {
    assert_int_equal(chosen[i], experts[i]);
    assert_true(fabs(got[i] - weights[i]) < 1e-6);
  }
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static void softmax_weights_are_normalised_or_not(void **state) {
  (void)state;
  struct ommai_router_config config = router(4, 2);
  const float logits[4] = {1, 3, -2, 2};
  double sum = exp(1) + exp(3) + exp(-2) + exp(2);
  expect(&config, logits, NULL, (int32_t[]){1, 3}, (double[]){sigmoid(1), 1 - sigmoid(1)});
  config.normalise = false;
  config.scale = 2;
  expect(&config, logits, NULL, (int32_t[]){1, 3}, (double[]){2 * exp(3) / sum, 2 * exp(2) / sum});
}

static void large_logits_stay_finite(void **state) {
  (void)state;
  struct ommai_router_config config = router(3, 2);
  expect(&config, (float[]){1e30f, -1e30f, 1e30f}, NULL, (int32_t[]){0, 2}, (double[]){0.5, 0.5});
  config.score = OMMAI_ROUTER_SIGMOID;
  expect(&config, (float[]){1e30f, -1e30f, 1e30f}, NULL, (int32_t[]){0, 2}, (double[]){0.5, 0.5});
}

static void ties_go_to_the_lower_number(void **state) {
  (void)state;
  struct ommai_router_config config = router(6, 3);
  expect(&config, (float[]){0, 1, 1, 1, 1, 1}, NULL, (int32_t[]){1, 2, 3}, (double[]){1.0 / 3, 1.0 / 3, 1.0 / 3});
}

static void the_bias_chooses_but_does_not_weigh(void **state) {
  (void)state;
  struct ommai_router_config config = router(4, 2);
  config.score = OMMAI_ROUTER_SIGMOID;
  config.scale = 2.5f;
  const float logits[4] = {0, 1, 2, 3}, bias[4] = {5, 0, 0, 0};
  double sum = sigmoid(0) + sigmoid(3);
  expect(&config, logits, bias, (int32_t[]){0, 3}, (double[]){2.5 * sigmoid(0) / sum, 2.5 * sigmoid(3) / sum});
}

/* Six experts in three groups: the group of the single best expert loses against one with two good
 * ones. */
static void groups_are_ranked_by_their_two_best(void **state) {
  (void)state;
  struct ommai_router_config config = router(6, 2);
  config.score = OMMAI_ROUTER_SIGMOID;
  config.n_groups = 3;
  const float logits[6] = {4, -9, 2, 2.5f, 1, 1};
  double sum = sigmoid(2) + sigmoid(2.5);
  expect(&config, logits, NULL, (int32_t[]){2, 3}, (double[]){sigmoid(2) / sum, sigmoid(2.5) / sum});
  config.n_chosen_groups = 3;
  sum = sigmoid(4) + sigmoid(2.5);
  expect(&config, logits, NULL, (int32_t[]){0, 3}, (double[]){sigmoid(4) / sum, sigmoid(2.5) / sum});
}

static void broken_logits_still_choose_known_experts(void **state) {
  (void)state;
  struct ommai_router_config config = router(5, 3);
  float logits[5], weights[3];
  int32_t chosen[3];
  for (int i = 0; i < 5; i++) logits[i] = NAN;
  for (int score = 0; score < 2; score++) {
    config.score = (enum ommai_router_score)score;
    ommai_router_choose(&config, logits, NULL, chosen, weights);
    for (int i = 0; i < 3; i++) assert_int_equal(chosen[i], i);
  }
}

static void rows_are_sorted_by_expert(void **state) {
  (void)state;
  enum { N = 57, E = 9, K = 4, TILE = 16 };
  struct test_random random = {3};
  struct ommai_router_config config = router(E, K);
  struct ommai_arena arena;
  struct ommai_routing routing;
  ommai_arena_measure(&arena);
  ommai_routing_place(&routing, &config, N, &arena);
  size_t size = (arena.used + 63) / 64 * 64;
  void *memory = aligned_alloc(64, size);
  ommai_arena_init(&arena, memory, size);
  ommai_routing_place(&routing, &config, N, &arena);
  assert_false(arena.failed);
  for (int row = 0; row < N; row++) { /* expert 3 gets nobody */
    int first = (int)test_random_range(&random, 4, E - K);
    for (int j = 0; j < K; j++) routing.chosen[row * K + j] = row % 3 ? first + j : j < 3 ? j : 8;
  }
  int64_t n_tiles = ommai_routing_sort(&routing, N, TILE), covered = 0;
  bool seen[N * K] = {false};
  assert_int_equal(routing.starts[0], 0);
  assert_int_equal(routing.starts[E], N * K);
  assert_int_equal(routing.starts[3], routing.starts[4]);
  for (int e = 0; e < E; e++) {
    for (int i = routing.starts[e]; i < routing.starts[e + 1]; i++) {
      int slot = routing.sorted[i];
      assert_false(seen[slot]);
      seen[slot] = true;
      assert_int_equal(routing.chosen[slot], e);
      assert_int_equal(routing.places[slot], i);
      if (i > routing.starts[e]) assert_true(slot > routing.sorted[i - 1]);
    }
  }
  for (int64_t tile = 0; tile < n_tiles; tile++) {
    int64_t e = ommai_routing_expert(&routing, tile), first = (tile - routing.tasks[e]) * TILE;
    int64_t left = routing.starts[e + 1] - routing.starts[e] - first;
    assert_true(first >= 0 && left > 0);
    covered += left < TILE ? left : TILE;
  }
  assert_int_equal(covered, N * K);
  free(memory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(softmax_weights_are_normalised_or_not),
      cmocka_unit_test(large_logits_stay_finite),
      cmocka_unit_test(ties_go_to_the_lower_number),
      cmocka_unit_test(the_bias_chooses_but_does_not_weigh),
      cmocka_unit_test(groups_are_ranked_by_their_two_best),
      cmocka_unit_test(broken_logits_still_choose_known_experts),
      cmocka_unit_test(rows_are_sorted_by_expert),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
