/* What benchmarks have in common: how often they run, on which random inputs, times of runs, and
 * what the machine can do, which they are held against. */
#pragma once

#include <omma/omma.h>
#include <stdbool.h>
#include <stddef.h>

#include "cli/model/model_options.h"

/* Of --repeat and --warmup each. */
enum { OMMAI_MAX_RUNS = 1000 };

/* The first member of the struct of values of a benchmark that has these options. */
struct ommai_bench_runs {
  struct ommai_common common;
  int64_t repeat, warmup; /* measured runs, and those before them */
  int64_t seed;
};

extern const struct ommai_option_group ommai_bench_run_options; /* repeat, warmup, seed */

/* --seed in a table of options. */
#define OMMAI_SEED_OPTION(field) OMMAI_INTEGER("seed", field, "S", 0, INT64_MAX, "seed of the random inputs", .initial = "0")

/* Sorts times, shortest first. */
void ommai_times_sort(double *times, size_t n);

/* The middle of n (1 or more) sorted times. */
double ommai_times_median(const double *times, size_t n);

/* The peak in products of bf16 numbers where `bf16` is set and the level has them, else in f32. */
double ommai_machine_gflops(const struct omma_machine *machine, bool bf16);

/* The best that several measurements of omma_measure_machine find: GFLOP/s, as above, that
 * n_threads threads reach out of registers at the CPU level `isa` (NULL: the best). Returns an exit
 * code. */
int ommai_measure_peak(const char *isa, int n_threads, bool bf16, double *gflops);

/* Likewise of omma_measure_read. */
int ommai_measure_read(int n_threads, double *gbps);

/* What is said of readings that cannot be relied on. */
#define OMMAI_UNSTEADY "this machine is not steady"

/* Readings of one figure of the machine; zeros to begin with. The best counts: another program that
 * has the CPUs meanwhile only ever lowers one. */
enum { OMMAI_MAX_READINGS = 8 };
struct ommai_readings {
  double values[OMMAI_MAX_READINGS]; /* in order; more are not kept */
  size_t n;                          /* of these */
  double best, lowest;               /* of all */
};
void ommai_readings_add(struct ommai_readings *readings, double value);

/* OMMAI_UNSTEADY, where the lowest and the best differ by more than 5 %. NULL: nothing speaks
 * against the best. */
const char *ommai_readings_doubt(const struct ommai_readings *readings);
