/* The engine's queue: its order, and what becomes of requests that are cancelled. */
#include "engine/request_queue.h"

#include "request/request.h"
#include "support/test.h"

enum { N_SLOTS = 4, MAX_RUNNING = 8 };

static struct test_allocator allocator;
static struct ommai_request_queue queue;
static const struct omma_request request;

static int set_up(void **state) {
  (void)state;
  struct omma_error error;
  const struct ommai_queue_limits limits = {.bytes = INT64_MAX};
  test_allocator_init(&allocator);
  assert_ok(ommai_request_queue_init(&queue, &limits, N_SLOTS, MAX_RUNNING, &allocator.interface, &error), &error);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  ommai_request_queue_free(&queue);
  assert_int_equal(allocator.n_live, 0);
  return 0;
}

static uint64_t push(int64_t priority) {
  const struct ommai_queued_request queued = {.request = &request, .priority = priority};
  struct omma_error error;
  uint64_t id;
  assert_ok(ommai_request_queue_push(&queue, &queued, &id, &error), &error);
  return id;
}

/* The one that goes first runs. */
static uint64_t take(void) {
  struct ommai_queued_request taken, *first = ommai_request_queue_next(&queue, NULL);
  assert_non_null(first);
  ommai_request_queue_take(&queue, first, &taken);
  return taken.id;
}

static void lower_priorities_go_first_and_then_who_came_first(void **state) {
  (void)state;
  uint64_t a = push(1), b = push(0), c = push(1), d = push(-1), e = push(0);
  const uint64_t order[] = {d, b, e, a, c};
  const struct ommai_queued_request *at = NULL;
  for (int i = 0; i < 5; i++) assert_int_equal((at = ommai_request_queue_next(&queue, at))->id, order[i]);
  assert_null(ommai_request_queue_next(&queue, at));
  for (int i = 0; i < 5; i++) {
    assert_int_equal(take(), order[i]);
    ommai_request_queue_done(&queue, order[i]);
  }
}

static void each_cancelled_request_is_reported_once(void **state) {
  (void)state;
  uint64_t ids[4], id;
  for (int i = 0; i < 4; i++) ids[i] = push(0);
  for (int i = 0; i < 4; i++) assert_int_equal(take(), ids[i]);
  assert_false(ommai_request_queue_running_cancelled(&queue, &id));
  for (int i = 0; i < 4; i += 3) ommai_request_queue_cancel(&queue, ids[i]);
  ommai_request_queue_cancel(&queue, 999); /* nobody's */
  assert_true(ommai_request_queue_wait(&queue, false));
  for (int i = 0; i < 4; i += 3) {
    assert_true(ommai_request_queue_running_cancelled(&queue, &id));
    assert_int_equal(id, ids[i]);
  }
  assert_false(ommai_request_queue_running_cancelled(&queue, &id));
  assert_false(queue.some_cancelled); /* the thread may sleep */
  for (int i = 0; i < 4; i++) ommai_request_queue_done(&queue, ids[i]);
}

static void who_waits_is_taken_out(void **state) {
  (void)state;
  struct ommai_queued_request taken;
  uint64_t running = push(0), first, second, id;
  assert_int_equal(take(), running);
  first = push(0);
  second = push(0);
  assert_false(ommai_request_queue_take_cancelled(&queue, &taken));
  ommai_request_queue_cancel(&queue, second);
  /* looking among those that run does not forget those that wait */
  assert_false(ommai_request_queue_running_cancelled(&queue, &id));
  assert_true(ommai_request_queue_take_cancelled(&queue, &taken));
  assert_int_equal(taken.id, second);
  assert_false(ommai_request_queue_take_cancelled(&queue, &taken));
  /* one that is taken to run although it was cancelled is reported then */
  ommai_request_queue_cancel(&queue, first);
  assert_int_equal(take(), first);
  assert_true(ommai_request_queue_running_cancelled(&queue, &id));
  assert_int_equal(id, first);
  ommai_request_queue_done(&queue, first);
  ommai_request_queue_done(&queue, running);
}

static void nothing_is_taken_in_after_the_end(void **state) {
  (void)state;
  const struct ommai_queued_request queued = {.request = &request};
  struct ommai_queued_request taken;
  struct omma_error error;
  uint64_t id = push(0);
  ommai_request_queue_stop(&queue);
  assert_false(ommai_request_queue_wait(&queue, false));
  assert_fails(ommai_request_queue_push(&queue, &queued, NULL, &error), OMMA_ERROR_CANCELLED, "going down", &error);
  assert_true(ommai_request_queue_take_cancelled(&queue, &taken));
  assert_int_equal(taken.id, id);
  assert_false(ommai_request_queue_take_cancelled(&queue, &taken));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(lower_priorities_go_first_and_then_who_came_first, set_up, tear_down),
      cmocka_unit_test_setup_teardown(each_cancelled_request_is_reported_once, set_up, tear_down),
      cmocka_unit_test_setup_teardown(who_waits_is_taken_out, set_up, tear_down),
      cmocka_unit_test_setup_teardown(nothing_is_taken_in_after_the_end, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
