/* Tiles of rows times a panel of 64 outputs of bf16 weights, in products of bf16.
 *
 * Each sum is one chain over pairs of inputs in rising order, as VDPBF16PS computes it:
 *
 *   sum = 0
 *   for k = 0, 2, 4 ...: sum = fma(x[k], w[k], fma(x[k + 1], w[k + 1], sum))      rounded twice,
 *                         to nearest even
 *
 * with what is missing of the last pair counted as zeros. Inputs, weights and sums that are
 * denormal count as zeros there, which the scalar code leaves out. That is the arithmetic of the
 * few-row kernels of the same level (gemv.h) as well: a row's bits depend neither on the rows next
 * to it, nor on their number, nor on which of the two computes it.
 *
 * At level neon_bf16 it is the chain of BFMMLA and BFDOT, whose products are exact:
 *
 *   sum = 0
 *   for k = 0, 2, 4 ...: sum = odd(sum + odd(x[k] w[k] + x[k + 1] w[k + 1]))
 *
 * odd() rounds towards zero, and sets the last bit unless that was exact; denormals count as zeros
 * there too, operands and results. (So compute all CPUs with BF16 unless software sets FPCR.EBF,
 * which no Linux program starts with.) An error is below 2^-23 of its result, where it is at most
 * 2^-24 of one to nearest, and half as many additions follow each other: a sum of n products is
 * within (n + 2) 2^-24 of the sum of their magnitudes, as the other chain is. Few rows have the
 * same chain.
 *
 * At level amx a sum is that of TDPBF16PS, over 32 inputs at a time:
 *
 *   sum = 0
 *   for k = 0, 32, 64 ...:
 *     even = odd = 0
 *     for i = k, k + 2 ... k + 30: even = fma(x[i], w[i], even), odd = fma(x[i + 1], w[i + 1], odd)
 *     sum = sum + (even + odd)
 *
 * Few rows have the same. */
#pragma once

#include "base/checked.h"
#include "kernels/gemv.h"

/* Rows of x as a kernel may want them: 16 rows by 32 inputs lie together, with zeros for what is
 * missing of the last inputs; 8 such tiles of the same rows follow each other, then the next rows,
 * then the next inputs:
 *
 *   [k_padded / 256, up][n_rows / 16][8, fewer in the last][16][32] */
enum { OMMAI_BF16_PACKED_ROWS = 16, OMMAI_BF16_PACKED_INPUTS = 32, OMMAI_BF16_PACKED_BLOCK = 256 };
struct ommai_bf16_packed {
  ommai_bf16 *memory; /* at a multiple of 64 bytes */
  int64_t n_rows;     /* that there is room for, a multiple of 16 */
  int64_t first;      /* of the rows meant */
};

/* Rows, one or more panels, and what becomes of their sums. What the pointers lead to needs its
 * element's alignment only; nothing past n_k is read from x, and weights after the panels may be
 * asked for, wherever they end. */
struct ommai_bf16_tile {
  /* [n_panels][k_padded / 2][64][2], k_padded = n_k up to a multiple of 32, panels panel_elements
   * apart; what pads n_k is finite and does not count */
  const ommai_bf16 *weights;
  int64_t n_panels, panel_elements; /* n_panels: up to the kernel's max_panels */
  const ommai_bf16 *x; /* [n_rows][x_stride]; read by pack alone where there is one */
  int64_t x_stride, n_rows, n_k;
  struct ommai_bf16_packed packed; /* of kernels that pack */
  const float *bias;               /* [n_panels][64] */
  /* [n_rows][y_stride] of y_type, 64 of each row for each panel, those of the next panel y_panel
   * elements on: the sum + bias; y += that, where accumulate is set */
  void *y;
  int64_t y_stride, y_panel;
  enum omma_dtype y_type; /* f32; or bf16, rounded once, without accumulate */
  bool accumulate;
  /* [n_panels][n_rows, of kernels that pack up to a multiple of 16][64], for the kernel; y may be
   * there, with strides to match */
  float *sums;
};

struct ommai_bf16_tile_kernel {
  enum ommai_cpu_level level;
  int max_panels;
  /* NULL: run reads x. Else run reads packed rows, from a multiple of 16 on, and pack fills them
   * from x, any rows at a time. Calls for different rows may run at the same time. */
  void (*pack)(const struct ommai_bf16_tile *tile);
  void (*run)(const struct ommai_bf16_tile *tile);
  /* The same, to the bit, for a CPU whose first level of cache is small; NULL: this does. */
  const struct ommai_bf16_tile_kernel *small_l1;
};

/* Bytes of packed rows: n_rows up to a multiple of 16; 0 where the kernel reads x. */
static inline size_t ommai_bf16_packed_bytes(const struct ommai_bf16_tile_kernel *kernel, int64_t n_rows, int64_t n_k) {
  if (!kernel->pack) return 0;
  int64_t rows = ommai_round_up(n_rows, OMMAI_BF16_PACKED_ROWS), inputs = ommai_round_up(n_k, OMMAI_BF16_PACKED_INPUTS);
  return (size_t)(rows * inputs) * sizeof(ommai_bf16);
}

/* All there are: X(level). */
#if defined(__x86_64__)
#define OMMAI_BF16_TILE_KERNELS(X) X(scalar) X(avx512_bf16) X(amx)
#elif defined(__aarch64__)
#define OMMAI_BF16_TILE_KERNELS(X) X(scalar) X(neon_bf16)
#else
#define OMMAI_BF16_TILE_KERNELS(X) X(scalar)
#endif
#define OMMAI_BF16_TILE_DECLARE(level) extern const struct ommai_bf16_tile_kernel ommai_bf16_tile_##level;
OMMAI_BF16_TILE_KERNELS(OMMAI_BF16_TILE_DECLARE)
#undef OMMAI_BF16_TILE_DECLARE

/* As a list, and the best up to `level`. */
extern const struct ommai_bf16_tile_kernel *const ommai_bf16_tile_kernels[];
const struct ommai_bf16_tile_kernel *ommai_bf16_tile_select(enum ommai_cpu_level level);
