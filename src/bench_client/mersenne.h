/* The Mersenne twister (MT19937) as Python's `random` and NumPy's legacy functions use it, draw for
 * draw: the same seed shuffles a data set and spaces requests as clients written in Python do.
 * Source: Matsumoto and Nishimura, "Mersenne Twister" (1998); the gamma distribution by Marsaglia
 * and Tsang, "A Simple Method for Generating Gamma Variables" (2000), below shape 1 by Best's
 * method. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OMMAI_MERSENNE_WORDS 624

struct ommai_mersenne {
  uint32_t words[OMMAI_MERSENNE_WORDS];
  int index;
  bool has_normal; /* normal deviates come in pairs; `normal` is the second */
  double normal;
};

/* As random.seed(seed) and as numpy.random.seed(seed), which differ. Not thread-safe, as all
 * functions here. */
void ommai_mersenne_init_python(struct ommai_mersenne *mersenne, uint32_t seed);
void ommai_mersenne_init_numpy(struct ommai_mersenne *mersenne, uint32_t seed);

/* Python's: uniform in [0, n) for n from 1 to 2^32 - 1, as random.choice draws. */
uint32_t ommai_mersenne_below(struct ommai_mersenne *mersenne, uint32_t n);

/* Python's random.shuffle of `n` items, given as indices. n < 2^32. */
void ommai_mersenne_shuffle(struct ommai_mersenne *mersenne, size_t *order, size_t n);

/* numpy.random.standard_gamma(shape), shape > 0. */
double ommai_mersenne_gamma(struct ommai_mersenne *mersenne, double shape);
