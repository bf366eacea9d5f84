/* Makes a failing case as small as it can: requests and failures are left out, and numbers brought
 * nearer to their simplest, while the same rule breaks. Each try runs in a process of its own, so
 * that crashes and endless loops shrink too. */
#pragma once

#include "engine/sim_world.h"

/* Runs the case in a child process. Rule "crash": it died, "hangs": it took more than `seconds`. */
void sim_run_apart(const struct sim_case *run, int seconds, struct sim_outcome *outcome);

/* *shrunk breaks outcome->rule, which becomes that of the smaller case. Returns the number of
 * tries, at most max_tries. */
int sim_shrink(struct sim_case *shrunk, struct sim_outcome *outcome, int max_tries);
