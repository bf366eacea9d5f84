#include "cli/bench_times.h"

#include <omma/omma.h>
#include <stdlib.h>

#include "cli/diagnostics.h"

static int compare_times(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

void ommai_times_sort(double *times, size_t n) { qsort(times, n, sizeof *times, compare_times); }

double ommai_times_median(const double *times, size_t n) {
  size_t half = n / 2;
  return n % 2 ? times[half] : (times[half - 1] + times[half]) / 2;
}

int ommai_measure_peak(const char *isa, int n_threads, bool bf16, double *gflops) {
  /* A measurement is short: where another process has the CPU meanwhile, it sees half of the peak. */
  enum { MEASUREMENTS = 4 };
  struct omma_machine machine;
  struct omma_error error;
  *gflops = 0;
  for (int i = 0; i < MEASUREMENTS; i++) {
    if (omma_measure_machine(isa, n_threads, &machine, &error) != OMMA_OK) return ommai_failed_call(&error);
    double found = bf16 && machine.bf16_gflops > 0 ? machine.bf16_gflops : machine.f32_gflops;
    if (found > *gflops) *gflops = found;
  }
  return OMMAI_EXIT_DONE;
}
