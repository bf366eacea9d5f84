/* What the engine does next: the rules one by one, and gaps, shares and turns in simulated time. */
#include "engine/policy.h"

#include "support/test.h"

static const struct ommai_load idle = {.slice_ns = 1000000000, .percent = 50, .hurry = true, .more_rows = true};

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
  load.n_streams = 3;
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
  load.n_streams = 1;
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
    load.n_streams = test_random_range(&random, 1, 8);
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

/* ---- whole answers ---- */

static void whole_answers_wait_for_more_rows(void **state) {
  (void)state;
  struct ommai_load load = idle;
  load.n_patient = 2;
  load.step_ns = 40000000;
  assert_int_equal(ommai_choose_work(&load).work, OMMAI_WORK_DECODE);
  load.prefill = true;
  assert_int_equal(ommai_choose_work(&load).work, OMMAI_WORK_PREFILL);
  assert_int_equal(ommai_choose_work(&load).ns, load.slice_ns);
  load.more_rows = false; /* nobody would join */
  assert_int_equal(ommai_choose_work(&load).work, OMMAI_WORK_DECODE);
  load.n_streams = 1; /* a stream goes by its own promise, whoever else waits */
  assert_int_equal(ommai_choose_work(&load).work, OMMAI_WORK_PREFILL);
  assert_int_equal(ommai_choose_work(&load).ns, load.step_ns);
}

/* With enough rows they go on as streams do, and those to come get their share. */
static void a_step_is_full_at_some_number_of_rows(void **state) {
  (void)state;
  struct ommai_load load = idle;
  load.encode = true;
  load.hurry = false;
  load.step_ns = 40000000;
  load.n_patient = OMMAI_FULL_STEP_ROWS - 1;
  assert_int_equal(ommai_choose_work(&load).work, OMMAI_WORK_ENCODE);
  assert_int_equal(ommai_choose_work(&load).ns, load.slice_ns);
  load.n_patient = OMMAI_FULL_STEP_ROWS;
  assert_int_equal(ommai_choose_work(&load).ns, load.step_ns);
  load.since_step_ns = load.step_ns;
  assert_int_equal(ommai_choose_work(&load).work, OMMAI_WORK_DECODE);
  load.n_patient--; /* one has ended: its place is filled first */
  assert_int_equal(ommai_choose_work(&load).work, OMMAI_WORK_ENCODE);
}

/* Streams of 80 ms, half of the time for others. */
static void streams_carry_what_fits_their_gap(void **state) {
  (void)state;
  struct ommai_load load = idle;
  load.n_patient = 20;
  assert_int_equal(ommai_choose_carried(&load), 20); /* alone */
  load.n_streams = 1;
  assert_int_equal(ommai_choose_carried(&load), 0); /* the streams' own step is not known */
  load.own_step_ns = load.step_ns = 80000000;
  assert_int_equal(ommai_choose_carried(&load), 16); /* nor is a row's */
  load.row_ns = 8000000;
  assert_int_equal(ommai_choose_carried(&load), 10);
  load.prefill = true;
  assert_int_equal(ommai_choose_carried(&load), 5);
  load.step_ns = 120000000; /* the slice gets what they leave */
  assert_int_equal(ommai_choose_work(&load).work, OMMAI_WORK_PREFILL);
  assert_int_equal(ommai_choose_work(&load).ns, 40000000);
  load.measure_own = true;
  assert_int_equal(ommai_choose_carried(&load), 0);
  assert_int_equal(ommai_choose_work(&load).ns, 40000000); /* what the last step left */
  load.step_ns = 80000000;
  assert_int_equal(ommai_choose_work(&load).ns, 80000000);
  load.measure_own = false;
  load.row_ns = 100000000; /* somebody goes on, and the slice has a quarter at least */
  assert_int_equal(ommai_choose_carried(&load), 1);
  assert_int_equal(ommai_choose_work(&load).ns, 20000000);
  load.n_patient = 0;
  assert_int_equal(ommai_choose_carried(&load), 0);
}

/* A stream's step that takes five times as long once: the slices after it are no longer than
 * before. */
static void a_step_that_was_held_up_lengthens_no_slice(void **state) {
  (void)state;
  struct ommai_load load = idle;
  load.n_streams = 1;
  load.encode = true;
  load.own_step_ns = ommai_learn_own_step(40000000, 200000000);
  load.step_ns = 200000000;
  assert_in_range(ommai_choose_work(&load).ns, 10000000, 10500000); /* a quarter is left */
  load.own_step_ns = ommai_learn_own_step(load.own_step_ns, 40000000);
  load.step_ns = 40000000;
  assert_int_equal(ommai_choose_work(&load).ns, 40000000);
  for (int i = 0; i < 64; i++) load.own_step_ns = ommai_learn_own_step(load.own_step_ns, 100000000);
  assert_int_equal(load.own_step_ns, 100000000); /* it takes that long now */
}

static void without_hurry_images_go_first(void **state) {
  (void)state;
  struct ommai_load load = idle;
  load.prefill = load.encode = load.encoded_last = true;
  load.hurry = false;
  assert_int_equal(ommai_choose_work(&load).work, OMMAI_WORK_ENCODE);
  assert_int_equal(ommai_choose_work(&load).ns, load.slice_ns);
}

/* A load in simulated time: requests arrive at once, each with an image, a prompt and tokens. A
 * step takes step_ns, and row_ns for each further row. */
struct simulation {
  int64_t encode_ns, prefill_ns, step_ns, row_ns;
  int n_requests, n_slots, n_tokens;
  bool whole;
};

