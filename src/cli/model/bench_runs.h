/* Options that benchmarks share: how often they run, on which random inputs. */
#pragma once

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
