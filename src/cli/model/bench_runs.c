#include "cli/model/bench_runs.h"

#define OMMAI_VALUES struct ommai_bench_runs

static const struct ommai_option table[] = {
    OMMAI_INTEGER("repeat", repeat, "N", 1, OMMAI_MAX_RUNS, "number of measured runs", .initial = "3"),
    OMMAI_INTEGER("warmup", warmup, "N", 0, OMMAI_MAX_RUNS, "number of runs before them that are not measured", .initial = "1"),
    OMMAI_SEED_OPTION(seed),
};
const struct ommai_option_group ommai_bench_run_options = OMMAI_OPTION_GROUP("Runs", table);
