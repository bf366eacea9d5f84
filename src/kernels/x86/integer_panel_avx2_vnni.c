/* Integer weights by VPDPBUSD on 32 bytes: 8 outputs by 4 inputs a register, weights as the
 * unsigned factor (signed ones raised by 128, which the sum of a row's inputs takes back), a row's
 * inputs broadcast as the signed one. Six rows by 16 outputs fill the registers; four rows or fewer
 * take more outputs, so that there are chains enough to hide the instruction's latency. */
#include "kernels/x86/integer_lanes_avx2.h"

#include "kernels/integer_panel_sums.h"

#define MAX_ROWS 6

enum { RAISED = 128 };

/* How a vector of weights becomes unsigned bytes. */
enum form { SIGNED_BYTES, LOW_HALVES, HIGH_HALVES };

OMMAI_INLINE ivec unsigned_bytes(const uint8_t *at, const enum form form) {
  ivec w = ivec_load(at);
  if (form == SIGNED_BYTES) return _mm256_xor_si256(w, ivec_set1((int32_t)0x80808080u));
  return ivec_and(form == HIGH_HALVES ? ivec_down(w, 4) : w, ivec_set1(0x0f0f0f0f));
}

/* Adds the products of each line's weights with the rows' inputs: those at x, and `step` further
 * for each next line. Either the vectors of weights or the rows' inputs stay in registers over the
 * other, whichever are fewer. */
OMMAI_INLINE void add_lines(const struct integer_block *block, const enum form form, struct integer_coming *stream, int column,
                            const int8_t *x, const int n_rows, const int n_vectors, ivec (*acc)[PANEL_VECTORS]) {
  const int step = form == SIGNED_BYTES ? 4 : 8,
            n_loops = (PANEL_VECTORS + n_vectors - 1) / n_vectors * (form == SIGNED_BYTES ? 1 : 2);
  const uint8_t *line = block->weights;
  for (int64_t left = block->n_k; left > 0; left -= step, line += 4 * PANEL, x += step) {
    if (stream) integer_stream_line(stream, n_loops < 4 ? (3 + n_loops) / n_loops : 1, true);
    ivec kept[PANEL_VECTORS];
    if (n_rows < n_vectors) {
#pragma GCC unroll 8
      for (int row = 0; row < n_rows; row++) kept[row] = ivec_broadcast4(x + row * block->stride);
#pragma GCC unroll 8
      for (int v = 0; v < n_vectors; v++) {
        ivec w = unsigned_bytes(line + 4 * column + v * VECTOR, form);
#pragma GCC unroll 8
        for (int row = 0; row < n_rows; row++) acc[row][v] = _mm256_dpbusd_avx_epi32(acc[row][v], w, kept[row]);
      }
      continue;
    }
#pragma GCC unroll 8
    for (int v = 0; v < n_vectors; v++) kept[v] = unsigned_bytes(line + 4 * column + v * VECTOR, form);
#pragma GCC unroll 8
    for (int row = 0; row < n_rows; row++) {
      ivec inputs = ivec_broadcast4(x + row * block->stride);
#pragma GCC unroll 8
      for (int v = 0; v < n_vectors; v++) acc[row][v] = _mm256_dpbusd_avx_epi32(acc[row][v], kept[v], inputs);
    }
  }
}

/* Both halves of int4 weights in turn, so that the sums of six rows keep their registers; the
 * second time the lines are in the first cache. */
OMMAI_INLINE void columns(const struct integer_block *block, const bool half, int column, struct integer_coming *stream,
                          const int n_rows, const int n_vectors) {
  ivec acc[MAX_ROWS][PANEL_VECTORS];
  start(block, column, half ? 0 : RAISED, n_rows, n_vectors, acc);
  if (half) {
    add_lines(block, LOW_HALVES, stream, column, block->x, n_rows, n_vectors, acc);
    add_lines(block, HIGH_HALVES, stream, column, block->x + 4, n_rows, n_vectors, acc);
  } else {
    add_lines(block, SIGNED_BYTES, stream, column, block->x, n_rows, n_vectors, acc);
  }
  finish(block, column, n_rows, n_vectors, acc);
}

/* Vectors of outputs that go together. */
OMMAI_INLINE int vectors_for(const int n_rows, const bool half) {
  if (n_rows <= 3) return n_rows == 1 ? 8 : 4;
  return half && n_rows == 4 ? 3 : 2;
}

#define HALF_PASSES 2
#include "kernels/integer_panel_rows.h"

const struct ommai_integer_kernels ommai_integer_avx2_vnni = {
    .level = OMMAI_CPU_AVX2_VNNI, .uses_vnni = true, .s8 = run_s8, .u4 = run_u4};
