/* Rotary angles with three axes against the formula of docs/models/qwen3-vl.md, in double. */
#include "language/mrope.h"

#include <math.h>

#include "support/test.h"

static const struct ommai_rope_scaling plain;

static int axis_of(int64_t pair, const int64_t section[3], bool interleaved) {
  if (!interleaved) return pair < section[0] ? 0 : pair < section[0] + section[1] ? 1 : 2;
  if (pair % 3 == 1 && pair < 3 * section[1]) return 1;
  if (pair % 3 == 2 && pair < 3 * section[2]) return 2;
  return 0;
}

static void expect_angles(int64_t head_dim, double theta, const int64_t section[3], bool interleaved,
                          const int32_t position[3]) {
  struct ommai_mrope mrope;
  float cosine[OMMAI_MROPE_MAX_PAIRS], sine[OMMAI_MROPE_MAX_PAIRS];
  ommai_mrope_init(&mrope, head_dim, theta, &plain, section, interleaved);
  ommai_mrope_angles(&mrope, position, cosine, sine);
  assert_int_equal(mrope.n_pairs, head_dim / 2);
  for (int64_t j = 0; j < head_dim / 2; j++) {
    double at = position[axis_of(j, section, interleaved)];
    double angle = at * pow(theta, -2.0 * (double)j / (double)head_dim);
    double bound = 1e-6 + 4e-7 * fabs(angle); /* frequency and angle are f32 */
    if (!(fabs(cosine[j] - cos(angle)) <= bound && fabs(sine[j] - sin(angle)) <= bound)) {
      fail_msg("head_dim %d, pair %d: %g, %g, expected %g, %g", (int)head_dim, (int)j, cosine[j], sine[j], cos(angle),
               sin(angle));
    }
  }
}

static void angles_equal_the_formula(void **state) {
  (void)state;
  const struct {
    int64_t head_dim, section[3];
  } shapes[] = {{128, {24, 20, 20}}, {32, {6, 5, 5}}, {64, {12, 10, 10}}, {256, {48, 40, 40}},
                {2, {1, 0, 0}},      {6, {1, 1, 1}},  {10, {1, 3, 1}},    {16, {0, 4, 4}}};
  const int32_t positions[][3] = {{0, 0, 0}, {7, 7, 7}, {3, 9, 40}, {100, 163, 131}, {30000, 30001, 30063}};
  const double thetas[] = {10000, 5e6};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    for (size_t p = 0; p < sizeof positions / sizeof *positions; p++) {
      for (int variant = 0; variant < 4; variant++) {
        expect_angles(shapes[s].head_dim, thetas[variant / 2], shapes[s].section, variant % 2, positions[p]);
      }
    }
  }
}

/* Text has one counter in all axes: the sections do not matter, it is plain rotary embedding. */
static void text_turns_as_without_axes(void **state) {
  (void)state;
  struct ommai_mrope a, b;
  const int64_t section[3] = {24, 20, 20}, one[3] = {64, 0, 0};
  float cosine[2][OMMAI_MROPE_MAX_PAIRS], sine[2][OMMAI_MROPE_MAX_PAIRS];
  ommai_mrope_init(&a, 128, 5e6, &plain, section, true);
  ommai_mrope_init(&b, 128, 5e6, &plain, one, false);
  for (int32_t at = 0; at < 5000; at += 77) {
    const int32_t position[3] = {at, at, at};
    ommai_mrope_angles(&a, position, cosine[0], sine[0]);
    ommai_mrope_angles(&b, position, cosine[1], sine[1]);
    assert_memory_equal(cosine[0], cosine[1], 64 * sizeof(float));
    assert_memory_equal(sine[0], sine[1], 64 * sizeof(float));
  }
}

static void released_sections_count_right(void **state) {
  (void)state;
  const int64_t section[3] = {24, 20, 20};
  int counts[3] = {0};
  struct ommai_mrope mrope;
  ommai_mrope_init(&mrope, 128, 5e6, &plain, section, true);
  for (int j = 0; j < 64; j++) counts[mrope.axis[j]]++;
  for (int axis = 0; axis < 3; axis++) assert_int_equal(counts[axis], section[axis]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(angles_equal_the_formula),
      cmocka_unit_test(text_turns_as_without_axes),
      cmocka_unit_test(released_sections_count_right),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
