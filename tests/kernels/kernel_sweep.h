/* The sweep over edges: trials in which every size is one at an edge, in all combinations, with all
 * memory against the page behind it and with all against the one in front. Trial N is the same in
 * every run. */
#pragma once

#include "kernels/kernel_entry.h"

/* Trials that there are of a kernel; runs the first. */
uint64_t kernel_sweep_count(const struct kernel_entry *entry, uint64_t seed);

/* From here on kernel_size and kernel_memory are those of trial `number`, for one check. */
void kernel_sweep_begin(uint64_t number);
void kernel_sweep_end(void);

/* The i-th of `n` trials in an order in which any beginning is spread over all of them. */
uint64_t kernel_sweep_spread(uint64_t i, uint64_t n);
