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

int ommai_measure_best(const char *isa, int n_threads, struct omma_machine *best) {
  /* A measurement is short: where another process has the CPU meanwhile, it sees half of the
   * peak. */
  enum { MEASUREMENTS = 4 };
  struct omma_machine machine;
  struct omma_error error;
  *best = (struct omma_machine){.n_threads = n_threads};
  for (int i = 0; i < MEASUREMENTS; i++) {
    if (omma_measure_machine(isa, n_threads, &machine, &error) != OMMA_OK) return ommai_failed_call(&error);
    best->f32_gflops = fmax(best->f32_gflops, machine.f32_gflops);
    best->bf16_gflops = fmax(best->bf16_gflops, machine.bf16_gflops);
  }
  return OMMAI_EXIT_DONE;
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
  struct omma_machine best;
  int code = ommai_measure_best(isa, n_threads, &best);
  *gflops = ommai_machine_gflops(&best, bf16);
  return code;
}

const char *ommai_readings_doubt(double lowest, double best) { return lowest < (1 - STEADY) * best ? OMMAI_UNSTEADY : NULL; }

int ommai_peaks_read(struct ommai_peaks *peaks, const char *isa, int n_threads, bool bf16) {
  return ommai_measure_peak(isa, n_threads, bf16, &peaks->gflops[peaks->n++]);
}

double ommai_peaks_best(const struct ommai_peaks *peaks) {
  double best = 0;
  for (size_t i = 0; i < peaks->n; i++) best = fmax(best, peaks->gflops[i]);
  return best;
}

double ommai_peaks_lowest(const struct ommai_peaks *peaks) {
  double lowest = ommai_peaks_best(peaks);
  for (size_t i = 0; i < peaks->n; i++) lowest = fmin(lowest, peaks->gflops[i]);
  return lowest;
}

const char *ommai_peaks_doubt(const struct ommai_peaks *peaks) {
  return ommai_readings_doubt(ommai_peaks_lowest(peaks), ommai_peaks_best(peaks));
}
