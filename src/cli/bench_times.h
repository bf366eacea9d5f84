/* What benchmarks have in common: times of runs, and the peak that they are held against. */
#ifndef OMMAI_CLI_BENCH_TIMES_H
#define OMMAI_CLI_BENCH_TIMES_H

#include <stdbool.h>
#include <stddef.h>

/* Sorts times, shortest first. */
void ommai_times_sort(double *times, size_t n);

/* The middle of n (1 or more) sorted times. */
double ommai_times_median(const double *times, size_t n);

/* GFLOP/s that n_threads threads reach out of registers at the CPU level `isa` (NULL: the best): in products of bf16 numbers where
 * `bf16` is set and the level has them, else in f32. Returns an exit code. */
int ommai_measure_peak(const char *isa, int n_threads, bool bf16, double *gflops);

#endif
