#include "bench_client/numpy_random.h"

#define POOL_WORDS 4
#define STATE_WORDS 8

/* The hash with which a SeedSequence spreads a seed over its pool: the constants are part of its
 * definition. */
struct hash {
  uint32_t constant, factor;
};

static uint32_t hash_word(struct hash *hash, uint32_t value) {
  value ^= hash->constant;
  hash->constant *= hash->factor;
  value *= hash->constant;
  return value ^ value >> 16;
}

static uint32_t mix(uint32_t x, uint32_t y) {
  uint32_t value = x * 0xca01f9ddu - y * 0x4973f715u;
  return value ^ value >> 16;
}

static void seed_sequence(uint64_t seed, uint32_t out[STATE_WORDS]) {
  uint32_t pool[POOL_WORDS];
  struct hash spread = {0x43b0d7e5u, 0x931e8875u}, generate = {0x8b51f9ddu, 0x58f38dedu};
  const uint32_t entropy[POOL_WORDS] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  for (int i = 0; i < POOL_WORDS; i++) pool[i] = hash_word(&spread, entropy[i]);
  for (int from = 0; from < POOL_WORDS; from++) {
    for (int to = 0; to < POOL_WORDS; to++) {
      if (from != to) pool[to] = mix(pool[to], hash_word(&spread, pool[from]));
    }
  }
  for (int i = 0; i < STATE_WORDS; i++) out[i] = hash_word(&generate, pool[i % POOL_WORDS]);
}

static void step(struct ommai_numpy_random *random) {
  const unsigned __int128 multiplier = (unsigned __int128)2549297995355413924u << 64 | 4865540595714422341u;
  random->state = random->state * multiplier + random->increment;
}

static uint64_t next_u64(struct ommai_numpy_random *random) {
  step(random);
  uint64_t folded = (uint64_t)(random->state >> 64) ^ (uint64_t)random->state;
  unsigned turn = (unsigned)(random->state >> 122);
  return folded >> turn | folded << (-turn & 63);
}

static uint32_t next_u32(struct ommai_numpy_random *random) {
  random->has_half = !random->has_half;
  if (!random->has_half) return random->half;
  uint64_t both = next_u64(random);
  random->half = (uint32_t)(both >> 32);
  return (uint32_t)both;
}

void ommai_numpy_random_init(struct ommai_numpy_random *random, uint64_t seed) {
  uint32_t words[STATE_WORDS];
  uint64_t wide[STATE_WORDS / 2];
  seed_sequence(seed, words);
  for (int i = 0; i < STATE_WORDS / 2; i++) wide[i] = (uint64_t)words[2 * i + 1] << 32 | words[2 * i];
  unsigned __int128 sequence = (unsigned __int128)wide[2] << 64 | wide[3];
  *random = (struct ommai_numpy_random){.increment = sequence << 1 | 1};
  step(random);
  random->state += (unsigned __int128)wide[0] << 64 | wide[1];
  step(random);
}

int64_t ommai_numpy_random_integer(struct ommai_numpy_random *random, int64_t low, int64_t high) {
  if (low == high) return low;
  uint32_t range = (uint32_t)(high - low) + 1;
  uint64_t product = (uint64_t)next_u32(random) * range;
  if ((uint32_t)product < range) {
    uint32_t threshold = -range % range;
    while ((uint32_t)product < threshold) product = (uint64_t)next_u32(random) * range;
  }
  return low + (int64_t)(product >> 32);
}

double ommai_numpy_random_double(struct ommai_numpy_random *random) { return (double)(next_u64(random) >> 11) * 0x1p-53; }

void ommai_numpy_random_bytes(struct ommai_numpy_random *random, uint8_t *out, size_t n) {
  uint32_t word = 0;
  for (size_t i = 0; i < n; i++) {
    word = i % 4 == 0 ? next_u32(random) : word >> 8;
    out[i] = (uint8_t)word;
  }
}

size_t ommai_numpy_random_choice(struct ommai_numpy_random *random, const double *weights, size_t n) {
  double total = 0, sum = 0, drawn = ommai_numpy_random_double(random);
  for (size_t i = 0; i < n; i++) total += weights[i];
  for (size_t i = 0; i < n; i++) {
    sum += weights[i];
    if (drawn < sum / total) return i;
  }
  return n - 1;
}

/* A draw in [0, high] by masks and rejection, which is what shuffling uses. */
static size_t draw_masked(struct ommai_numpy_random *random, size_t high) {
  uint64_t mask = high, drawn;
  for (int shift = 1; shift < 64; shift *= 2) mask |= mask >> shift;
  do {
    drawn = mask & (high <= UINT32_MAX ? next_u32(random) : next_u64(random));
  } while (drawn > high);
  return (size_t)drawn;
}

void ommai_numpy_random_shuffle(struct ommai_numpy_random *random, size_t *order, size_t n) {
  for (size_t i = n; i-- > 1;) {
    size_t j = draw_masked(random, i), held = order[i];
    order[i] = order[j];
    order[j] = held;
  }
}
