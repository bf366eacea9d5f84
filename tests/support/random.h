/* A seeded generator for test inputs (xoshiro-like quality is not needed; reproducible on every
 * machine is). */
#pragma once

#include <stdint.h>

struct test_random {
  uint64_t state;
};
uint32_t test_random_u32(struct test_random *random);

/* The normal value of two draws by Box and Muller, worked out in double precision by the C
 * library's functions and rounded once: what test_random_normal gives, to the bit, in less time. */
float test_random_defined_normal(uint32_t radius, uint32_t angle);
float test_random_normal(struct test_random *random);

/* Uniform in [low, high]. */
int64_t test_random_range(struct test_random *random, int64_t low, int64_t high);
