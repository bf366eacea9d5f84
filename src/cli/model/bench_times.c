#include "cli/model/bench_times.h"

#include <math.h>
#include <stdlib.h>

#include "cli/core/diagnostics.h"

#define OMMAI_VALUES struct ommai_bench_runs

static const struct ommai_option table[] = {
    OMMAI_INTEGER("repeat", repeat, "N", 1, OMMAI_MAX_RUNS, "number of measured runs", .initial = "3"),
    OMMAI_INTEGER("warmup", warmup, "N", 0, OMMAI_MAX_RUNS, "number of runs before them that are not measured", .initial = "1"),
    OMMAI_SEED_OPTION(seed),
};
const struct ommai_option_group ommai_bench_run_options = OMMAI_OPTION_GROUP("Runs", table);

/* Readings that differ by more than this are reported. */
#define STEADY 0.05

static int compare_times(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

void ommai_times_sort(double *times, size_t n) { qsort(times, n, sizeof *times, compare_times); }

double ommai_times_median(const double *times, size_t n) {
  size_t half = n / 2;
  return n % 2 ? times[half] : (times[half - 1] + times[half]) / 2;
}

int ommai_measure_read(int n_threads, double *gbps) {
  enum { MEASUREMENTS = 2 };
  struct omma_error error;
  double found;
  *gbps = 0;
  for (int i = 0; i < MEASUREMENTS; i++) {
    if (omma_measure_read(n_threads, &found, &error) != OMMA_OK) return ommai_failed_call(&error);
    *gbps = fmax(*gbps, found);
  }
  return OMMAI_EXIT_DONE;
}

double ommai_machine_gflops(const struct omma_machine *machine, bool bf16) {
  return bf16 && machine->bf16_gflops > 0 ? machine->bf16_gflops : machine->f32_gflops;
}

int ommai_measure_peak(const char *isa, int n_threads, bool bf16, double *gflops) {
  /* A measurement is short: where another process has the CPU meanwhile, it sees half of the
   * peak. */
  enum { MEASUREMENTS = 4 };
  struct omma_machine machine;
  struct omma_error error;
  *gflops = 0;
  for (int i = 0; i < MEASUREMENTS; i++) {
    if (omma_measure_machine(isa, n_threads, &machine, &error) != OMMA_OK) return ommai_failed_call(&error);
    *gflops = fmax(*gflops, ommai_machine_gflops(&machine, bf16));
  }
  return OMMAI_EXIT_DONE;
}

void ommai_readings_add(struct ommai_readings *readings, double value) {
  readings->best = readings->n ? fmax(readings->best, value) : value;
  readings->lowest = readings->n ? fmin(readings->lowest, value) : value;
  if (readings->n < OMMAI_MAX_READINGS) readings->values[readings->n++] = value;
}

const char *ommai_readings_doubt(const struct ommai_readings *readings) {
  return readings->lowest < (1 - STEADY) * readings->best ? OMMAI_UNSTEADY : NULL;
}
