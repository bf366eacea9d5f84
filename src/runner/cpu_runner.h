/* The runner on this machine's CPUs: a model's tower and decoder on a team of threads. */
#pragma once

#include "model/model.h"
#include "runner/runner.h"

/* Runners of the model, which must outlive them; also of a config_only one, to measure alone. */
struct ommai_runner_source ommai_cpu_runner_source(const struct omma_model *model);
