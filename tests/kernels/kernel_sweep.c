#include "kernels/kernel_sweep.h"

/* A trial's number in a base of its own for each size; `count` is the product of the bases so
 * far. */
static struct {
  bool on, at_start;
  uint64_t number, left, count;
} sweep;

void kernel_sweep_begin(uint64_t number) {
  sweep.on = true;
  sweep.number = number;
  sweep.at_start = number % 2;
  sweep.left = number / 2;
  sweep.count = 2;
}

void kernel_sweep_end(void) { sweep.on = false; }

uint64_t kernel_sweep_count(const struct kernel_entry *entry, uint64_t seed) {
  kernel_sweep_begin(0);
  entry->family->check(entry, seed);
  kernel_sweep_end();
  return sweep.count;
}

uint64_t kernel_sweep_spread(uint64_t i, uint64_t n) {
  const uint64_t prime = 2147483647; /* n has no factor in common with it */
  return i * (prime % n) % n;
}

bool kernel_is_sweeping(void) { return sweep.on; }

const char *kernel_sweep_option(void) {
  static char option[32];
  option[0] = 0;
  if (sweep.on) snprintf(option, sizeof option, " --edge %" PRIu64, sweep.number);
  return option;
}

int64_t kernel_size(struct test_random *random, int64_t low, int64_t high, int64_t step) {
  const int64_t all[] = {low, low + 1, step - 1, step, step + 1, 2 * step - 1, 2 * step, 2 * step + 1, high - 1, high};
  int64_t edges[sizeof all / sizeof *all];
  size_t n = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (all[i] >= low && all[i] <= high && (n == 0 || all[i] > edges[n - 1])) edges[n++] = all[i];
  }
  if (!sweep.on) {
    if (test_random_range(random, 0, 2) == 0) return test_random_range(random, low, high);
    return edges[test_random_range(random, 0, (int64_t)n - 1)];
  }
  uint64_t digit = sweep.left % n;
  sweep.left /= n;
  sweep.count *= n;
  return edges[digit];
}

struct guarded kernel_memory(size_t size) {
  return guarded_new(size, !(sweep.on && sweep.at_start));
}
