/* Tasks that read a stream of memory between them: each worker has a part of it to walk through
 * from its beginning, so that what it asked for ahead of one task is wanted in its next. */
#pragma once

#include <omma/host.h>

/* As ommai_team_run, whatever `team` is. A worker takes tasks of its own part in rising order; then
 * the last ones of others' parts, so that all end together. */
void ommai_team_run_streams(const struct omma_team *team, int64_t n_tasks, omma_task task, void *context);
