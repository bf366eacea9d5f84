#include "vision/patch_positions.h"

#include <math.h>

#include "base/checked.h"

struct ommai_patch_position ommai_patch_position(int64_t index, int64_t grid_columns, int64_t merge) {
  int64_t in_block = index % (merge * merge), block = index / (merge * merge);
  int64_t blocks_per_row = grid_columns / merge;
  return (struct ommai_patch_position){block / blocks_per_row * merge + in_block / merge,
                                       block % blocks_per_row * merge + in_block % merge};
}

/* The lower tap and the weight of the upper one along an axis of n positions over a table of `side`. */
static int64_t axis_tap(int64_t position, int64_t n, int64_t side, float *upper_weight) {
  float source = (float)(position * (side - 1)) / (float)ommai_max_i64(n - 1, 1);
  float lower = floorf(source);
  *upper_weight = source - lower;
  return (int64_t)lower;
}

void ommai_position_taps(struct ommai_patch_position position, int64_t grid_rows, int64_t grid_columns, int64_t side,
                         int64_t taps[4], float weights[4]) {
  float down, right;
  int64_t top = axis_tap(position.row, grid_rows, side, &down);
  int64_t left = axis_tap(position.column, grid_columns, side, &right);
  int64_t bottom = ommai_min_i64(top + 1, side - 1), far = ommai_min_i64(left + 1, side - 1);
  taps[0] = top * side + left;
  taps[1] = top * side + far;
  taps[2] = bottom * side + left;
  taps[3] = bottom * side + far;
  weights[0] = (1.0f - down) * (1.0f - right);
  weights[1] = (1.0f - down) * right;
  weights[2] = down * (1.0f - right);
  weights[3] = down * right;
}

void ommai_vision_rope_table(int64_t n_positions, int64_t quarter, double theta, float *cosine, float *sine) {
  for (int64_t j = 0; j < quarter; j++) {
    float frequency = 1.0f / (float)pow(theta, (double)((float)(2 * j) / (float)(2 * quarter)));
    for (int64_t position = 0; position < n_positions; position++) {
      float angle = (float)position * frequency;
      cosine[position * quarter + j] = cosf(angle);
      sine[position * quarter + j] = sinf(angle);
    }
  }
}
