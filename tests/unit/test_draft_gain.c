/* Whether guesses of a draft head pay: what is tried, chosen and tried again. */
#include "engine/draft_gain.h"
#include "support/test.h"

/* Runs n steps of a batch, in which a token takes with_ns with guesses and without_ns without them;
 * returns how many had guesses. */
static int run(struct ommai_draft_gain *gain, int64_t n_sequences, int n, int64_t with_ns, int64_t without_ns) {
  int guessed = 0;
  for (int i = 0; i < n; i++) {
    bool with = ommai_draft_gain_choose(gain, n_sequences);
    guessed += with;
    ommai_draft_gain_record(gain, n_sequences, with, 3 * (with ? with_ns : without_ns), 3);
  }
  return guessed;
}

static void the_faster_way_is_taken_for_each_batch_size(void **state) {
  (void)state;
  struct ommai_draft_gain gain = {0};
  assert_true(ommai_draft_gain_of(&gain, 1) == 0);
  assert_in_range(run(&gain, 1, 400, 100, 180), 380, 392);
  assert_in_range(run(&gain, 40, 400, 300, 180), 8, 20);
  assert_true(ommai_draft_gain_of(&gain, 1) > 1.79 && ommai_draft_gain_of(&gain, 1) < 1.81);
  assert_true(ommai_draft_gain_of(&gain, 64) > 0.59 && ommai_draft_gain_of(&gain, 64) < 0.61);
}

static void a_change_is_seen(void **state) {
  (void)state;
  struct ommai_draft_gain gain = {0};
  run(&gain, 2, 400, 100, 180);
  run(&gain, 2, 400, 250, 180);
  assert_in_range(run(&gain, 2, 640, 250, 180), 9, 11);
  run(&gain, 2, 2000, 100, 180);
  assert_in_range(run(&gain, 2, 640, 100, 180), 629, 631);
}

static void a_step_that_was_held_up_changes_nothing(void **state) {
  (void)state;
  struct ommai_draft_gain gain = {0};
  run(&gain, 2, 100, 100, 180);
  ommai_draft_gain_record(&gain, 2, true, 1000000000, 1);
  assert_in_range(run(&gain, 2, 128, 100, 180), 126, 126);
  ommai_draft_gain_record(&gain, 2, true, 100, 0);
}

static void the_first_step_counts_for_nothing(void **state) {
  (void)state;
  struct ommai_draft_gain gain = {0};
  assert_true(ommai_draft_gain_choose(&gain, 1));
  ommai_draft_gain_record(&gain, 1, true, 100000, 1);
  run(&gain, 1, 20, 100, 180);
  assert_true(ommai_draft_gain_of(&gain, 1) > 1.79 && ommai_draft_gain_of(&gain, 1) < 1.81);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_faster_way_is_taken_for_each_batch_size), cmocka_unit_test(a_change_is_seen),
      cmocka_unit_test(a_step_that_was_held_up_changes_nothing), cmocka_unit_test(the_first_step_counts_for_nothing)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
