#include "support/random.h"

#include <math.h>
#include <string.h>

/* Logarithms of the middles of 256 parts of [1, 2), and their reciprocals; cosines and sines of the
 * middles of 256 parts of a turn. */
enum { PARTS = 256 };
static double logs[PARTS], reciprocals[PARTS], cosines[PARTS], sines[PARTS];

#define TURN 6.283185307179586

__attribute__((constructor)) static void make_tables(void) {
  for (int i = 0; i < PARTS; i++) {
    double middle = (i + 0.5) / PARTS;
    logs[i] = log(1.0 + middle);
    reciprocals[i] = 1.0 / (1.0 + middle);
    cosines[i] = cos(TURN * middle);
    sines[i] = sin(TURN * middle);
  }
}

uint32_t test_random_u32(struct test_random *random) {
  random->state += 0x9e3779b97f4a7c15u;
  uint64_t z = random->state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (uint32_t)((z ^ (z >> 31)) >> 32);
}

float test_random_defined_normal(uint32_t radius, uint32_t angle) {
  double a = ((double)radius + 1.0) / 4294967297.0;
  double b = (double)angle / 4294967296.0;
  return (float)(sqrt(-2.0 * log(a)) * cos(TURN * b));
}

/* ln((radius + 1) / (2^32 + 1)): of its exponent, of its mantissa's part, and a series over the
 * distance to the part's middle, 2^-9 at most: off by 1e-14. */
static double logarithm(uint32_t radius) {
  double a = ((double)radius + 1.0) * (1.0 / 4294967297.0), mantissa;
  uint64_t bits;
  memcpy(&bits, &a, sizeof bits);
  int exponent = (int)(bits >> 52) - 1023;
  uint32_t part = bits >> 44 & (PARTS - 1);
  bits = (bits & 0xfffffffffffffu) | 0x3ff0000000000000u;
  memcpy(&mantissa, &bits, sizeof mantissa);
  double r = mantissa * reciprocals[part] - 1.0, r2 = r * r;
  return exponent * 0.6931471805599453 + logs[part] + (r - r2 * (0.5 - r * (1.0 / 3)) - r2 * r2 * (0.25 - r * 0.2));
}

/* The cosine of that part of a turn, from the part's middle: off by 1e-15. */
static double cosine(uint32_t angle) {
  uint32_t part = angle >> 24;
  double d = ((double)(angle & 0xffffff) - 8388608.0) * (TURN / 4294967296.0), d2 = d * d;
  double c = 1.0 - d2 * (0.5 - d2 * (1.0 / 24 - d2 * (1.0 / 720)));
  double s = d - d * d2 * (1.0 / 6 - d2 * (1.0 / 120));
  return cosines[part] * c - sines[part] * s;
}

/* Where all that is within the error of the quick value rounds to one float, that is the value.
 * Near ln 1 = 0 the root makes its error larger. */
float test_random_normal(struct test_random *random) {
  uint32_t radius = test_random_u32(random), angle = test_random_u32(random);
  double l = logarithm(radius);
  if (l < -1e-4) {
    double value = sqrt(-2.0 * l) * cosine(angle);
    float low = (float)(value - 1e-12), high = (float)(value + 1e-12);
    if (low == high) return low;
  }
  return test_random_defined_normal(radius, angle);
}

int64_t test_random_range(struct test_random *random, int64_t low, int64_t high) {
  return low + (int64_t)(test_random_u32(random) % (uint64_t)(high - low + 1));
}
