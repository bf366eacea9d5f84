/* Where a patch stands in its image, and what the tower makes of that: learned positions and rotary
 * angles.
 *
 * Patches come in merge blocks, and blocks in windows: window row, window column, block row and
 * block column in the window, then row and column inside the block. Windows tile the grid of
 * blocks from the top left; those at the right and bottom edges are as small as what is left.
 * Window 0 is one window over the whole grid. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ommai_patch_position {
  int64_t row, column;
};

/* A block: its position, and how many blocks from it on are also neighbours in one row of
 * blocks. */
struct ommai_block {
  int64_t row, column, run;
};

/* Block `index` in a grid of rows x columns blocks with windows of `window` blocks a side. */
struct ommai_block ommai_block_at(int64_t index, int64_t rows, int64_t columns, int64_t window);

/* Position of patch `index` in an image of grid_rows x grid_columns patches, in blocks of merge x
 * merge. */
struct ommai_patch_position ommai_patch_position(int64_t index, int64_t grid_rows, int64_t grid_columns, int64_t merge,
                                                 int64_t window);

/* How a table of learned positions is read at a grid of another size.
 * BILINEAR: aligned corners: source = position * (side - 1) / (n - 1). Taps past the table count as
 * its last row. BILINEAR_CENTRES and BICUBIC: half-pixel centres, no antialiasing: source =
 * (position + 0.5) * side / n - 0.5, taps clamped to the table; bicubic by Keys' kernel with a =
 * -0.75: torch.nn.functional.interpolate(mode="bilinear" or "bicubic"). */
enum ommai_position_kind {
  OMMAI_POSITIONS_NONE,
  OMMAI_POSITIONS_BILINEAR,
  OMMAI_POSITIONS_BILINEAR_CENTRES,
  OMMAI_POSITIONS_BICUBIC
};

#define OMMAI_POSITION_MAX_TAPS 16

/* Rows of the flattened table and their weights. */
struct ommai_position_taps {
  int n;
  int64_t rows[OMMAI_POSITION_MAX_TAPS];
  float weights[OMMAI_POSITION_MAX_TAPS];
};

/* The taps into a table of table_rows x table_columns for the patch at `position` of a grid; n is 0
 * for POSITIONS_NONE. All in f32, as the official code computes them. */
void ommai_position_taps(enum ommai_position_kind kind, struct ommai_patch_position position, int64_t grid_rows,
                         int64_t grid_columns, int64_t table_rows, int64_t table_columns, struct ommai_position_taps *taps);

/* Which elements of a head turn by which angle; f_j = theta^(-2j / (head_dim / 2)), j < head_dim /
 * 4. HALF: element e and e + head_dim / 2 are a pair: pairs turn by row * f_0 .., then by column *
 * f_0 ... HALF_SHARED: the same pairs; rows and columns share the frequencies of one axis: rows
 * turn by f_0 .., columns by f_(j + 1/2). PAIRS: elements 2p and 2p + 1 are pair p: pair 2j turns
 * by column * f_j, pair 2j + 1 by row * f_j. */
enum ommai_rope_kind { OMMAI_ROPE_HALF, OMMAI_ROPE_HALF_SHARED, OMMAI_ROPE_PAIRS };

/* Rotary table: cos and sin [n_positions, 2 * quarter] of position * frequency, those of rows and
 * then those of columns, where quarter is head_dim / 4. The frequencies and angles are rounded to
 * f32 as in the official code. */
void ommai_vision_rope_table(enum ommai_rope_kind kind, int64_t n_positions, int64_t quarter, double theta, float *cosine,
                             float *sine);

/* The values of a rope table [.., 2 * quarter] for the pairs of a patch: out [2 * quarter]. */
void ommai_vision_rope_row(enum ommai_rope_kind kind, struct ommai_patch_position position, int64_t quarter, const float *table,
                           float *out);
