/* Whether drafts of a draft head pay: what is tried, chosen and tried again. */
#include "engine/draft_gain.h"
#include "support/test.h"

/* Runs n steps of a batch, in which a token takes with_ns with drafts and without_ns without them;
 * returns how many had drafts. */
static int run(struct ommai_draft_gain *gain, int64_t n_sequences, int n, int64_t with_ns, int64_t without_ns) {
  int drafted = 0;
  for (int i = 0; i < n; i++) {
    bool with = ommai_draft_gain_choose(gain, n_sequences);
    drafted += with;
    ommai_draft_gain_record(gain, n_sequences, with, 3 * (with ? with_ns : without_ns), 3);
  }
  return drafted;
}

static void the_faster_way_is_taken_for_each_batch_size(void **state) {
  (void)state;
  struct ommai_draft_gain gain = {0};
  assert_true(ommai_draft_gain_of(&gain, 1) == 0);
  assert_in_range(run(&gain, 1, 400, 100, 180), 387, 389);
  assert_in_range(run(&gain, 40, 400, 300, 180), 11, 13);
  assert_true(ommai_draft_gain_of(&gain, 1) > 1.79 && ommai_draft_gain_of(&gain, 1) < 1.81);
  assert_true(ommai_draft_gain_of(&gain, 64) > 0.59 && ommai_draft_gain_of(&gain, 64) < 0.61);
}

/* In 260 steps. */
static void a_change_is_seen(void **state) {
  (void)state;
  struct ommai_draft_gain gain = {0};
  run(&gain, 2, 400, 100, 180);
  run(&gain, 2, 400, 250, 180);
  assert_in_range(run(&gain, 2, 520, 250, 180), 8, 8);
  run(&gain, 2, 600, 100, 180);
  assert_in_range(run(&gain, 2, 520, 100, 180), 512, 512);
}

/* A step with drafts takes 1.7 times as long and gives 1 or 4 tokens in turn, 2.5 in the mean. */
static void tokens_of_all_steps_count(void **state) {
  (void)state;
  struct ommai_draft_gain gain = {0};
  int drafted = 0;
  for (int i = 0; i < 1000; i++) {
    bool with = ommai_draft_gain_choose(&gain, 1);
    drafted += with;
    ommai_draft_gain_record(&gain, 1, with, with ? 1700 : 1000, with ? (i % 2 ? 4 : 1) : 1);
  }
  assert_in_range(drafted, 975, 985);
  assert_true(ommai_draft_gain_of(&gain, 1) > 1.4 && ommai_draft_gain_of(&gain, 1) < 1.55);
}

static void a_step_that_was_held_up_changes_nothing(void **state) {
  (void)state;
  struct ommai_draft_gain gain = {0};
  run(&gain, 2, 100, 100, 180);
  ommai_draft_gain_record(&gain, 2, true, 1000000000, 1);
  assert_in_range(run(&gain, 2, 128, 100, 180), 128, 128);
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
      cmocka_unit_test(a_step_that_was_held_up_changes_nothing), cmocka_unit_test(the_first_step_counts_for_nothing),
      cmocka_unit_test(tokens_of_all_steps_count)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
