/* One pass of pictures through a vision tower: packed, bounded, resumable.
 *
 * All pictures of a pass lie end to end, each a segment of the attention plan. Between two attentions everything is local to a
 * row, so a block is two phases with a barrier each: attention jobs, then tiles of rows through the chain
 * proj + residual -> norm -> fc1 -> activation -> fc2 + residual -> (deepstack) -> next block's norm -> qkv -> rope.
 * A picture's output does not depend by one bit on its company, its place or the number of threads. */
#ifndef OMMAI_VISION_VISION_RUN_H
#define OMMAI_VISION_VISION_RUN_H

#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>

#include "image/patches.h"
#include "vision/vision_tower.h"

/* One picture: 8-bit RGB after the resize, and where its tokens go. */
struct ommai_vision_input {
  const uint8_t *pixels; /* [grid_rows * patch_size, grid_columns * patch_size, 3] */
  int64_t grid_rows, grid_columns;
  float *output; /* [1 + n_deepstack, n_tokens, out_hidden_size]: merged tokens, then the deepstack outputs in order */
};

/* Looks at a stage's rows after it is complete, for tests: name, index (block, deepstack number, or 0), data [n_rows, width]. */
typedef void (*ommai_stage_tap)(void *context, const char *stage, int64_t index, const float *data, int64_t n_rows,
                                int64_t width);

struct ommai_vision_run;

/* Bytes of workspace for a pass of at most n_patches in n_inputs pictures of at most max_side patches a side. 0 when the sizes
 * overflow. */
size_t ommai_vision_workspace_size(const struct ommai_vision_tower *tower, int64_t n_patches, int64_t n_inputs,
                                   int64_t max_side, int n_workers);

/* Lays a pass out in `workspace` (64-aligned). inputs and patches (how pixels become patches) must outlive the run.
 * Errors: ARGUMENT (empty grids, grids that are no multiple of the merge size), MEMORY (the workspace is too small). */
enum omma_status ommai_vision_run_start(const struct ommai_vision_tower *tower, const struct ommai_vision_input *inputs,
                                        int64_t n_inputs, const struct ommai_patch_spec *patches, void *workspace,
                                        size_t workspace_size, const struct omma_team *team, struct ommai_vision_run **run,
                                        struct omma_error *error);

void ommai_vision_run_set_tap(struct ommai_vision_run *run, ommai_stage_tap tap, void *context);

/* Advances by at most max_tasks tiles or attention steps of the present phase. Allocates nothing. */
enum omma_status ommai_vision_run_advance(struct ommai_vision_run *run, int64_t max_tasks, struct omma_error *error);

bool ommai_vision_run_done(const struct ommai_vision_run *run);

/* Work done and in all, in phases; for progress. */
void ommai_vision_run_progress(const struct ommai_vision_run *run, int64_t *done, int64_t *total);

#endif
