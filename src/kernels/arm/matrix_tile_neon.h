/* Tiles of rows times a panel by products of matrices (BFMMLA, SMMLA): six rows by 16 outputs are 3
 * by 8 squares of sums. A block of weights is rearranged once for all rows, to a strip of units:
 * two lines of a panel, zipped, have those of four outputs. So are six rows of x for all outputs:
 * two rows, zipped. The including file includes lanes_neon.h before and defines
 *
 *   square_product   square + the products of two rows' units with two columns' */
#pragma once

#include "base/checked.h"
#include "kernels/arm/squares_neon.h"
#include "kernels/gemv.h"
#include "kernels/row_groups.h"

enum {
  TILE_ROWS = 6,
  ROW_PAIRS = TILE_ROWS / 2,
  STRIP_COLUMNS = 16,
  COLUMN_PAIRS = STRIP_COLUMNS / 2,
  STRIP_VECTORS = STRIP_COLUMNS / LANES,
  STRIPS = OMMAI_PANEL_COLUMNS / STRIP_COLUMNS,
  BLOCK_UNITS = 64,    /* of a row or column in a block; even */
  REGISTER_BYTES = 16, /* two units */
  LINE_BYTES = 4 * OMMAI_PANEL_COLUMNS
};

/* A block of weights as [16 outputs][unit][two outputs], and rows as [unit][two rows]. */
struct matrix_weights {
  _Alignas(64) uint8_t strips[STRIPS][BLOCK_UNITS][COLUMN_PAIRS][REGISTER_BYTES];
};
struct matrix_rows {
  _Alignas(64) uint8_t units[BLOCK_UNITS][ROW_PAIRS][REGISTER_BYTES];
};

/* A unit of outputs column .. column + 3: words of two lines. */
OMMAI_INLINE void put_units(struct matrix_weights *weights, int64_t unit, int column, uint8x16_t first, uint8x16_t second) {
  uint32x4x2_t zipped = vzipq_u32(vreinterpretq_u32_u8(first), vreinterpretq_u32_u8(second));
  uint8_t *to = weights->strips[column / STRIP_COLUMNS][unit][column % STRIP_COLUMNS / 2];
  vst1q_u8(to, vreinterpretq_u8_u32(zipped.val[0]));
  vst1q_u8(to + REGISTER_BYTES, vreinterpretq_u8_u32(zipped.val[1]));
}

/* Lines of bf16 pairs, or of four 8-bit integers: two a unit. */
static void fill_weights(struct matrix_weights *weights, const void *lines, int64_t n_units) {
  const uint8_t *line = lines;
  for (int64_t unit = 0; unit < n_units; unit++, line += 2 * LINE_BYTES) {
#pragma GCC unroll 16
    for (int column = 0; column < OMMAI_PANEL_COLUMNS; column += LANES) {
      put_units(weights, unit, column, vld1q_u8(line + 4 * column), vld1q_u8(line + LINE_BYTES + 4 * column));
    }
  }
}

/* n_rows rows of n elements of 16 bits, or of pairs of 8-bit integers; zeros after them. A last row
 * without a second is its own. */
OMMAI_INLINE void fill_rows(struct matrix_rows *rows, const uint16_t *x, int64_t stride, const int n_rows, int64_t n) {
#pragma GCC unroll 3
  for (int row = 0; row < n_rows; row += 2) {
    const uint16_t *first = x + row * stride, *second = row + 1 < n_rows ? first + stride : first;
    for (int64_t at = 0; at < n; at += 8) {
      uint64x2_t a = vreinterpretq_u64_u16(load_eight(first + at, n - at));
      uint64x2_t b = vreinterpretq_u64_u16(load_eight(second + at, n - at));
      vst1q_u8(rows->units[at / 4][row / 2], vreinterpretq_u8_u64(vzip1q_u64(a, b)));
      vst1q_u8(rows->units[at / 4 + 1][row / 2], vreinterpretq_u8_u64(vzip2q_u64(a, b)));
    }
  }
}

/* squares += the rows times 16 outputs. Registers hold them all besides the rows and few weights:
 * no more of these are to be loaded than the next products take, and what keeps the compiler from
 * it is that the address counts as changed by a product before. */
OMMAI_INLINE void multiply_strip(const struct matrix_rows *rows, const uint8_t (*strip)[COLUMN_PAIRS][REGISTER_BYTES],
                                 int64_t n_units, const int n_pairs, vec (*squares)[COLUMN_PAIRS]) {
#pragma GCC unroll 1
  for (int64_t unit = 0; unit < n_units; unit++) {
    const uint8_t(*weights)[REGISTER_BYTES] = strip[unit];
    uint8x16_t x[ROW_PAIRS];
#pragma GCC unroll 3
    for (int i = 0; i < n_pairs; i++) x[i] = vld1q_u8(rows->units[unit][i]);
#pragma GCC unroll 4
    for (int j = 0; j < COLUMN_PAIRS; j += 2) {
      uint8x16_t w[2] = {vld1q_u8(weights[j]), vld1q_u8(weights[j + 1])};
#pragma GCC unroll 3
      for (int i = 0; i < n_pairs; i++) {
        squares[i][j] = square_product(squares[i][j], x[i], w[0]);
        squares[i][j + 1] = square_product(squares[i][j + 1], x[i], w[1]);
      }
      if (n_pairs == ROW_PAIRS) __asm__("" : "+r"(weights), "+w"(squares[1][j]));
    }
  }
}
