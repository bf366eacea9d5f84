/* How fast this machine computes and reads memory at best. */
#include <omma/omma.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/cpu_room.h"
#include "base/error.h"
#include "base/team.h"
#include "kernels/cpu.h"
#include "kernels/peak.h"

/* One task a worker: the best of several short runs. */
struct peak_run {
  ommai_peak_loop loop;
  int64_t rounds;
};

static void peak_task(void *context, int64_t task, int worker) {
  const struct peak_run *run = context;
  (void)task;
  (void)worker;
  run->loop(run->rounds);
}

/* A team with a thread for each CPU, and the caller on its own. */
struct bound_team {
  struct ommai_team *team;
  bool is_bound;
  cpu_set_t before;
};

static enum omma_status bound_team_create(int n_threads, struct bound_team *bound, struct omma_error *error) {
  OMMAI_TRY(ommai_team_create(n_threads, true, &ommai_default_allocator, &bound->team, error));
  bound->is_bound = ommai_team_bind_caller(n_threads, &bound->before);
  return OMMA_OK;
}

static void bound_team_destroy(struct bound_team *bound) {
  cpu_set_t ignored;
  if (bound->is_bound) ommai_cpu_bind(&bound->before, &ignored);
  ommai_team_destroy(bound->team);
}

/* Builds that look for faults have no figures worth the time, which is seconds under sanitizers. */
#ifdef OMMA_ASSERTIONS
enum { ROUNDS = 10000, REPEATS = 2 };
enum { MIN_SLICES = 4, SLICES_WHERE_UNKNOWN = 8, MAX_SLICES = 8 };
#else
enum { ROUNDS = 400000, REPEATS = 7 };
enum { MIN_SLICES = 128, SLICES_WHERE_UNKNOWN = 256, MAX_SLICES = 4096 };
#endif

static double measure(struct ommai_team *team, int n_threads, ommai_peak_loop loop) {
  struct peak_run run = {loop, ROUNDS};
  if (!loop) return 0;
  double best = 1e30, operations = loop(1000) / 1000 * ROUNDS * n_threads;
  for (int i = 0; i < REPEATS; i++) {
    int64_t start = ommai_clock_ns();
    ommai_team_run(ommai_team_interface(team), n_threads, peak_task, &run);
    double seconds = (double)(ommai_clock_ns() - start) * 1e-9;
    if (seconds < best) best = seconds;
  }
  return operations / best * 1e-9;
}

/* Memory that no cache holds, in slices for whoever is free. Each page is written to first: pages
 * that never were are all one page of zeroes. */
enum { SLICE_BYTES = 1 << 20, MIN_PAGE_BYTES = 4096 };

/* Of the caches that these CPUs have, not the whole processor's: a virtual machine may report 384
 * MiB and have 32. */
static int64_t count_slices(void) {
  struct ommai_cpu_room room;
  ommai_cpu_room_here(&room);
  if (room.last_cache_bytes == 0) return SLICES_WHERE_UNKNOWN;
  return ommai_min_i64(ommai_max_i64(2 * room.last_cache_bytes / SLICE_BYTES, MIN_SLICES), MAX_SLICES);
}

static void write_slice(void *context, int64_t task, int worker) {
  (void)worker;
  unsigned char *slice = (unsigned char *)context + task * SLICE_BYTES;
  for (int64_t at = 0; at < SLICE_BYTES; at += MIN_PAGE_BYTES) slice[at] = 1;
}

static void read_slice(void *context, int64_t task, int worker) {
  (void)worker;
  int64_t n_words = SLICE_BYTES / (int64_t)sizeof(uint64_t);
  ommai_peak_read((const uint64_t *)context + task * n_words, n_words);
}

/* Read at each pass from one end to the other, so that what a cache keeps of the end is gone when
 * it comes round. */
static double measure_read(const struct omma_team *team, uint64_t *memory, int64_t n_slices) {
  enum { PASSES = 3 };
  double best = 1e30;
  ommai_team_run(team, n_slices, write_slice, memory);
  for (int i = 0; i < PASSES; i++) {
    int64_t start = ommai_clock_ns();
    ommai_team_run(team, n_slices, read_slice, memory);
    double seconds = (double)(ommai_clock_ns() - start) * 1e-9;
    if (seconds < best) best = seconds;
  }
  return (double)n_slices * SLICE_BYTES / best * 1e-9;
}

enum omma_status omma_measure_read(int n_threads, double *gbps, struct omma_error *error) {
  const struct omma_allocator *allocator = &ommai_huge_page_allocator;
  size_t n_slices = (size_t)count_slices();
  struct bound_team bound;
  if (n_threads == 0) n_threads = ommai_team_cpu_count();
  OMMAI_TRY(bound_team_create(n_threads, &bound, error));
  uint64_t *memory = ommai_allocate_uninitialised(allocator, n_slices, SLICE_BYTES);
  if (memory) *gbps = measure_read(ommai_team_interface(bound.team), memory, (int64_t)n_slices);
  ommai_release(allocator, memory, n_slices, SLICE_BYTES);
  bound_team_destroy(&bound);
  return memory ? OMMA_OK : ommai_fail_memory(error, "what is read to measure the memory", n_slices * SLICE_BYTES);
}

enum omma_status omma_measure_machine(const char *isa, int n_threads, struct omma_machine *machine, struct omma_error *error) {
  enum ommai_cpu_level level;
  struct bound_team bound;
  if (n_threads == 0) n_threads = ommai_team_cpu_count();
  OMMAI_TRY(ommai_cpu_select(isa, &level, error));
  OMMAI_TRY(bound_team_create(n_threads, &bound, error));
  *machine = (struct omma_machine){.n_threads = n_threads,
                                   .f32_gflops = measure(bound.team, n_threads, ommai_peak_f32(level)),
                                   .bf16_gflops = measure(bound.team, n_threads, ommai_peak_bf16(level))};
  bound_team_destroy(&bound);
  return OMMA_OK;
}
