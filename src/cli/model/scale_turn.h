/* The tasks of a run one at a time, each on the worker of a team that it would go to: so that what
 * it needs of other workers comes from their caches, but nobody computes at the same time. */
#pragma once

#include <omma/host.h>
#include <stdint.h>

/* What workers read from memory while they wait for their turn. Zero-initialised: nothing. */
struct ommai_scale_reading {
  uint64_t *memory;
  double gbps; /* of each; 0: nothing */
};

/* Memory that no cache holds. Returns an exit code. */
int ommai_scale_reading_create(struct ommai_scale_reading *reading);
void ommai_scale_reading_release(struct ommai_scale_reading *reading);

/* What they read meanwhile. */
struct ommai_scale_waiting {
  double seconds, bytes; /* of all */
};

/* Worker w of the team's n runs the tasks w, w + n, ..., some at a time, then the next worker as
 * many. `seconds`: [n_tasks], of each task. The team must have a thread for each of its workers. */
struct ommai_scale_waiting ommai_scale_run_in_turn(const struct omma_team *team, int64_t n_tasks, omma_task task, void *context,
                                                   const struct ommai_scale_reading *reading, double *seconds);
