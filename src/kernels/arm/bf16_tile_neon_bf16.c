/* Tiles of rows in products of bf16 by BFMMLA. */
#include "kernels/bf16_tile.h"

#include "kernels/arm/lanes_neon.h"

OMMAI_INLINE vec square_product(vec square, uint8x16_t rows, uint8x16_t columns) {
  return vbfmmlaq_f32(square, vreinterpretq_bf16_u8(rows), vreinterpretq_bf16_u8(columns));
}

#include "kernels/arm/matrix_tile_neon.h"

enum { PANEL = OMMAI_PANEL_COLUMNS, UNIT_K = 4, BLOCK_K = UNIT_K * BLOCK_UNITS };

/* Some inputs of some rows. */
struct block {
  const struct ommai_bf16_tile *tile;
  const struct matrix_weights *weights;
  int64_t k, n_k, row;
  bool begins, ends; /* the sums */
};

/* Sums of four outputs of a row, to y. */
OMMAI_INLINE void write_sums(const struct ommai_bf16_tile *tile, vec sum, int64_t row, int column) {
  int64_t at = row * tile->y_stride + column;
  sum = vec_add(sum, vec_load(tile->bias + column));
  if (tile->y_type == OMMA_BF16) {
    vst1_u16((ommai_bf16 *)tile->y + at, vreinterpret_u16_bf16(vcvt_bf16_f32(sum)));
    return;
  }
  float *y = (float *)tile->y + at;
  vec_store(y, tile->accumulate ? vec_add(vec_load(y), sum) : sum);
}

/* Sums of two rows and four outputs from where they are between blocks, or zeros. */
OMMAI_INLINE void begin_squares(const struct block *block, const float *sums, const bool two, vec squares[2]) {
  if (block->begins) {
    squares[0] = squares[1] = vec_zero();
  } else {
    rows_of_squares(vec_load(sums), vec_load(sums + (two ? PANEL : 0)), &squares[0], &squares[1]);
  }
}

/* Sums of four outputs of a row, to where they are between blocks, or to y. */
OMMAI_INLINE void end_sums(const struct block *block, vec sums, int64_t row, int column) {
  if (block->ends) {
    write_sums(block->tile, sums, row, column);
  } else {
    vec_store(block->tile->sums + row * PANEL + column, sums);
  }
}

OMMAI_INLINE void end_squares(const struct block *block, const vec squares[2], int64_t row, int column, const bool two) {
  vec even, odd;
  rows_of_squares(squares[0], squares[1], &even, &odd);
  end_sums(block, even, row, column);
  if (two) end_sums(block, odd, row + 1, column);
}

OMMAI_INLINE void some_rows(const struct block *block, const int n_rows) {
  const int n_pairs = (n_rows + 1) / 2;
  const struct ommai_bf16_tile *tile = block->tile;
  struct matrix_rows rows;
  fill_rows(&rows, tile->x + block->row * tile->x_stride + block->k, tile->x_stride, n_rows, block->n_k);
  for (int strip = 0; strip < STRIPS; strip++) {
    vec squares[ROW_PAIRS][COLUMN_PAIRS];
#pragma GCC unroll 3
    for (int i = 0; i < n_pairs; i++) {
      const float *sums = tile->sums + (block->row + 2 * i) * PANEL + strip * STRIP_COLUMNS;
#pragma GCC unroll 4
      for (int v = 0; v < STRIP_VECTORS; v++) begin_squares(block, sums + v * LANES, 2 * i + 1 < n_rows, &squares[i][2 * v]);
    }
    multiply_strip(&rows, block->weights->strips[strip], ommai_div_up(block->n_k, UNIT_K), n_pairs, squares);
#pragma GCC unroll 3
    for (int i = 0; i < n_pairs; i++) {
#pragma GCC unroll 4
      for (int v = 0; v < STRIP_VECTORS; v++) {
        end_squares(block, &squares[i][2 * v], block->row + 2 * i, strip * STRIP_COLUMNS + v * LANES, 2 * i + 1 < n_rows);
      }
    }
  }
}

static void run(const struct ommai_bf16_tile *tile) {
  struct matrix_weights weights;
  for (int64_t k = 0; k < tile->n_k; k += BLOCK_K) {
    struct block block = {.tile = tile, .weights = &weights, .k = k, .n_k = ommai_min_i64(BLOCK_K, tile->n_k - k)};
    block.begins = k == 0;
    block.ends = k + block.n_k == tile->n_k;
    fill_weights(&weights, tile->weights + k * PANEL, ommai_div_up(block.n_k, UNIT_K));
    for (int64_t n; block.row < tile->n_rows; block.row += n) {
      n = ommai_next_rows(tile->n_rows - block.row, TILE_ROWS);
      switch (n) {
        case 1: some_rows(&block, 1); break;
        case 2: some_rows(&block, 2); break;
        case 3: some_rows(&block, 3); break;
        case 4: some_rows(&block, 4); break;
        case 5: some_rows(&block, 5); break;
        default: some_rows(&block, TILE_ROWS); break;
      }
    }
  }
}

const struct ommai_bf16_tile_kernel ommai_bf16_tile_neon_bf16 = {.level = OMMAI_CPU_NEON_BF16, .max_panels = 1, .run = run};
