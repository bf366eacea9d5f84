/* Which prompts share a chunk, whose rows share a stream's steps, and who has a slot, over the fake
 * runner: each case runs with all rules of sim_world.h, so that answers are those of the requests
 * alone. */
#include "engine/sim_world.h"
#include "support/test.h"

static struct sim_case run;

static void set_simplest(const struct sim_field *fields, int n, void *values) {
  for (int i = 0; i < n; i++) ((int64_t *)values)[i] = fields[i].simplest;
}

/* A case of n requests with `own` tokens each, that arrive at once. */
static void make_case(int64_t n, int64_t own, bool whole) {
  set_simplest(sim_engine_fields, sim_n_engine_fields, &run.engine);
  run.engine.slots = 64;
  run.engine.pages = 512;
  run.engine.context = 16384;
  run.engine.chunk = 512;
  run.n_requests = n;
  run.n_failures = 0;
  for (int64_t i = 0; i < n; i++) {
    set_simplest(sim_request_fields, sim_n_request_fields, &run.requests[i]);
    run.requests[i].own = own;
    run.requests[i].text = i;
    run.requests[i].answer = 4;
    run.requests[i].whole = whole;
  }
}

static struct sim_outcome run_case(void) {
  struct sim_outcome outcome;
  sim_run(&run, &outcome);
  if (outcome.rule[0]) {
    sim_case_print(&run, stdout);
    fail_msg("%s: %s", outcome.rule, outcome.details);
  }
  return outcome;
}

static void expect(int64_t n_chunks, int64_t n_pieces) {
  const struct sim_outcome outcome = run_case();
  assert_int_equal(outcome.n_ended, run.n_requests);
  assert_int_equal(outcome.n_chunks, n_chunks);
  assert_int_equal(outcome.n_pieces, n_pieces);
}

/* n requests with `own` tokens each, one of them with more. */
struct sharing {
  int64_t n, own, which, longer, n_chunks, n_pieces;
};

static void expect_all(const struct sharing *cases, size_t n_cases, bool whole) {
  for (size_t i = 0; i < n_cases; i++) {
    make_case(cases[i].n, cases[i].own, whole);
    if (cases[i].longer) run.requests[cases[i].which].own = cases[i].longer;
    expect(cases[i].n_chunks, cases[i].n_pieces);
  }
}

static void whole_answers_fill_a_chunk(void **state) {
  (void)state;
  /* The 33rd to 40th prompt do not fit; 300 + 192, 108 + 300; 12 rows are less than a page; the
   * rest of a long prompt takes others along. */
  const struct sharing cases[] = {{32, 16, 0, 0, 1, 32}, {40, 16, 0, 0, 2, 40}, {3, 300, 0, 0, 2, 4},
                                  {64, 1, 0, 0, 1, 64},  {2, 500, 0, 0, 2, 2},  {4, 30, 0, 600, 2, 5}};
  expect_all(cases, sizeof cases / sizeof *cases, true);
}

/* Where somebody waits for a first token, a chunk stays short, and nobody is cut. */
static void streams_share_short_chunks(void **state) {
  (void)state;
  const struct sharing cases[] = {{8, 16, 0, 0, 4, 8}, {4, 60, 0, 0, 4, 4}, {3, 12, 2, 300, 2, 3}};
  expect_all(cases, sizeof cases / sizeof *cases, false);
}

/* Who begins alike waits for the first one's pages. */
static void common_beginnings_are_computed_once(void **state) {
  (void)state;
  make_case(6, 20, true);
  for (int64_t i = 0; i < 6; i++) run.requests[i].shared = 64;
  run.engine.prefix_cache = 1;
  const struct sim_outcome outcome = run_case();
  assert_int_equal(outcome.n_chunks, 2);
  assert_int_equal(outcome.n_cached_tokens, 5 * 64);
  run.engine.prefix_cache = 0;
  expect(1, 6);
}

/* Vectors after an instruction that is no whole page: two prompts in a row show it, all others take
 * it over; so a prompt of less than a page, of more, and one that goes on with an image. */
static void short_beginnings_are_copied(void **state) {
  (void)state;
  for (int64_t kind = 0; kind < 3; kind++) {
    make_case(6, kind == 1 ? 80 : 20, true);
    run.engine.prefix_cache = 1;
    for (int64_t i = 0; i < 6; i++) {
      run.requests[i].shared = 14;
      run.requests[i].read = 1;
      run.requests[i].at = 20 * i;
      run.requests[i].images = kind == 2;
    }
    assert_int_equal(run_case().n_cached_tokens, 4 * 14);
    run.requests[3].read = 0; /* an answer writes behind its prompt */
    assert_int_equal(run_case().n_cached_tokens, 3 * 14);
    run.requests[4].shared = 7; /* too short */
    assert_int_equal(run_case().n_cached_tokens, 2 * 14);
    run.engine.prefix_cache = 0;
    assert_int_equal(run_case().n_cached_tokens, 0);
  }
}

