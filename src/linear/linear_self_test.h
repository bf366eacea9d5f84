/* A quick check of the linear layers on this machine: both paths, all formats and types, against
 * double precision. */
#pragma once

#include <omma/status.h>

#include "kernels/cpu.h"

/* OK, or INTERNAL naming the path and type that is off; MEMORY. Some milliseconds. */
enum omma_status ommai_linear_self_test(enum ommai_cpu_level level, struct omma_error *error);
