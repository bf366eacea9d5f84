/* One pass of a separable resampling of 8-bit RGB: sums of pixels times fixed-point weights,
 * rounded and clamped to 8 bits. All kernels give the same bits: the sums are exact integers. */
#pragma once

#include <stdint.h>

#include "kernels/cpu.h"

/* Taps of an output are stored up to a multiple of this; the weights that pad them are 0. */
#define OMMAI_RESAMPLE_TAP_STEP 4

/* A pass n -> m: output i is clamp((2^(precision-1) + sum over j < count[i] of weights[i][j] *
 * input[first[i] + j]) >> precision). first is nondecreasing. The sums fit int32. */
struct ommai_resample_pass {
  int32_t n, m;
  int32_t max_taps; /* a multiple of OMMAI_RESAMPLE_TAP_STEP */
  int precision;    /* 1 .. 22 */
  int32_t *first;   /* [m] */
  int32_t *count;   /* [m] */
  int32_t *weights; /* [m][max_taps] */
  int16_t *narrow;  /* [m][max_taps], the same weights where they fit; else NULL */
};

struct ommai_resample_kernels {
  /* Outputs begin <= i < end along a row: in [n][3], out [m][3]. Nothing past in + 3 n is read. */
  void (*row)(const struct ommai_resample_pass *pass, const uint8_t *in, uint8_t *out, int32_t begin, int32_t end);
  /* Output i down the columns, for n_bytes columns that lie side by side: `in` is row first[i],
   * rows are `stride` apart. */
  void (*column)(const struct ommai_resample_pass *pass, int32_t i, const uint8_t *in, int64_t stride, uint8_t *out,
                 int64_t n_bytes);
};

/* The best kernels up to `level` for this pass, whose tables need not be filled yet. */
void ommai_resample_select(enum ommai_cpu_level level, const struct ommai_resample_pass *pass,
                           struct ommai_resample_kernels *kernels);

/* The kernels by level; avx2 reads `narrow`. */
void ommai_resample_row_scalar(const struct ommai_resample_pass *pass, const uint8_t *in, uint8_t *out, int32_t begin,
                               int32_t end);
void ommai_resample_column_scalar(const struct ommai_resample_pass *pass, int32_t i, const uint8_t *in, int64_t stride,
                                  uint8_t *out, int64_t n_bytes);
void ommai_resample_row_avx2(const struct ommai_resample_pass *pass, const uint8_t *in, uint8_t *out, int32_t begin,
                             int32_t end);
void ommai_resample_column_avx2(const struct ommai_resample_pass *pass, int32_t i, const uint8_t *in, int64_t stride,
                                uint8_t *out, int64_t n_bytes);
