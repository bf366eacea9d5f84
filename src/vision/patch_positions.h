/* Where a patch stands in its picture, and what the tower makes of that: learned positions and rotary angles.
 *
 * Patches come in merge blocks: block row, block column, then row and column inside the block. */
#ifndef OMMAI_VISION_PATCH_POSITIONS_H
#define OMMAI_VISION_PATCH_POSITIONS_H

#include <stddef.h>
#include <stdint.h>

struct ommai_patch_position {
  int64_t row, column;
};

/* Position of patch `index` in a picture of grid_columns patches a row, in blocks of merge x merge. */
struct ommai_patch_position ommai_patch_position(int64_t index, int64_t grid_columns, int64_t merge);

/* Bilinear taps with aligned corners into a square table of `side`: four rows of the table and their weights for the patch at
 * `position` of a grid. All in f32, as the official code computes them. taps index rows of the flattened table. */
void ommai_position_taps(struct ommai_patch_position position, int64_t grid_rows, int64_t grid_columns, int64_t side,
                         int64_t taps[4], float weights[4]);

/* Rotary table for one axis: cos and sin [n_positions, quarter] of position * theta^(-2j / (2 * quarter)), where quarter is
 * head_dim / 4. The frequencies and angles are rounded to f32 as in the official code. */
void ommai_vision_rope_table(int64_t n_positions, int64_t quarter, double theta, float *cosine, float *sine);

#endif
