#include "vision/patch_positions.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"

struct ommai_block ommai_block_at(int64_t index, int64_t rows, int64_t columns, int64_t window) {
  int64_t side = window ? window : ommai_max_i64(rows, columns);
  int64_t top = index / (side * columns) * side, height = ommai_min_i64(side, rows - top);
  int64_t in_band = index - top * columns;
  int64_t left = in_band / (height * side) * side, width = ommai_min_i64(side, columns - left);
  int64_t in_window = in_band - left * height;
  int64_t in_row = in_window % width;
  return (struct ommai_block){top + in_window / width, left + in_row, width - in_row};
}

struct ommai_patch_position ommai_patch_position(int64_t index, int64_t grid_rows, int64_t grid_columns, int64_t merge,
                                                 int64_t window) {
  int64_t in_block = index % (merge * merge);
  struct ommai_block block = ommai_block_at(index / (merge * merge), grid_rows / merge, grid_columns / merge, window);
  return (struct ommai_patch_position){block.row * merge + in_block / merge, block.column * merge + in_block % merge};
}

enum { MAX_AXIS_TAPS = 4 };

/* The taps of one axis: n positions over a table of `side`. */
struct axis_taps {
  int n;
  int64_t at[MAX_AXIS_TAPS];
  float weights[MAX_AXIS_TAPS];
};

static void bilinear_axis(int64_t position, int64_t n, int64_t side, struct axis_taps *taps) {
  float source = (float)(position * (side - 1)) / (float)ommai_max_i64(n - 1, 1);
  float lower = floorf(source), upper_weight = source - lower;
  *taps =
      (struct axis_taps){2, {(int64_t)lower, ommai_min_i64((int64_t)lower + 1, side - 1)}, {1.0f - upper_weight, upper_weight}};
}

/* The place of a position between a table's rows where both have half-pixel centres. */
static float centre(int64_t position, int64_t n, int64_t side) {
  return ((float)position + 0.5f) * (float)side / (float)n - 0.5f;
}

static int64_t clamp(int64_t row, int64_t side) { return ommai_min_i64(ommai_max_i64(row, 0), side - 1); }

static void centred_axis(int64_t position, int64_t n, int64_t side, struct axis_taps *taps) {
  float source = centre(position, n, side), lower = floorf(source), upper_weight = source - lower;
  *taps = (struct axis_taps){
      2, {clamp((int64_t)lower, side), clamp((int64_t)lower + 1, side)}, {1.0f - upper_weight, upper_weight}};
}

/* Keys' cubic convolution kernel (Keys 1981) at distance t <= 2. */
static float cubic_weight(float t) {
  const float a = -0.75f;
  if (t <= 1.0f) return ((a + 2.0f) * t - (a + 3.0f)) * t * t + 1.0f;
  return ((a * t - 5.0f * a) * t + 8.0f * a) * t - 4.0f * a;
}

static void bicubic_axis(int64_t position, int64_t n, int64_t side, struct axis_taps *taps) {
  float source = centre(position, n, side), lower = floorf(source);
  taps->n = 4;
  for (int t = 0; t < 4; t++) {
    taps->at[t] = clamp((int64_t)lower + t - 1, side);
    taps->weights[t] = cubic_weight(fabsf(source - lower - (float)(t - 1)));
  }
}

void ommai_position_taps(enum ommai_position_kind kind, struct ommai_patch_position position, int64_t grid_rows,
                         int64_t grid_columns, int64_t table_rows, int64_t table_columns, struct ommai_position_taps *taps) {
  static void (*const axes[])(int64_t, int64_t, int64_t, struct axis_taps *) = {
      [OMMAI_POSITIONS_BILINEAR] = bilinear_axis,
      [OMMAI_POSITIONS_BILINEAR_CENTRES] = centred_axis,
      [OMMAI_POSITIONS_BICUBIC] = bicubic_axis};
  struct axis_taps down, across;
  taps->n = 0;
  if (kind == OMMAI_POSITIONS_NONE) return;
  axes[kind](position.row, grid_rows, table_rows, &down);
  axes[kind](position.column, grid_columns, table_columns, &across);
  for (int i = 0; i < down.n; i++) {
    for (int j = 0; j < across.n; j++, taps->n++) {
      taps->rows[taps->n] = down.at[i] * table_columns + across.at[j];
      taps->weights[taps->n] = down.weights[i] * across.weights[j];
    }
  }
}

void ommai_vision_rope_table(enum ommai_rope_kind kind, int64_t n_positions, int64_t quarter, double theta, float *cosine,
                             float *sine) {
  for (int64_t i = 0; i < 2 * quarter; i++) {
    int64_t j = i % quarter, half = kind == OMMAI_ROPE_HALF_SHARED && i >= quarter;
    float frequency = 1.0f / (float)pow(theta, (double)((float)(4 * j + 2 * half) / (float)(4 * quarter)));
    for (int64_t position = 0; position < n_positions; position++) {
      float angle = (float)position * frequency;
      cosine[position * 2 * quarter + i] = cosf(angle);
      sine[position * 2 * quarter + i] = sinf(angle);
    }
  }
}

void ommai_vision_rope_row(enum ommai_rope_kind kind, struct ommai_patch_position position, int64_t quarter, const float *table,
                           float *out) {
  const float *row = table + position.row * 2 * quarter, *column = table + position.column * 2 * quarter + quarter;
  if (kind != OMMAI_ROPE_PAIRS) {
    memcpy(out, row, (size_t)quarter * sizeof *out);
    memcpy(out + quarter, column, (size_t)quarter * sizeof *out);
    return;
  }
  for (int64_t j = 0; j < quarter; j++) {
    out[2 * j] = column[j];
    out[2 * j + 1] = row[j];
  }
}
