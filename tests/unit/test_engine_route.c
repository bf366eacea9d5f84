/* Which of several engines gets a request: a pure function, over random loads; and what is
 * remembered of who knows what. */
#include "engine/engine_route.h"

#include <stdlib.h>

#include "support/test.h"

enum { ROUNDS = 20000, MAX_ENGINES = 8 };

static struct ommai_route_engine random_engine(struct test_random *random) {
  return (struct ommai_route_engine){.out = test_random_range(random, 0, 5) == 0,
                                     .load = test_random_range(random, 0, 20) * 100,
                                     .missing = test_random_range(random, 0, 10) * 100,
                                     .n_sent = test_random_range(random, 0, 3)};
}

static int64_t total(const struct ommai_route_engine *engine) { return engine->load + engine->missing; }

static void nobody_has_less_to_do(void **state) {
  (void)state;
  struct test_random random = {7};
  for (int round = 0; round < ROUNDS; round++) {
    struct ommai_route_engine engines[MAX_ENGINES];
    int n = (int)test_random_range(&random, 1, MAX_ENGINES), n_in = 0;
    for (int i = 0; i < n; i++) {
      engines[i] = random_engine(&random);
      n_in += !engines[i].out;
    }
    int chosen = ommai_engine_route_choose(engines, n);
    assert_int_equal(chosen < 0, n_in == 0);
    if (chosen < 0) continue;
    assert_false(engines[chosen].out);
    for (int i = 0; i < n; i++) {
      if (engines[i].out || i == chosen) continue;
      assert_true(total(&engines[i]) >= total(&engines[chosen]));
      bool equal = total(&engines[i]) == total(&engines[chosen]);
      if (equal)
        assert_true(engines[i].n_sent > engines[chosen].n_sent || (engines[i].n_sent == engines[chosen].n_sent && i > chosen));
    }
  }
}

static void who_knows_gets_it_until_that_costs_more(void **state) {
  (void)state;
  /* the second knows 900 of 1,000 */
  struct ommai_route_engine engines[] = {{false, 500, 1000, 0}, {false, 1000, 100, 9}};
  assert_int_equal(ommai_engine_route_choose(engines, 2), 1);
  engines[1].load = 1401;
  assert_int_equal(ommai_engine_route_choose(engines, 2), 0);
}

/* Requests of random work that end at random: no engine ever has more than the others by more than
 * the largest request. */
static void loads_stay_level(void **state) {
  (void)state;
  enum { N = 4, LARGEST = 1000, LIVE = 64 };
  struct test_random random = {11};
  struct ommai_route_engine engines[N] = {0};
  for (int round = 0; round < ROUNDS; round++) {
    int64_t work = test_random_range(&random, 1, LARGEST), least = INT64_MAX;
    for (int i = 0; i < N; i++) {
      engines[i].missing = work;
      if (engines[i].load < least) least = engines[i].load;
    }
    int chosen = ommai_engine_route_choose(engines, N);
    assert_int_equal(engines[chosen].load, least);
    engines[chosen].load += work;
    engines[chosen].n_sent++;
    int ends = (int)test_random_range(&random, 0, N - 1);
    engines[ends].load -= engines[ends].load * test_random_range(&random, 0, 100) / 100;
  }
  for (int i = 0; i < N; i++) assert_true(engines[i].n_sent > ROUNDS / N / 4);
}

static void keys_are_remembered(void **state) {
  (void)state;
  struct ommai_route_known *known = calloc(1, sizeof *known);
  uint8_t a[32] = {1, 2, 3}, b[32] = {1, 2, 3, 0, 0, 0, 0, 9}; /* the same place */
  assert_non_null(known);
  assert_int_equal(ommai_engine_route_find(known, a), 0);
  ommai_engine_route_note(known, a, 0);
  ommai_engine_route_note(known, a, 63);
  assert_true(ommai_engine_route_find(known, a) == ((uint64_t)1 << 63 | 1));
  ommai_engine_route_forget(known, 0);
  assert_true(ommai_engine_route_find(known, a) == (uint64_t)1 << 63);
  ommai_engine_route_note(known, b, 5);
  assert_true(ommai_engine_route_find(known, b) == 1 << 5 && ommai_engine_route_find(known, a) == 0);
  free(known);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nobody_has_less_to_do),
      cmocka_unit_test(who_knows_gets_it_until_that_costs_more),
      cmocka_unit_test(loads_stay_level),
      cmocka_unit_test(keys_are_remembered),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
