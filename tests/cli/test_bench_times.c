/* Readings of the peak: the best counts, and readings that differ by more than 5 % are reported. */
#include "cli/model/bench_times.h"

#include "support/test.h"

static void steady_readings_are_not_doubted(void **state) {
  (void)state;
  const struct ommai_peaks peaks = {{96, 100, 95.5}, 3}, one = {{100}, 1}, none = {{0}, 0};
  assert_true(ommai_peaks_best(&peaks) == 100 && ommai_peaks_lowest(&peaks) == 95.5);
  assert_null(ommai_peaks_doubt(&peaks));
  assert_null(ommai_peaks_doubt(&one));
  assert_null(ommai_peaks_doubt(&none));
  assert_true(ommai_peaks_best(&none) == 0 && ommai_peaks_lowest(&none) == 0);
}

static void readings_that_differ_are_reported(void **state) {
  (void)state;
  const struct ommai_peaks first = {{94.5, 100, 99}, 3}, last = {{100, 99, 50}, 3};
  assert_string_equal(ommai_peaks_doubt(&first), "this machine is not steady");
  assert_string_equal(ommai_peaks_doubt(&last), "this machine is not steady");
  assert_true(ommai_peaks_lowest(&last) == 50);
}

static void readings_are_added(void **state) {
  (void)state;
  struct ommai_peaks peaks = {{0}, 0};
  for (size_t i = 1; i <= 2; i++) {
    assert_int_equal(ommai_peaks_read(&peaks, NULL, 1, false), 0);
    assert_true(peaks.n == i && peaks.gflops[i - 1] > 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(steady_readings_are_not_doubted),
                                     cmocka_unit_test(readings_that_differ_are_reported), cmocka_unit_test(readings_are_added)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
