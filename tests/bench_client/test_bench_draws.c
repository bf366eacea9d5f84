/* The generators against values that NumPy 2.3 and Python 3.11 gave, and the arrival times made of
 * them. */
#include <math.h>

#include "bench_client/arrivals.h"
#include "bench_client/mersenne.h"
#include "bench_client/numpy_random.h"
#include "support/test.h"

static void numpy_default_rng(void **state) {
  (void)state;
  struct ommai_numpy_random random;
  const int64_t integers[] = {851, 638, 513, 272, 310};
  const uint8_t bytes[] = {169, 61, 125, 10, 59, 81, 222};
  const size_t choices[] = {2, 1, 2, 1, 2}, shuffled[] = {6, 4, 2, 5, 1, 3, 7, 9, 0, 8};
  const double weights[] = {0.2, 0.5, 0.3};
  uint8_t drawn[7];
  size_t order[10];
  ommai_numpy_random_init(&random, 0);
  for (int i = 0; i < 5; i++) assert_int_equal(ommai_numpy_random_integer(&random, 3, 1000), integers[i]);
  assert_true(ommai_numpy_random_double(&random) == 0.016527635528529094);
  ommai_numpy_random_bytes(&random, drawn, 7);
  assert_memory_equal(drawn, bytes, 7);
  for (int i = 0; i < 5; i++) assert_int_equal(ommai_numpy_random_choice(&random, weights, 3), choices[i]);
  for (size_t i = 0; i < 10; i++) order[i] = i;
  ommai_numpy_random_shuffle(&random, order, 10);
  assert_memory_equal(order, shuffled, sizeof order);
}

static void numpy_large_seed_and_no_range(void **state) {
  (void)state;
  struct ommai_numpy_random random;
  ommai_numpy_random_init(&random, 123456789012u);
  assert_int_equal(ommai_numpy_random_integer(&random, 5, 5), 5);
  assert_int_equal(ommai_numpy_random_integer(&random, 3, 1000), 953);
  assert_int_equal(ommai_numpy_random_integer(&random, 3, 1000), 567);
}

static void python_random(void **state) {
  (void)state;
  struct ommai_mersenne mersenne;
  const size_t shuffled[] = {7, 8, 1, 5, 3, 4, 2, 0, 9, 6};
  const uint32_t below[] = {366, 597, 913, 929, 223};
  size_t order[10];
  for (size_t i = 0; i < 10; i++) order[i] = i;
  ommai_mersenne_init_python(&mersenne, 0);
  ommai_mersenne_shuffle(&mersenne, order, 10);
  assert_memory_equal(order, shuffled, sizeof order);
  for (int i = 0; i < 5; i++) assert_int_equal(ommai_mersenne_below(&mersenne, 1000), below[i]);
  assert_int_equal(ommai_mersenne_below(&mersenne, 1), 0);
}

static void numpy_gamma(void **state) {
  (void)state;
  struct ommai_mersenne mersenne;
  const double shapes[] = {1, 0.3, 2.5, 7};
  const double drawn[] = {0.79587450816311, 0.327749666194721, 0.24921340043532, 10.7366648561115,
                          2.22352441303266, 0.49432781271755,  3.4910340339666,  6.98579098451606};
  ommai_mersenne_init_numpy(&mersenne, 0);
  for (int i = 0; i < 8; i++) assert_true(fabs(ommai_mersenne_gamma(&mersenne, shapes[i % 4]) / drawn[i] - 1) < 1e-13);
}

static void the_last_arrival_is_exact(void **state) {
  (void)state;
  double delays[500];
  for (double burstiness = 0.25; burstiness < 5; burstiness *= 2) {
    struct ommai_arrivals arrivals = {.rate = 8, .burstiness = burstiness, .seed = 3};
    ommai_arrivals_delays(&arrivals, delays, 500);
    assert_true(fabs(delays[499] - 500 / 8.0) < 1e-9);
    for (int i = 1; i < 500; i++) assert_true(delays[i] >= delays[i - 1]);
  }
}

/* What NumPy 2.4 gives for the formula in arrivals.h. */
static void delays_in_numbers(void **state) {
  (void)state;
  const double expected[5][6] = {
      {0.000538756788679218, 0.0365427061542112, 0.0719177072736613, 0.079340278058523, 0.0872591789687448, 0.1},
      {1.25460157271467e-08, 0.0654376477390278, 0.0658794286137683, 0.0991079403519116, 0.0991620214396362, 0.1},
      {0.0199356470025096, 0.036996342351204, 0.0532371969397026, 0.068562670675682, 0.0860859500549534, 0.1},
      {0.0286345994384808, 0.0294554819654964, 0.0475863439701702, 0.0577917067754829, 0.0658117291008448, 0.0708239469051798},
      {0.0286345994384808, 0.029629979634766, 0.0525395601301577, 0.0649775582044866, 0.0739726686719433, 0.0789848864762783}};
  const struct ommai_arrivals arrivals[5] = {
      {.rate = 60, .burstiness = 1, .seed = 9},
      {.rate = 60, .burstiness = 0.25, .seed = 9},
      {.rate = 60, .burstiness = 4, .seed = 9},
      {.ramp = OMMAI_RAMP_LINEAR, .start_rate = 20, .end_rate = 80, .burstiness = 1, .seed = 2},
      {.ramp = OMMAI_RAMP_EXPONENTIAL, .start_rate = 20, .end_rate = 80, .burstiness = 1, .seed = 2}};
  for (int i = 0; i < 5; i++) {
    double delays[6];
    ommai_arrivals_delays(&arrivals[i], delays, 6);
    for (int j = 0; j < 6; j++) assert_true(fabs(delays[j] / expected[i][j] - 1) < 1e-12);
  }
}

static void rates_without_chance(void **state) {
  (void)state;
  double delays[5];
  struct ommai_arrivals at_once = {.rate = INFINITY, .burstiness = 1}, even = {.rate = 4, .burstiness = INFINITY};
  ommai_arrivals_delays(&at_once, delays, 5);
  for (int i = 0; i < 5; i++) assert_true(delays[i] == 0);
  ommai_arrivals_delays(&even, delays, 5);
  for (int i = 0; i < 5; i++) assert_true(fabs(delays[i] - (i + 1) / 4.0) < 1e-12);
}

static void ramps(void **state) {
  (void)state;
  struct ommai_arrivals linear = {.burstiness = 1, .ramp = OMMAI_RAMP_LINEAR, .start_rate = 2, .end_rate = 32};
  struct ommai_arrivals exponential = linear;
  exponential.ramp = OMMAI_RAMP_EXPONENTIAL;
  assert_true(ommai_arrivals_rate(&linear, 0, 5) == 2 && ommai_arrivals_rate(&linear, 2, 5) == 17);
  assert_true(fabs(ommai_arrivals_rate(&exponential, 2, 5) - 8) < 1e-12);
  assert_true(fabs(ommai_arrivals_rate(&exponential, 4, 5) - 32) < 1e-12);
  assert_true(ommai_arrivals_rate(&exponential, 0, 1) == 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numpy_default_rng),
      cmocka_unit_test(numpy_large_seed_and_no_range),
      cmocka_unit_test(python_random),
      cmocka_unit_test(numpy_gamma),
      cmocka_unit_test(the_last_arrival_is_exact),
      cmocka_unit_test(delays_in_numbers),
      cmocka_unit_test(rates_without_chance),
      cmocka_unit_test(ramps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
