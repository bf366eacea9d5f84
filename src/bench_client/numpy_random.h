/* NumPy's default generator (PCG64 after a SeedSequence), draw for draw: the same seed makes the
 * same random data set as clients written in Python. Source: O'Neill, "PCG: A Family of Simple
 * Fast Space-Efficient Statistically Good Algorithms for Random Number Generation" (2014); NumPy's
 * documentation of SeedSequence, Generator.integers (Lemire's method) and Generator.choice. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ommai_numpy_random {
  unsigned __int128 state, increment;
  bool has_half; /* a 64-bit draw serves two 32-bit ones; `half` is the second */
  uint32_t half;
};

/* As numpy.random.default_rng(seed). Not thread-safe, as all functions here. */
void ommai_numpy_random_init(struct ommai_numpy_random *random, uint64_t seed);

/* Generator.integers(low, high + 1): uniform in [low, high], where high - low < 2^32 - 1. Draws
 * nothing when low == high. */
int64_t ommai_numpy_random_integer(struct ommai_numpy_random *random, int64_t low, int64_t high);

/* Generator.random(): uniform in [0, 1). */
double ommai_numpy_random_double(struct ommai_numpy_random *random);

/* Generator.integers(0, 256, n, dtype=uint8). */
void ommai_numpy_random_bytes(struct ommai_numpy_random *random, uint8_t *out, size_t n);

/* Generator.choice(n, p=weights) for n >= 1 weights that are not all 0. */
size_t ommai_numpy_random_choice(struct ommai_numpy_random *random, const double *weights, size_t n);

/* Generator.shuffle of a list: the order of `n` items as indices, which are shuffled in place. */
void ommai_numpy_random_shuffle(struct ommai_numpy_random *random, size_t *order, size_t n);
