/* What products of matrices (BFMMLA, SMMLA) work on: registers of two units of eight bytes, each
 * four bf16 or eight integers of a row or a column; and squares of sums, of two rows by two
 * columns. */
#pragma once

#include "kernels/arm/lanes_neon.h"

/* The first `count` of eight elements of a row, zeros after them. */
OMMAI_INLINE uint16x8_t load_eight(const uint16_t *row, int64_t count) {
  if (count >= 8) return vld1q_u16(row);
  uint16_t part[8] = {0};
#pragma GCC unroll 1
  for (int64_t i = 0; i < count; i++) part[i] = row[i];
  return vld1q_u16(part);
}

/* Two squares, of neighbouring columns, are taken apart into rows; and rows put together to
 * squares: the same. */
OMMAI_INLINE void rows_of_squares(vec first, vec second, vec *even, vec *odd) {
  *even = vcombine_f32(vget_low_f32(first), vget_low_f32(second));
  *odd = vcombine_f32(vget_high_f32(first), vget_high_f32(second));
}
