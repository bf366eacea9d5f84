/* One pass of images and videos through a vision tower: packed, bounded, resumable.
 *
 * All inputs of a pass lie end to end (vision/vision_layout.h). Between two attentions everything
 * is local to a row, so a block is two phases with a barrier each: attention jobs, then tiles of
 * rows through the chain proj + residual -> norm -> feed-forward + residual -> (deepstack) -> next
 * block's norm -> qkv -> rope. The two attention plans of a pass, whole temporal patches and
 * windows, are made at its start and never change. An input's output does not depend by one bit on
 * the rest of the batch, its place or the number of threads. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>

#include "image/patches.h"
#include "vision/vision_layout.h"
#include "vision/vision_profile.h"

/* Looks at a stage's rows after it is complete, for tests: name, index (the block, or 0), data
 * [n_rows, width] in packed order. */
typedef void (*ommai_stage_observer)(void *context, const char *stage, int64_t index, const float *data, int64_t n_rows,
                                     int64_t width);

struct ommai_vision_run;

/* Bytes of workspace that are enough for any pass of at most these sizes. 0 when they overflow. */
size_t ommai_vision_workspace_size(const struct ommai_vision_tower *tower, const struct ommai_vision_sizes *sizes,
                                   int n_workers);

/* Lays a pass out in `workspace` (64-aligned). inputs and patches (how pixels become patches) must
 * outlive the run. Errors: ARGUMENT (as ommai_vision_sizes_add), LIMIT, MEMORY (the workspace is
 * too small). */
enum omma_status ommai_vision_run_start(const struct ommai_vision_tower *tower, const struct ommai_vision_input *inputs,
                                        int64_t n_inputs, const struct ommai_patch_spec *patches, void *workspace,
                                        size_t workspace_size, const struct omma_team *team, struct ommai_vision_run **run,
                                        struct omma_error *error);

/* Adds what the pass's parts take to `profiles` [n_workers of the team], which must outlive the
 * run. */
void ommai_vision_run_set_profiles(struct ommai_vision_run *run, struct ommai_vision_profile *profiles);

void ommai_vision_run_set_observer(struct ommai_vision_run *run, ommai_stage_observer observer, void *context);

/* Advances by at most max_tasks tiles or attention steps of the present phase. Allocates
 * nothing. */
enum omma_status ommai_vision_run_advance(struct ommai_vision_run *run, int64_t max_tasks, struct omma_error *error);

/* Advances by as many of them as take `ns` nanoseconds, going by what earlier slices of the run
 * took, and at least one for every worker: the first slice of a phase's kind is that small.
 * Results do not depend on where slices end. */
enum omma_status ommai_vision_run_advance_for(struct ommai_vision_run *run, int64_t ns, struct omma_error *error);

bool ommai_vision_run_done(const struct ommai_vision_run *run);

/* Work done and in all, in phases; for progress. */
void ommai_vision_run_progress(const struct ommai_vision_run *run, int64_t *done, int64_t *total);
