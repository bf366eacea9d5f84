/* Tiles of rows times packed weights in f32 arithmetic, for what has no products of its own on a
 * CPU level: f32 weights everywhere, bf16 weights where there are no bf16 products. The frame
 * (linear/linear_f32.c) cuts the weights into blocks of some inputs by a strip of columns, expands
 * a block to f32 once for all rows of a tile, and runs a register kernel on it.
 *
 * Each sum is one chain over k in rising order, with the rounding of the level's few-row kernels
 * (gemv.h): a row's bits depend neither on the rows next to it nor on which of the two computes
 * it. */
#pragma once

#include "kernels/gemv.h"

#define OMMAI_TILE_K 256 /* the largest block */

/* What the pointers lead to needs its element's alignment only. */
struct ommai_f32_tile_kernels {
  enum ommai_cpu_level level;
  int n_columns; /* of a strip; divides OMMAI_PANEL_COLUMNS */
  int n_rows;    /* of a group, whose sums are in registers together */
  int n_k;       /* inputs of a block: even, at most OMMAI_TILE_K */
  /* strip[k][c] = w[k][c] for k < n_k, at most a block's, and the strip's columns c. weights: the
   * strip's first column in a panel of either layout, from an even k on. bf16 writes a row more
   * where n_k is odd: strip has room for a block. */
  void (*expand_bf16)(const ommai_bf16 *weights, int64_t n_k, float *strip);
  void (*expand_f32)(const float *weights, int64_t n_k, float *strip);
  /* sums[r][c] += sum over k < n_k of x[k][r] strip[k][c], for the rows of a group, or fewer. x is
   * [n_k][n_rows], sums [n_rows][OMMAI_PANEL_COLUMNS]. */
  void (*multiply)(const float *strip, const float *x, int n_rows, int64_t n_k, float *sums);
};

/* All there are: X(level). */
#define OMMAI_F32_TILE_KERNELS(X) X(scalar) OMMAI_VECTOR_LEVELS(X)
#define OMMAI_F32_TILE_DECLARE(level) extern const struct ommai_f32_tile_kernels ommai_f32_tile_##level;
OMMAI_F32_TILE_KERNELS(OMMAI_F32_TILE_DECLARE)
#undef OMMAI_F32_TILE_DECLARE

/* As a list, and the best up to `level`. */
extern const struct ommai_f32_tile_kernels *const ommai_f32_tile_kernels[];
const struct ommai_f32_tile_kernels *ommai_f32_tile_select(enum ommai_cpu_level level);
