/* Readings of the machine: the best counts, and readings that differ by more than 5 % are
 * reported. */
#include "cli/model/bench_times.h"

#include "support/test.h"

static struct ommai_readings readings_of(const double *values, size_t n) {
  struct ommai_readings readings = {.n = 0};
  for (size_t i = 0; i < n; i++) ommai_readings_add(&readings, values[i]);
  return readings;
}

static void steady_readings_are_not_doubted(void **state) {
  (void)state;
  const struct ommai_readings peaks = readings_of((const double[]){96, 100, 95.5}, 3);
  const struct ommai_readings one = readings_of((const double[]){100}, 1), none = readings_of(NULL, 0);
  assert_true(peaks.best == 100 && peaks.lowest == 95.5);
  assert_null(ommai_readings_doubt(&peaks));
  assert_null(ommai_readings_doubt(&one));
  assert_null(ommai_readings_doubt(&none));
  assert_true(none.best == 0 && none.lowest == 0);
}

static void readings_that_differ_are_reported(void **state) {
  (void)state;
  const struct ommai_readings first = readings_of((const double[]){94.5, 100, 99}, 3);
  const struct ommai_readings last = readings_of((const double[]){100, 99, 50}, 3);
  assert_string_equal(ommai_readings_doubt(&first), "this machine is not steady");
  assert_string_equal(ommai_readings_doubt(&last), "this machine is not steady");
  assert_true(last.lowest == 50);
}

static void readings_are_added(void **state) {
  (void)state;
  struct ommai_readings peaks = {.n = 0};
  for (size_t i = 1; i <= 2; i++) {
    double gflops = 0;
    assert_int_equal(ommai_measure_peak(NULL, 1, false, &gflops), 0);
    ommai_readings_add(&peaks, gflops);
    assert_true(peaks.n == i && peaks.values[i - 1] == gflops && gflops > 0);
  }
}

static void more_than_there_is_room_for_count(void **state) {
  (void)state;
  struct ommai_readings readings = {.n = 0};
  for (int i = 1; i <= OMMAI_MAX_READINGS + 2; i++) ommai_readings_add(&readings, i);
  assert_true(readings.n == OMMAI_MAX_READINGS && readings.values[OMMAI_MAX_READINGS - 1] == OMMAI_MAX_READINGS);
  assert_true(readings.lowest == 1 && readings.best == OMMAI_MAX_READINGS + 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(steady_readings_are_not_doubted),
                                     cmocka_unit_test(readings_that_differ_are_reported), cmocka_unit_test(readings_are_added),
                                     cmocka_unit_test(more_than_there_is_room_for_count)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