struct outcome {
  int64_t end_ns, longest_gap_ns;
  int64_t n_steps;
};

enum { MAX_REQUESTS = 64 };

/* What is left of a request. */
struct request {
  int64_t encode_ns, prefill_ns;
  int n_tokens;
};

static struct ommai_load load_of(const struct simulation *simulation, const struct request *requests, int n_live) {
  struct ommai_load load = idle;
  load.hurry = !simulation->whole;
  for (int i = 0; i < n_live; i++) {
    bool decodes = requests[i].prefill_ns <= 0 && requests[i].n_tokens > 0;
    load.encode |= requests[i].encode_ns > 0;
    load.prefill |= requests[i].encode_ns <= 0 && requests[i].prefill_ns > 0;
    *(simulation->whole ? &load.n_patient : &load.n_streams) += decodes;
  }
  load.more_rows = load.encode || load.prefill;
  return load;
}

/* A slice for the first request that waits for this work. */
static void take_slice(struct request *requests, int n_live, enum ommai_work work, int64_t ns, int64_t *now) {
  for (int i = 0; i < n_live; i++) {
    if (work == OMMAI_WORK_PREFILL && requests[i].encode_ns > 0) continue;
    int64_t *left = work == OMMAI_WORK_ENCODE ? &requests[i].encode_ns : &requests[i].prefill_ns;
    if (*left <= 0) continue;
    *now += *left < ns ? *left : ns;
    *left -= ns;
    return;
  }
  fail_msg("a slice without work");
}

/* A step of all that decode; those that have ended leave their slots. */
static int64_t take_step(const struct simulation *simulation, struct request *requests, int *n_live) {
  int64_t n = 0;
  for (int i = 0; i < *n_live; i++) {
    if (requests[i].prefill_ns > 0) continue;
    n++;
    requests[i].n_tokens--;
  }
  for (int i = 0; i < *n_live; i++) {
    while (i < *n_live && requests[i].n_tokens == 0) requests[i] = requests[--*n_live];
  }
  return simulation->step_ns + (n - 1) * simulation->row_ns;
}

static struct outcome simulate(const struct simulation *simulation) {
  struct request requests[MAX_REQUESTS];
  struct outcome outcome = {0};
  int n_live = 0, n_started = 0;
  int64_t step_ns = 0, since_step = 0, last_step = 0;
  bool encoded_last = false;
  while (true) {
    while (n_started < simulation->n_requests && n_live < simulation->n_slots) {
      requests[n_live++] = (struct request){simulation->encode_ns, simulation->prefill_ns, simulation->n_tokens};
      n_started++;
    }
    if (n_live == 0) return outcome;
    struct ommai_load load = load_of(simulation, requests, n_live);
    load.step_ns = step_ns;
    load.since_step_ns = since_step;
    load.encoded_last = encoded_last;
    struct ommai_choice choice = ommai_choose_work(&load);
    int64_t start = outcome.end_ns;
    if (choice.work == OMMAI_WORK_DECODE) {
      step_ns = take_step(simulation, requests, &n_live);
      outcome.end_ns += step_ns;
      if (outcome.n_steps++ && outcome.end_ns - last_step > outcome.longest_gap_ns)
        outcome.longest_gap_ns = outcome.end_ns - last_step;
      last_step = outcome.end_ns;
      since_step = 0;
    } else {
      take_slice(requests, n_live, choice.work, choice.ns, &outcome.end_ns);
      encoded_last = choice.work == OMMAI_WORK_ENCODE;
      since_step += outcome.end_ns - start;
    }
  }
}

/* Eight images at once, with times measured on a Zen 4: whole answers take as many steps as one of
 * them alone has tokens, streams several times as many, and gaps as promised. */
static void whole_answers_share_their_steps(void **state) {
  (void)state;
  struct simulation simulation = {.encode_ns = 1100000000,
                                  .prefill_ns = 2000000000,
                                  .step_ns = 130000000,
                                  .row_ns = 2000000,
                                  .n_requests = 8,
                                  .n_slots = 8,
                                  .n_tokens = 64};
  struct outcome streams = simulate(&simulation);
  assert_true(streams.n_steps > 100);
  assert_true(streams.longest_gap_ns < 2 * (simulation.step_ns + 8 * simulation.row_ns) * 11 / 10);
  simulation.whole = true;
  struct outcome whole = simulate(&simulation);
  assert_int_equal(whole.n_steps, 64);
  assert_int_equal(whole.end_ns,
                   8 * (simulation.encode_ns + simulation.prefill_ns) + 64 * (simulation.step_ns + 7 * simulation.row_ns));
  assert_true(whole.end_ns * 12 < streams.end_ns * 10);
  /* More requests than slots: the slots are full, so nobody could join. */
  simulation.n_requests = 24;
  assert_int_equal(simulate(&simulation).n_steps, 3 * 64);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_to_do_is_nothing),
      cmocka_unit_test(alone_everything_gets_long_slices),
      cmocka_unit_test(images_and_prompts_take_turns),
      cmocka_unit_test(a_slice_follows_a_step),
      cmocka_unit_test(gaps_and_shares_are_as_promised),
      cmocka_unit_test(whole_answers_wait_for_more_rows),
      cmocka_unit_test(a_step_is_full_at_some_number_of_rows),
      cmocka_unit_test(a_step_that_was_held_up_lengthens_no_slice),
      cmocka_unit_test(without_hurry_images_go_first),
      cmocka_unit_test(streams_carry_what_fits_their_gap),
      cmocka_unit_test(whole_answers_share_their_steps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
