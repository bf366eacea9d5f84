/* The integer kernels over dot products of four signed bytes: four outputs by four inputs a
 * register of packed weights, as they lie; a register of a row holds 16 inputs, of which a product
 * takes a lane. Four rows by 16 outputs take 16 registers of sums; fewer rows take more outputs.
 * The including file includes integer_lanes_neon.h before and defines
 *
 *   dot_lane   acc + the products of the four weights of each lane of w with the inputs of x's
 *              lane `lane`; weights are below 16 where `half` is set */
#pragma once

#include "kernels/integer_panel_sums.h"

#define MAX_ROWS 4

enum { STEP_K = 16 /* of which groups of inputs are multiples */ };

/* acc[row][v] += w times inputs 4 quad .. 4 quad + 3 of each row. */
OMMAI_INLINE void add_products(int8x16_t w, const int8x16_t x[MAX_ROWS], const int quad, const bool half, const int v,
                               const int n_rows, ivec (*acc)[PANEL_VECTORS]) {
#pragma GCC unroll 4
  for (int row = 0; row < n_rows; row++) acc[row][v] = dot_lane(acc[row][v], w, x[row], quad, half);
}

/* A line of weights, of four inputs, or of eight in int4: its low halves are the first four's. */
OMMAI_INLINE void add_line(const uint8_t *line, const int8x16_t x[MAX_ROWS], const int quad, const bool half, const int n_rows,
                           const int n_vectors, ivec (*acc)[PANEL_VECTORS]) {
#pragma GCC unroll 16
  for (int v = 0; v < n_vectors; v++) {
    uint8x16_t w = vld1q_u8(line + v * VECTOR);
    if (half) {
      add_products(vreinterpretq_s8_u8(vandq_u8(w, vdupq_n_u8(15))), x, quad, half, v, n_rows, acc);
      add_products(vreinterpretq_s8_u8(vshrq_n_u8(w, 4)), x, quad + 1, half, v, n_rows, acc);
    } else {
      add_products(vreinterpretq_s8_u8(w), x, quad, half, v, n_rows, acc);
    }
  }
}

OMMAI_INLINE void columns(const struct integer_block *block, const bool half, int column, struct integer_coming *stream,
                          const int n_rows, const int n_vectors) {
  const int n_loops = PANEL_VECTORS / n_vectors, quads = half ? 2 : 1;
  const uint8_t *line = block->weights + 4 * column;
  ivec acc[MAX_ROWS][PANEL_VECTORS];
  start(block, column, 0, n_rows, n_vectors, acc);
  for (int64_t k = 0; k < block->n_k; k += STEP_K) {
    int8x16_t x[MAX_ROWS];
#pragma GCC unroll 4
    for (int row = 0; row < n_rows; row++) x[row] = vld1q_s8(block->x + row * block->stride + k);
#pragma GCC unroll 4
    for (int quad = 0; quad < STEP_K / 4; quad += quads, line += 4 * PANEL) {
      if (stream) integer_stream_line(stream, n_loops < 4 ? 4 / n_loops : 1, true);
      add_line(line, x, quad, half, n_rows, n_vectors, acc);
    }
  }
  finish(block, column, n_rows, n_vectors, acc);
}

OMMAI_INLINE int vectors_for(const int n_rows, const bool half) {
  (void)half;
  return n_rows == 1 ? PANEL_VECTORS : n_rows == 2 ? 8 : 4;
}

#define HALF_PASSES 1
#include "kernels/integer_panel_rows.h"
