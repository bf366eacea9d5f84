/* How long requests may take. A request waits for those before it in order, which are served first,
 * and shares every step and slice with those behind it. So it ends within the work of those before
 * it and its own, as if each step had all slots' rows, and a pass, a chunk and a step that others
 * have begun; times SIM_WAIT_FACTOR for what the slices of others take between steps and what is
 * computed again after preemptions. */
#pragma once

#include "engine/sim_inside.h"

#define SIM_WAIT_FACTOR 4.0

struct ommai_fake_costs sim_costs(const struct sim_engine *engine);

/* A stream has got a token: the time since the one before may be that of a step of all rows, of the
 * slice that `percent` allows for it, and of what is not cut into slices; twice, as a step may be
 * longer than the one that the slice was measured by. Not where anybody was preempted since:
 * then tokens are computed again. */
void sim_check_gap(struct sim_job *job);

/* The worst request: its time until the end over the bound; *job is which one. */
double sim_worst_wait(const struct sim_world *world, const struct sim_job **job);
