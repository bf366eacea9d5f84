/* How the patches of a pass lie: inputs end to end, each as grid_t temporal patches of grid_rows x
 * grid_columns patches, each temporal patch in the order of vision/patch_positions.h, in windows
 * where the tower has them. So attention over temporal patches and attention inside windows are
 * two lists of borders over the same rows, and nothing is permuted between blocks: patches are cut
 * in this order, and tokens are written to their raster place at the end. */
#pragma once

#include <omma/status.h>

#include "base/arena.h"
#include "vision/vision_tower.h"

/* One image or video: 8-bit RGB after the resize, or its patches; and where its tokens go. */
struct ommai_vision_input {
  const uint8_t *pixels; /* [n_frames, grid_rows * patch_size, grid_columns * patch_size, 3] */
  /* In place of pixels: normalised patches [n_temporal_patches * grid_rows * grid_columns,
   * patch_dim], f32 or of the tower's type, in each temporal patch by blocks from left to right
   * and top to bottom, or row by row. */
  const void *patches;
  enum omma_dtype patch_type;
  bool raster_patches;
  /* 1 for an image. temporal_patch_size frames make a temporal patch, short of some the last one
   * again */
  int64_t n_frames;
  int64_t grid_rows, grid_columns;
  /* [1 + n_deepstack, n_temporal_patches * tokens of a temporal patch, out_hidden_size]: merged
   * tokens in raster order, then the deepstack outputs */
  float *output;
};

/* Temporal patches of an input. */
int64_t ommai_vision_input_grid_t(const struct ommai_vision_config *config, const struct ommai_vision_input *input);

/* What a pass's memory depends on: all patches, all temporal patches, and the longest side of a
 * temporal patch in patches. */
struct ommai_vision_sizes {
  int64_t n_patches, n_temporal_patches, max_side;
};

/* Counts one more input. Errors: ARGUMENT (no frames, grids that are not positive multiples of the
 * merge size, too many patches). */
enum omma_status ommai_vision_sizes_add(const struct ommai_vision_config *config, const struct ommai_vision_input *input,
                                        struct ommai_vision_sizes *sizes, struct omma_error *error);

/* The maximum number of windows that temporal patches of these sizes can have; 0 where the tower
 * has none. A temporal patch of T blocks has at most (T + window - 1) / window windows, and a
 * temporal patch one block high has as many. */
int64_t ommai_vision_max_windows(const struct ommai_vision_config *config, const struct ommai_vision_sizes *sizes);

/* The windows of one temporal patch of rows x columns patches; 0 where the tower has none. */
int64_t ommai_vision_grid_windows(const struct ommai_vision_config *config, int64_t rows, int64_t columns);

struct ommai_vision_layout {
  const struct ommai_vision_config *config;
  const struct ommai_vision_input *inputs;
  int64_t n_inputs, n_temporal_patches, n_windows;
  int64_t *input_starts;          /* [n_inputs + 1] first packed patch of each input */
  int64_t *temporal_patch_starts; /* [n_temporal_patches + 1] */
  int64_t *window_starts;         /* [n_windows + 1] */
};

/* Takes the lists' memory for anything of at most these sizes. */
void ommai_vision_layout_place(struct ommai_vision_layout *layout, const struct ommai_vision_config *config,
                               const struct ommai_vision_sizes *sizes, struct ommai_arena *arena);

/* Fills a placed layout; the inputs were counted in its sizes and must outlive it. */
void ommai_vision_layout_fill(struct ommai_vision_layout *layout, const struct ommai_vision_input *inputs, int64_t n_inputs);

/* Packed patches that lie next to each other in their temporal patch too: whole blocks of one row
 * of blocks. */
struct ommai_vision_span {
  const struct ommai_vision_input *input;
  int64_t temporal_patch;          /* of the input */
  int64_t block_row, block_column; /* of the first block */
  int64_t first_token;             /* the first block's place in the input's output */
  int64_t n_patches;
};

/* The span from packed patch `row` (a block's first) on, of at most max_patches (whole blocks). */
struct ommai_vision_span ommai_vision_span_at(const struct ommai_vision_layout *layout, int64_t row, int64_t max_patches);

/* Where patch `index` of a span stands in its temporal patch. */
static inline struct ommai_patch_position ommai_vision_span_position(const struct ommai_vision_span *span, int64_t merge,
                                                                     int64_t index) {
  int64_t block = index / (merge * merge), inside = index % (merge * merge);
  return (struct ommai_patch_position){span->block_row * merge + inside / merge,
                                       (span->block_column + block) * merge + inside % merge};
}
