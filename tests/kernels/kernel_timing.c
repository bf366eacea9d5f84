#include "kernels/kernel_timing.h"

#include "base/clock.h"
#include "kernels/peak.h"

#define BATCH_SECONDS 2e-4
#define PEAK_SECONDS 5e-3

/* Seconds of `count` calls. */
static double batch(const struct kernel_call *call, int64_t count) {
  double start = ommai_clock_seconds();
  for (int64_t i = 0; i < count; i++) call->run(call->context);
  return ommai_clock_seconds() - start;
}

static double best_seconds(const struct kernel_call *call, double seconds) {
  int64_t count = 1;
  double taken = batch(call, 1), best;
  while ((taken = batch(call, count)) < BATCH_SECONDS) count *= 2;
  best = taken / (double)count;
  for (double end = ommai_clock_seconds() + seconds; ommai_clock_seconds() < end;) {
    taken = batch(call, count) / (double)count;
    if (taken < best) best = taken;
  }
  return best;
}

static double peak_gflops(enum ommai_cpu_level level, bool half) {
  ommai_peak_loop loop = half ? ommai_peak_bf16(level) : NULL;
  if (!loop) loop = ommai_peak_f32(level);
  double best = 0.0, end = ommai_clock_seconds() + PEAK_SECONDS;
  int64_t rounds = 20000;
  do {
    double start = ommai_clock_seconds(), flops = loop(rounds);
    double found = flops / (ommai_clock_seconds() - start) * 1e-9;
    if (found > best) best = found;
  } while (ommai_clock_seconds() < end);
  return best;
}

struct kernel_time kernel_time_entry(const struct kernel_entry *entry, double seconds) {
  struct kernel_call call = entry->family->call(entry);
  struct kernel_time time = {.peak_gflops = peak_gflops(entry->level, call.half)};
  double best = best_seconds(&call, seconds), after = peak_gflops(entry->level, call.half);
  if (after > time.peak_gflops) time.peak_gflops = after;
  time.ns = best * 1e9;
  time.gflops = call.flops / best * 1e-9;
  memcpy(time.shape, call.shape, sizeof time.shape);
  call.release(call.context);
  return time;
}
