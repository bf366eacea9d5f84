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
 * Few rows have the chain above there, so that their bits are not those of tiles. A row's bits
 * still depend neither on the rows next to it nor on their number. */
#pragma once

#include "kernels/gemv.h"

/* Rows, a panel, and what becomes of their sums. What the pointers lead to needs its element's
 * alignment only; nothing past n_k is read from x, and weights after the panel may be asked for,
 * wherever they end. */
struct ommai_bf16_tile {
  /* [k_padded / 2][64][2], k_padded = n_k up to a multiple of 32; what pads n_k is finite and does
   * not count */
  const ommai_bf16 *weights;
  const ommai_bf16 *x; /* [n_rows][x_stride] */
  int64_t x_stride, n_rows, n_k;
  const float *bias; /* [64] */
  /* [n_rows][y_stride] of y_type, 64 of each row: the sum + bias; y += that, where accumulate is
   * set */
  void *y;
  int64_t y_stride;
  enum omma_dtype y_type; /* f32; or bf16, rounded once, without accumulate */
  bool accumulate;
  float *sums; /* [n_rows][64], for the kernel; y may be there */
};

struct ommai_bf16_tile_kernel {
  enum ommai_cpu_level level;
  void (*run)(const struct ommai_bf16_tile *tile);
};

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
