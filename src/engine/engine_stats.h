/* Counters of several engines as one. */
#pragma once

#include <omma/engine_figures.h>

/* Adds the counters of one more engine. */
void ommai_engine_stats_add(struct omma_engine_stats *sum, const struct omma_engine_stats *more);
