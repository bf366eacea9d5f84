/* How much memory keys and values get by default. */
#include "engine/engine_measure.h"

#include "support/test.h"

#define MIB ((int64_t)1 << 20)
#define GIB ((int64_t)1 << 30)

static void what_is_needed_is_given_where_there_is_room(void **state) {
  (void)state;
  assert_int_equal(ommai_kv_budget(3 * GIB, 64 * GIB, 5 * GIB), 3 * GIB);
  assert_int_equal(ommai_kv_budget(8 * 3 * GIB, 64 * GIB, 5 * GIB), 24 * GIB);
}

/* An eighth, and half a gibibyte at least, stays free. */
static void a_reserve_is_left(void **state) {
  (void)state;
  assert_int_equal(ommai_kv_budget(100 * GIB, 16 * GIB, 5 * GIB), 9 * GIB);
  assert_int_equal(ommai_kv_budget(100 * GIB, 2 * GIB, 1 * GIB), 512 * MIB);
}

static void a_small_machine_gets_an_eighth_of_its_room(void **state) {
  (void)state;
  assert_int_equal(ommai_kv_budget(100 * GIB, 800 * MIB, 0), 288 * MIB);
  assert_int_equal(ommai_kv_budget(100 * GIB, 800 * MIB, 700 * MIB), 100 * MIB);
  assert_int_equal(ommai_kv_budget(100 * GIB, 8 * GIB, 30 * GIB), 1 * GIB);
  assert_int_equal(ommai_kv_budget(10 * MIB, 8 * GIB, 30 * GIB), 10 * MIB);
  assert_int_equal(ommai_kv_budget(100 * GIB, 0, 30 * GIB), 0);
}

static void without_knowledge_it_is_a_gibibyte_at_most(void **state) {
  (void)state;
  assert_int_equal(ommai_kv_budget(100 * GIB, -1, 30 * GIB), 1 * GIB);
  assert_int_equal(ommai_kv_budget(10 * MIB, -1, 30 * GIB), 10 * MIB);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_needed_is_given_where_there_is_room),
      cmocka_unit_test(a_reserve_is_left),
      cmocka_unit_test(a_small_machine_gets_an_eighth_of_its_room),
      cmocka_unit_test(without_knowledge_it_is_a_gibibyte_at_most),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
