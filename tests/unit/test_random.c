/* The generator of test inputs: the normal values that its definition gives. */
#include "support/random.h"

#include "support/test.h"

static void same_bits(struct test_random random) {
  struct test_random draws = random;
  uint32_t radius = test_random_u32(&draws), angle = test_random_u32(&draws);
  float expected = test_random_defined_normal(radius, angle), found = test_random_normal(&random);
  if (memcmp(&found, &expected, sizeof found) != 0) {
    fail_msg("draws %u, %u: %.9g, defined is %.9g", radius, angle, (double)found, (double)expected);
  }
  assert_true(random.state == draws.state);
}

static void normal_values_are_the_defined_ones(void **state) {
  (void)state;
  struct test_random random = {1};
  for (int i = 0; i < 1000000; i++) {
    same_bits(random);
    test_random_u32(&random);
  }
}

/* The generator's inverse: the state before the draw of a number whose lower half is `low`. */
static uint64_t unshifted(uint64_t z, int shift) {
  uint64_t x = z;
  for (int i = shift; i < 64; i += shift) x = z ^ (x >> shift);
  return x;
}

static uint64_t state_before(uint32_t number, uint32_t low) {
  uint64_t z = unshifted((uint64_t)number << 32 | low, 31);
  z = unshifted(z * 0x319642b2d24d8ec3u, 27); /* the inverses of the odd factors, modulo 2^64 */
  z = unshifted(z * 0x96de1b173f119089u, 30);
  return z - 0x9e3779b97f4a7c15u;
}

/* The first and last numbers, where the logarithm is large or nearly 0, with a thousand angles
 * each. */
static void the_ends_too(void **state) {
  (void)state;
  static const uint32_t ends[] = {0, 1, 2, 0x7fffffff, 0x80000000, 0xffff0000, 0xfffe7000, 0xfffffffe, 0xffffffff};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    for (uint32_t low = 0; low < 1000; low++) {
      struct test_random random = {state_before(ends[i], low)}, draw = random;
      assert_true(test_random_u32(&draw) == ends[i]);
      same_bits(random);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(normal_values_are_the_defined_ones), cmocka_unit_test(the_ends_too)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
