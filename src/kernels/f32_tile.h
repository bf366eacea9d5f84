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
  /* sums[r][c] += sum over k < n_k of x[r][k] strip[k][c], for n_rows rows, any number. x is as
   * ommai_f32_tile_rows leaves it, sums [n_rows][OMMAI_PANEL_COLUMNS]. */
  void (*multiply)(const float *strip, const float *x, int64_t n_rows, int64_t n_k, float *sums);
};

/* All there are: X(level). */
#define OMMAI_F32_TILE_KERNELS(X) X(scalar) OMMAI_VECTOR_LEVELS(X)
#define OMMAI_F32_TILE_DECLARE(level) extern const struct ommai_f32_tile_kernels ommai_f32_tile_##level;
OMMAI_F32_TILE_KERNELS(OMMAI_F32_TILE_DECLARE)
#undef OMMAI_F32_TILE_DECLARE

/* Rows as `multiply` reads them: groups as ommai_next_rows (row_groups.h) shares them out, each
 * [n_k][rows of the group]. x: [n_rows][x_stride] of f32 or bf16; to: n_rows n_k values. */
void ommai_f32_tile_rows(const struct ommai_f32_tile_kernels *kernels, const void *x, enum omma_dtype type, int64_t x_stride,
                         int64_t n_rows, int64_t n_k, float *to);

/* As a list, and the best up to `level`. */
extern const struct ommai_f32_tile_kernels *const ommai_f32_tile_kernels[];
const struct ommai_f32_tile_kernels *ommai_f32_tile_select(enum ommai_cpu_level level);
