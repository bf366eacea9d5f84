#include "bench_client/mersenne.h"

#include <math.h>

#define WORDS OMMAI_MERSENNE_WORDS
#define MIDDLE 397

void ommai_mersenne_init_numpy(struct ommai_mersenne *mersenne, uint32_t seed) {
  uint32_t *words = mersenne->words;
  *mersenne = (struct ommai_mersenne){.index = WORDS};
  words[0] = seed;
  for (uint32_t i = 1; i < WORDS; i++) words[i] = 1812433253u * (words[i - 1] ^ words[i - 1] >> 30) + i;
}

/* The published initialisation by an array, for an array of the seed alone. */
void ommai_mersenne_init_python(struct ommai_mersenne *mersenne, uint32_t seed) {
  ommai_mersenne_init_numpy(mersenne, 19650218u);
  uint32_t *words = mersenne->words;
  uint32_t i = 1;
  for (int k = 0; k < WORDS; k++) {
    words[i] = (words[i] ^ (words[i - 1] ^ words[i - 1] >> 30) * 1664525u) + seed;
    if (++i >= WORDS) words[0] = words[WORDS - 1], i = 1;
  }
  for (int k = 0; k < WORDS - 1; k++) {
    words[i] = (words[i] ^ (words[i - 1] ^ words[i - 1] >> 30) * 1566083941u) - i;
    if (++i >= WORDS) words[0] = words[WORDS - 1], i = 1;
  }
  words[0] = 0x80000000u;
}

static void refill(struct ommai_mersenne *mersenne) {
  uint32_t *words = mersenne->words;
  for (int i = 0; i < WORDS; i++) {
    uint32_t joined = (words[i] & 0x80000000u) | (words[(i + 1) % WORDS] & 0x7fffffffu);
    words[i] = words[(i + MIDDLE) % WORDS] ^ joined >> 1 ^ (joined & 1 ? 0x9908b0dfu : 0);
  }
  mersenne->index = 0;
}

static uint32_t next_u32(struct ommai_mersenne *mersenne) {
  if (mersenne->index >= WORDS) refill(mersenne);
  uint32_t word = mersenne->words[mersenne->index++];
  word ^= word >> 11;
  word ^= word << 7 & 0x9d2c5680u;
  word ^= word << 15 & 0xefc60000u;
  return word ^ word >> 18;
}

static double next_double(struct ommai_mersenne *mersenne) {
  uint32_t high = next_u32(mersenne) >> 5, low = next_u32(mersenne) >> 6;
  return (high * 67108864.0 + low) / 9007199254740992.0;
}

uint32_t ommai_mersenne_below(struct ommai_mersenne *mersenne, uint32_t n) {
  int bits = 32 - __builtin_clz(n);
  uint32_t drawn;
  do {
    drawn = next_u32(mersenne) >> (32 - bits);
  } while (drawn >= n);
  return drawn;
}

void ommai_mersenne_shuffle(struct ommai_mersenne *mersenne, size_t *order, size_t n) {
  for (size_t i = n; i-- > 1;) {
    size_t j = ommai_mersenne_below(mersenne, (uint32_t)(i + 1)), held = order[i];
    order[i] = order[j];
    order[j] = held;
  }
}

static double exponential(struct ommai_mersenne *mersenne) { return -log(1.0 - next_double(mersenne)); }

/* Marsaglia's polar method. */
static double normal(struct ommai_mersenne *mersenne) {
  mersenne->has_normal = !mersenne->has_normal;
  if (!mersenne->has_normal) return mersenne->normal;
  double x, y, square;
  do {
    x = 2.0 * next_double(mersenne) - 1.0;
    y = 2.0 * next_double(mersenne) - 1.0;
    square = x * x + y * y;
  } while (square >= 1.0 || square == 0.0);
  double factor = sqrt(-2.0 * log(square) / square);
  mersenne->normal = factor * x;
  return factor * y;
}

static double gamma_below_one(struct ommai_mersenne *mersenne, double shape) {
  for (;;) {
    double u = next_double(mersenne), v = exponential(mersenne);
    if (u <= 1.0 - shape) {
      double x = pow(u, 1.0 / shape);
      if (x <= v) return x;
    } else {
      double y = -log((1.0 - u) / shape), x = pow(1.0 - shape + shape * y, 1.0 / shape);
      if (x <= v + y) return x;
    }
  }
}

static double gamma_above_one(struct ommai_mersenne *mersenne, double shape) {
  double b = shape - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * b);
  for (;;) {
    double x, v;
    do {
      x = normal(mersenne);
      v = 1.0 + c * x;
    } while (v <= 0.0);
    v = v * v * v;
    double u = next_double(mersenne);
    if (u < 1.0 - 0.0331 * (x * x) * (x * x)) return b * v;
    if (log(u) < 0.5 * x * x + b * (1.0 - v + log(v))) return b * v;
  }
}

double ommai_mersenne_gamma(struct ommai_mersenne *mersenne, double shape) {
  if (shape == 1.0) return exponential(mersenne);
  return shape < 1.0 ? gamma_below_one(mersenne, shape) : gamma_above_one(mersenne, shape);
}
