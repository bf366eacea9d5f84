/* Integer weights by SMMLA, in tiles. Few rows, which wait for memory, go to SDOT: sums of a group
 * are exact, so the results are those of every other level. */
#include "kernels/arm/integer_lanes_neon.h"

OMMAI_INLINE vec square_product(vec square, uint8x16_t rows, uint8x16_t columns) {
  return vreinterpretq_f32_s32(
      vmmlaq_s32(vreinterpretq_s32_f32(square), vreinterpretq_s8_u8(rows), vreinterpretq_s8_u8(columns)));
}

#include "kernels/arm/matrix_tile_neon.h"

#include "kernels/integer_panel_sums.h"

enum { UNIT_K = 8, BLOCK_K = UNIT_K * BLOCK_UNITS, GEMV_ROWS = 8 };

/* A line of int4 weights has the low halves of its bytes for four inputs, the high ones for the
 * four after: a unit. */
static void fill_weights_u4(struct matrix_weights *weights, const uint8_t *line, int64_t n_units) {
  for (int64_t unit = 0; unit < n_units; unit++, line += LINE_BYTES) {
#pragma GCC unroll 16
    for (int column = 0; column < PANEL; column += LANES) {
      uint8x16_t w = vld1q_u8(line + 4 * column);
      put_units(weights, unit, column, vandq_u8(w, vdupq_n_u8(15)), vshrq_n_u8(w, 4));
    }
  }
}

/* All outputs of the block's few rows. */
OMMAI_INLINE void some_rows(const struct integer_block *block, const struct matrix_weights *weights, const int n_rows) {
  const int n_pairs = (n_rows + 1) / 2;
  struct matrix_rows rows;
  fill_rows(&rows, (const uint16_t *)(const void *)block->x, block->stride / 2, n_rows, block->n_k / 2);
  for (int strip = 0; strip < STRIPS; strip++) {
    vec squares[ROW_PAIRS][COLUMN_PAIRS];
    ivec acc[TILE_ROWS][PANEL_VECTORS];
#pragma GCC unroll 3
    for (int i = 0; i < n_pairs; i++) {
#pragma GCC unroll 8
      for (int j = 0; j < COLUMN_PAIRS; j++) squares[i][j] = vec_zero();
    }
    multiply_strip(&rows, weights->strips[strip], block->n_k / UNIT_K, n_pairs, squares);
    start(block, strip * STRIP_COLUMNS, 0, n_rows, STRIP_VECTORS, acc);
#pragma GCC unroll 6
    for (int row = 0; row < n_rows; row++) {
#pragma GCC unroll 4
      for (int v = 0; v < STRIP_VECTORS; v++) {
        vec sums[2];
        rows_of_squares(squares[row / 2][2 * v], squares[row / 2][2 * v + 1], &sums[0], &sums[1]);
        acc[row][v] = ivec_add(acc[row][v], vreinterpretq_s32_f32(sums[row % 2]));
      }
    }
    finish(block, strip * STRIP_COLUMNS, n_rows, STRIP_VECTORS, acc);
  }
}

OMMAI_INLINE void all_rows(const struct integer_block *block, const struct matrix_weights *weights) {
  for (int64_t row = 0, n; row < block->n_rows; row += n) {
    n = ommai_next_rows(block->n_rows - row, TILE_ROWS);
    const struct integer_block some = integer_block_rows(block, row, n);
    switch (n) {
      case 1: some_rows(&some, weights, 1); break;
      case 2: some_rows(&some, weights, 2); break;
      case 3: some_rows(&some, weights, 3); break;
      case 4: some_rows(&some, weights, 4); break;
      case 5: some_rows(&some, weights, 5); break;
      default: some_rows(&some, weights, TILE_ROWS); break;
    }
  }
}

static void block_s8(const struct integer_block *block) {
  struct matrix_weights weights;
  fill_weights(&weights, block->weights, block->n_k / UNIT_K);
  all_rows(block, &weights);
}

static void block_u4(const struct integer_block *block) {
  struct matrix_weights weights;
  fill_weights_u4(&weights, block->weights, block->n_k / UNIT_K);
  all_rows(block, &weights);
}

static void run_s8(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, float *sums) {
  if (rows->n_rows <= GEMV_ROWS) {
    ommai_integer_neon_dotprod.s8(panel, rows, sums);
  } else {
    integer_for_each_block(panel, rows, 8, 0, BLOCK_K, sums, block_s8);
  }
}

static void run_u4(const struct ommai_integer_panel *panel, const struct ommai_integer_rows *rows, float *sums) {
  if (rows->n_rows <= GEMV_ROWS) {
    ommai_integer_neon_dotprod.u4(panel, rows, sums);
  } else {
    integer_for_each_block(panel, rows, 4, 0, BLOCK_K, sums, block_u4);
  }
}

const struct ommai_integer_kernels ommai_integer_neon_bf16 = {.level = OMMAI_CPU_NEON_BF16, .s8 = run_s8, .u4 = run_u4};
