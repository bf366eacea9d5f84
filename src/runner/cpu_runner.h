/* The runner on this machine's CPUs: a model's tower and decoder on a team of threads. */
#ifndef OMMAI_RUNNER_CPU_RUNNER_H
#define OMMAI_RUNNER_CPU_RUNNER_H

#include "model/model.h"
#include "runner/runner.h"

/* Runners of the model, which must outlive them; also of a config_only one, to measure alone. */
struct ommai_runner_source ommai_cpu_runner_source(const struct omma_model *model);

#endif
