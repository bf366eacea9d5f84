/* The readable form of the tile kernel in products of bf16, and the choice among levels. */
#include <math.h>

#include "kernels/bf16_tile.h"

enum { PANEL = OMMAI_PANEL_COLUMNS };

static float sum_at(const struct ommai_bf16_tile *tile, int64_t row, int column) {
  const ommai_bf16 *x = tile->x + row * tile->x_stride;
  float sum = 0.0f;
  for (int64_t k = 0; k < tile->n_k; k += 2) {
    const ommai_bf16 *pair = tile->weights + k * PANEL + 2 * column;
    if (k + 1 < tile->n_k) sum = fmaf(ommai_bf16_to_f32(x[k + 1]), ommai_bf16_to_f32(pair[1]), sum);
    sum = fmaf(ommai_bf16_to_f32(x[k]), ommai_bf16_to_f32(pair[0]), sum);
  }
  return sum;
}

static void run(const struct ommai_bf16_tile *tile) {
  for (int64_t row = 0; row < tile->n_rows; row++) {
    for (int column = 0; column < PANEL; column++) {
      int64_t at = row * tile->y_stride + column;
      float value = sum_at(tile, row, column) + tile->bias[column];
      if (tile->y_type == OMMA_BF16) {
        ((ommai_bf16 *)tile->y)[at] = ommai_bf16_from_f32(value);
      } else {
        ((float *)tile->y)[at] = tile->accumulate ? ((float *)tile->y)[at] + value : value;
      }
    }
  }
}

const struct ommai_bf16_tile_kernel ommai_bf16_tile_scalar = {.level = OMMAI_CPU_SCALAR, .max_panels = 1, .run = run};

#define BF16_TILE_ENTRY(level) &ommai_bf16_tile_##level,
const struct ommai_bf16_tile_kernel *const ommai_bf16_tile_kernels[] = {OMMAI_BF16_TILE_KERNELS(BF16_TILE_ENTRY) NULL};

OMMAI_CHOOSE_BY_LEVEL(ommai_bf16_tile_select, ommai_bf16_tile_kernel, ommai_bf16_tile_kernels)