/* Each kind of what layers keep, and every way in which a part leaves its chunk. */
static void leaving_parts_disturb_nobody(void **state) {
  (void)state;
  for (int64_t kind = 0; kind < 4; kind++) {
    for (int64_t turn = 1; turn < 6; turn++) {
      make_case(6, 80, true);
      run.engine.window = kind & 1 ? 40 : 0;
      run.engine.snapshots = kind >> 1;
      run.engine.prefix_cache = turn & 1;
      run.engine.slice_ms = 1; /* a chunk takes many turns */
      run.engine.round_us = 500;
      run.engine.max_wait_ms = 60000;
      run.requests[turn % 6].cancel = turn;
      run.requests[(turn + 1) % 6].cancel = turn;
      run.requests[2].scores = 1;
      run.requests[3].images = 2;
      run.requests[5].priority = 1;
      assert_int_equal(run_case().n_ended, 6);
    }
  }
}

/* Pages run out while chunks are shared. */
static void preempted_parts_come_again(void **state) {
  (void)state;
  make_case(6, 70, true);
  run.engine.pages = 14;
  run.engine.context = 640;
  run.engine.slice_ms = 1;
  run.engine.round_us = 500;
  for (int64_t i = 0; i < 6; i++) {
    run.requests[i].answer = 120;
    run.requests[i].at = 3 * i;
    run.requests[i].whole = i % 2;
  }
  const struct sim_outcome outcome = run_case();
  assert_int_equal(outcome.n_ended, 6);
  assert_true(outcome.n_preemptions > 0);
}

/* What a 2B model takes on two cores of a Zen 4: a step of one row 78 ms, of 13 rows 150. A
 * stream's gap stays near twice its own while twelve whole answers are computed; these end hardly
 * later than if all their rows were in every step, which costs the stream 280 ms. */
static void a_stream_carries_rows_within_its_gap(void **state) {
  (void)state;
  make_case(13, 60, true);
  run.engine.step_us = 72000;
  run.engine.row_us = 6000;
  run.engine.chunk_us = 30000;
  run.engine.token_us = 7000;
  run.engine.patch_us = 1400;
  run.engine.round_us = 2000;
  run.engine.max_wait_ms = 60000;
  for (int64_t i = 1; i < 13; i++) {
    run.requests[i].at = 5;
    run.requests[i].images = 1;
    run.requests[i].image = i % 6;
    run.requests[i].answer = 64;
  }
  run.requests[0].whole = 0;
  run.requests[0].answer = 150;
  const int64_t own_ns = 78000000;
  const struct sim_outcome carried = run_case();
  assert_int_equal(carried.n_ended, 13);
  assert_in_range(carried.stream_gap_ns, 100000000, 22 * own_ns / 10);
  run.engine.max_wait_ms = 1; /* who has waited is in every step */
  const struct sim_outcome all = run_case();
  assert_true(all.stream_gap_ns > 35 * own_ns / 10);
  assert_true(10 * carried.total_ns < 11 * all.total_ns && 50 * carried.completion_ns < 51 * all.completion_ns);
}

/* One slot: a request waits for its image, and one without comes after it. */
static void who_waits_for_an_image_has_no_slot(void **state) {
  (void)state;
  make_case(2, 4, true);
  run.engine.slots = 1;
  run.engine.slice_ms = 1;
  run.engine.round_us = 500;
  run.requests[0].images = 1;
  run.requests[0].image = 5;
  run.requests[1].at = 1;
  run.requests[1].whole = 0;
  const struct sim_outcome outcome = run_case();
  assert_int_equal(outcome.n_ended, 2);
  assert_true(10 * outcome.completion_ns < 16 * outcome.total_ns); /* the second ends early */
}

/* A stream has the only slot: the next request's image is encoded between its steps. */
static void images_are_encoded_ahead_of_slots(void **state) {
  (void)state;
  make_case(2, 4, false);
  run.engine.slots = 1;
  run.engine.round_us = 500;
  run.requests[0].answer = 40;
  run.requests[1].at = 10;
  const int64_t own_ns = 5220000;
  assert_in_range(run_case().stream_gap_ns, own_ns, 11 * own_ns / 10);
  run.requests[1].images = 1;
  run.requests[1].image = 5;
  assert_in_range(run_case().stream_gap_ns, 15 * own_ns / 10, 22 * own_ns / 10);
}

/* A pass takes along images of requests without a slot, as far as it stays short. */
static void images_of_waiting_requests_share_a_pass(void **state) {
  (void)state;
  make_case(12, 4, true);
  run.engine.slots = 2;
  for (int64_t i = 0; i < 12; i++) run.requests[i].images = 1;
  for (int64_t i = 0; i < 12; i++) run.requests[i].image = i % 3;
  assert_int_equal(run_case().n_passes, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whole_answers_fill_a_chunk),
      cmocka_unit_test(streams_share_short_chunks),
      cmocka_unit_test(common_beginnings_are_computed_once),
      cmocka_unit_test(short_beginnings_are_copied),
      cmocka_unit_test(leaving_parts_disturb_nobody),
      cmocka_unit_test(preempted_parts_come_again),
      cmocka_unit_test(a_stream_carries_rows_within_its_gap),
      cmocka_unit_test(who_waits_for_an_image_has_no_slot),
      cmocka_unit_test(images_are_encoded_ahead_of_slots),
      cmocka_unit_test(images_of_waiting_requests_share_a_pass),
  };
  sim_set_up();
  int status = cmocka_run_group_tests(tests, NULL, NULL);
  sim_tear_down();
  return status;
}
