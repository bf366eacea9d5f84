/* How many tasks of a kind fit into a time, going by what earlier ones took. Serves whoever works
 * in slices. */
#pragma once

#include <stdint.h>

/* Of one kind of task. Zero-initialised: nothing is known yet. */
struct ommai_pace {
  double round_ns; /* a round: one task on every worker */
};

/* Tasks that take `ns` nanoseconds, a multiple of n_workers and at least that; n_workers where
 * nothing is known. */
int64_t ommai_pace_tasks(const struct ommai_pace *pace, int64_t ns, int64_t n_workers);

/* n_tasks took `ns`. Tasks of one kind are not all alike, and a slice of short ones must not make
 * the next one long: the estimate rises at once and falls slowly. */
void ommai_pace_record(struct ommai_pace *pace, int64_t ns, int64_t n_tasks, int64_t n_workers);
