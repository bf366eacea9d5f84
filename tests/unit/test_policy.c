/* What the engine does next: the rules one by one, and gaps, shares and turns in simulated time. */
#include "engine/policy.h"

#include "support/test.h"

static const struct ommai_load idle = {.slice_ns = 1000000000, .percent = 50};

static void nothing_to_do_is_nothing(void **state) {
  (void)state;
  assert_int_equal(ommai_choose_work(&idle).work, OMMAI_WORK_NONE);
}

static void alone_everything_gets_long_slices(void **state) {
  (void)state;
  struct ommai_load load = idle;
  load.prefill = true;
  assert_int_equal(ommai_choose_work(&load).work, OMMAI_WORK_PREFILL);
  assert_int_equal(ommai_choose_work(&load).ns, load.slice_ns);
  load.prefill = false;
  load.encode = true;
  assert_int_equal(ommai_choose_work(&load).work, OMMAI_WORK_ENCODE);
  assert_int_equal(ommai_choose_work(&load).ns, load.slice_ns);
  load.encode = false;
  load.n_decoding = 3;
  assert_int_equal(ommai_choose_work(&load).work, OMMAI_WORK_DECODE);
}

static void images_and_prompts_take_turns(void **state) {
  (void)state;
  struct ommai_load load = idle;
  load.prefill = load.encode = true;
  assert_int_equal(ommai_choose_work(&load).work, OMMAI_WORK_ENCODE);
  assert_int_equal(ommai_choose_work(&load).ns, OMMAI_SHARED_SLICE_NS);
  load.encoded_last = true;
  assert_int_equal(ommai_choose_work(&load).work, OMMAI_WORK_PREFILL);
}

static void a_slice_follows_a_step(void **state) {
  (void)state;
  struct ommai_load load = idle;
  load.n_decoding = 1;
  load.encode = true;
  /* nothing is known of its time yet */
  assert_int_equal(ommai_choose_work(&load).work, OMMAI_WORK_DECODE);
  load.step_ns = 40000000;
  assert_int_equal(ommai_choose_work(&load).work, OMMAI_WORK_ENCODE);
  assert_int_equal(ommai_choose_work(&load).ns, 40000000);
  load.since_step_ns = 10000000; /* it ended early: the rest is used */
  assert_int_equal(ommai_choose_work(&load).ns, 30000000);
  load.since_step_ns = 31000000;
  assert_int_equal(ommai_choose_work(&load).work, OMMAI_WORK_DECODE);
  load.since_step_ns = 0;
  load.percent = 20;
  assert_int_equal(ommai_choose_work(&load).ns, 10000000);
  load.percent = 90;
  load.step_ns = 4000000000;
  assert_int_equal(ommai_choose_work(&load).ns, load.slice_ns);
  load.step_ns = 1000;
  assert_int_equal(ommai_choose_work(&load).ns, OMMAI_MIN_SLICE_NS);
}

/* In simulated time, with slices that end up to a fifth early or late: no gap between two steps is
 * over the promise, and while both kinds of slices wait, each gets a third or more of their
 * time. */
static void gaps_and_shares_are_as_promised(void **state) {
  (void)state;
  struct test_random random = {23};
  for (int trial = 0; trial < 500; trial++) {
    struct ommai_load load = idle;
    int64_t times[4] = {0}, step = test_random_range(&random, 2000000, 300000000), gap = 0;
    load.n_decoding = test_random_range(&random, 1, 8);
    load.percent = test_random_range(&random, 10, 60);
    load.encode = load.prefill = true;
    for (int turn = 0; turn < 200; turn++) {
      struct ommai_choice choice = ommai_choose_work(&load);
      int64_t took = choice.work == OMMAI_WORK_DECODE ? step : choice.ns * test_random_range(&random, 80, 120) / 100;
      times[choice.work] += took;
      gap += took;
      if (choice.work == OMMAI_WORK_DECODE) {
        int64_t share = step * load.percent / (100 - load.percent);
        int64_t max_gap = step + (share > OMMAI_MIN_SLICE_NS ? share : OMMAI_MIN_SLICE_NS) * 14 / 10;
        if (turn > 0 && gap > max_gap) fail_msg("trial %d, turn %d: a gap of %lld", trial, turn, (long long)gap);
        load.step_ns = step;
        load.since_step_ns = gap = 0;
      } else {
        load.encoded_last = choice.work == OMMAI_WORK_ENCODE;
        load.since_step_ns += took;
      }
    }
    int64_t slices = times[OMMAI_WORK_ENCODE] + times[OMMAI_WORK_PREFILL];
    assert_true(3 * times[OMMAI_WORK_ENCODE] > slices && 3 * times[OMMAI_WORK_PREFILL] > slices);
    assert_true(times[OMMAI_WORK_DECODE] > 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_to_do_is_nothing),        cmocka_unit_test(alone_everything_gets_long_slices),
      cmocka_unit_test(images_and_prompts_take_turns),   cmocka_unit_test(a_slice_follows_a_step),
      cmocka_unit_test(gaps_and_shares_are_as_promised),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
