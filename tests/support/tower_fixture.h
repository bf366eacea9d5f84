/* Small vision towers of each kind with random weights, made without a checkpoint. */
#pragma once

#include "base/team.h"
#include "image/patches.h"
#include "vision/vision_run.h"

enum {
  FIXTURE_TOWER_BILINEAR, /* LayerNorm, plain feed-forward, bilinear positions, deepstack */
  FIXTURE_TOWER_WINDOWS,  /* RMSNorm, gated feed-forward, windows of 2 x 2 merged tokens */
  /* LayerNorm, bicubic positions, adjacent rope, final norm, no time axis */
  FIXTURE_TOWER_BICUBIC,
  /* RMSNorm, normed heads, gated feed-forward, a merger of all steps, final norm */
  FIXTURE_TOWER_STEPS,
  /* RMSNorm, one of them before the first block, frequencies that rows and columns share, a merger
   * with LayerNorm and a matrix for joined rows, no time axis */
  FIXTURE_TOWER_ENTRY,
  FIXTURE_TOWERS
};

struct fixture_tower {
  struct ommai_vision_tower tower;
  struct ommai_patch_spec patches;
  const struct omma_allocator *allocator;
};

/* What a tower computes in. */
enum { FIXTURE_F32, FIXTURE_BF16, FIXTURE_INT8, FIXTURE_TYPES };

/* For runs on at most n_workers workers. The allocator must outlive the tower. */
void fixture_tower_make(struct fixture_tower *fixture, int kind, int type, int n_workers,
                        const struct omma_allocator *allocator);
void fixture_tower_free(struct fixture_tower *fixture);

/* Inputs of a pass with random pixels, their outputs (NaN until written) and a workspace of exactly
 * the stated size. */
struct fixture_pass {
  struct ommai_vision_input *inputs;
  int64_t n_inputs;
  struct ommai_vision_sizes sizes;
  float *values;
  size_t n_values, workspace_size;
  void *workspace;
};

/* grids: [n_inputs][3] frames, rows and columns of patches; an input's pixels depend on its grid
 * alone. */
struct fixture_pass fixture_pass_make(const struct fixture_tower *fixture, const int64_t (*grids)[3], int64_t n_inputs,
                                      int n_workers);
void fixture_pass_free(struct fixture_pass *pass);

/* The floats of input `index`'s output. */
size_t fixture_pass_output_size(const struct fixture_tower *fixture, const struct fixture_pass *pass, int64_t index);

enum omma_status fixture_pass_start(const struct fixture_tower *fixture, struct fixture_pass *pass, size_t workspace_size,
                                    const struct omma_team *team, struct ommai_vision_run **run, struct omma_error *error);

/* Runs the pass to its end in slices of max_tasks. */
void fixture_pass_run(const struct fixture_tower *fixture, struct fixture_pass *pass, int64_t max_tasks,
                      const struct omma_team *team);

/* Likewise in slices of about `ns`; their number. */
int64_t fixture_pass_run_by_time(const struct fixture_tower *fixture, struct fixture_pass *pass, int64_t ns,
                                 const struct omma_team *team);
