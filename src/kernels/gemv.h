/* A few rows times a packed weight matrix (decoding): y[r][n] = sum_k x[r][k] W[n][k] + bias[n],
 * f32 sums.
 *
 * The frame (gemv.c) cuts the work into panels of 64 outputs, groups of rows and blocks of k; the
 * micro-kernels below it are chosen by CPU level. Each sum is one chain over k in rising order, so
 * that the bits of a row depend neither on n_rows nor on how the panels are shared out. */
#pragma once

#include <omma/attention.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/half.h"
#include "kernels/cpu.h"

#define OMMAI_PANEL_COLUMNS 64
#define OMMAI_GEMV_GROUP 20      /* rows that one micro-kernel call may get */
#define OMMAI_GEMV_PANELS 4      /* that rows may pass over side by side */
#define OMMAI_GEMV_WIDE_GROUP 32 /* rows that do */

/* How a weight matrix W [n_out][n_in] lies in memory. n_panels = ceil(n_out / 64); what pads n_in
 * and n_out is zero. */
enum ommai_weight_layout {
  /* bf16 [n_panels][k_padded / 2][64][2], k_padded = n_in up to a multiple of 32 */
  OMMAI_WEIGHTS_BF16_PANELS,
  /* f32 [n_panels][k_padded][64], k_padded = n_in up to a multiple of 16 */
  OMMAI_WEIGHTS_F32_PANELS,
  /* Not for the kernels of this file (integer_panel.h): */
  /* s8 [n_panels][k_padded / 4][64][4], k_padded = n_in up to a multiple of 64 */
  OMMAI_WEIGHTS_S8_PANELS,
  /* u8 [n_panels][k_padded / 8][64][4], k_padded likewise: byte j of block b and column c has input
   * 8 b + j in its low four bits and input 8 b + 4 + j in its high ones */
  OMMAI_WEIGHTS_U4_PANELS,
  /* u8 [n_panels][k_padded / 16][3][64][4], k_padded likewise: byte j of block b and column c has
   * the two high bits of inputs 16 b + j, 16 b + 4 + j, + 8, + 12 from its lowest bit on; then two
   * blocks of U4_PANELS with the low four bits of the 16 inputs */
  OMMAI_WEIGHTS_U6_PANELS,
  OMMAI_WEIGHT_LAYOUTS
};

/* Bits of one weight. */
int ommai_weights_bits(enum ommai_weight_layout layout);

/* n_in with its padding. */
int64_t ommai_weights_padded_k(enum ommai_weight_layout layout, int64_t n_in);

/* From one panel to the next: bytes, and elements (bytes of U4 and U6_PANELS). */
int64_t ommai_weights_panel_bytes(enum ommai_weight_layout layout, int64_t n_in);
int64_t ommai_weights_panel_elements(enum ommai_weight_layout layout, int64_t n_in);

/* The micro-kernels. x, weights and sums need their element's alignment only; nothing past n_k is
 * read from x. */
struct ommai_gemv_kernels {
  enum ommai_cpu_level level;
  /* sums[r][c] += x[r][k] w[k][c] for c < 64, r < n_rows <= OMMAI_GEMV_GROUP, k < n_k, in products
   * of bf16. sums is [n_rows][64]. weights: a panel from an even k on, [.][64][2]. Where n_k is
   * odd, the last pair's second weight must be finite (packing has zeroed it) and does not
   * count. */
  void (*panel_bf16)(const ommai_bf16 *weights, const ommai_bf16 *x, int64_t x_stride, int n_rows, int64_t n_k, float *sums);
  /* The same in f32 arithmetic over f32 weights; weights: a panel from some k on, [.][64]. */
  void (*panel_f32)(const float *weights, const float *x, int64_t x_stride, int n_rows, int64_t n_k, float *sums);
  /* The same in f32 arithmetic over bf16 weights, with the bits that panel_f32 has over their
   * values in f32. */
  void (*panel_mixed)(const ommai_bf16 *weights, const float *x, int64_t x_stride, int n_rows, int64_t n_k, float *sums);
  /* In place of panel_bf16, which is NULL then: n_rows <= OMMAI_GEMV_WIDE_GROUP over n_panels <=
   * OMMAI_GEMV_PANELS panels side by side, each `panel_elements` after the one before; sums
   * [n_panels][n_rows][64], written; n_k is n_in, and weights are read, and finite, up to its
   * padding. Where memory brings several panels faster than one after the other. */
  void (*panels_bf16)(const ommai_bf16 *weights, int64_t panel_elements, int n_panels, const ommai_bf16 *x, int64_t x_stride,
                      int n_rows, int64_t n_k, float *sums);
  /* The same, to the bit, for a CPU whose first level of cache is small; NULL: this does. */
  const struct ommai_gemv_kernels *small_l1;
};

/* All there are: X(level). */
#if defined(__x86_64__)
#define OMMAI_GEMV_KERNELS(X) X(scalar) OMMAI_VECTOR_LEVELS(X) X(avx512_bf16) X(amx)
#elif defined(__aarch64__)
#define OMMAI_GEMV_KERNELS(X) X(scalar) OMMAI_VECTOR_LEVELS(X) X(neon_bf16)
#else
#define OMMAI_GEMV_KERNELS(X) X(scalar) OMMAI_VECTOR_LEVELS(X)
#endif
#define OMMAI_GEMV_DECLARE(level) extern const struct ommai_gemv_kernels ommai_gemv_##level;
OMMAI_GEMV_KERNELS(OMMAI_GEMV_DECLARE)
#undef OMMAI_GEMV_DECLARE

/* As a list, and the best up to `level`. */
extern const struct ommai_gemv_kernels *const ommai_gemv_kernels[];
const struct ommai_gemv_kernels *ommai_gemv_select(enum ommai_cpu_level level);

/* A weight matrix and what its inputs are. In f32 arithmetic inputs in bf16 are expanded;
 * arithmetic in bf16 is for bf16 panels and inputs. */
struct ommai_gemv_weights {
  const void *weights; /* in `layout` */
  const float *bias;   /* [n_panels * 64] */
  int64_t n_out, n_in;
  enum ommai_weight_layout layout;
  enum omma_dtype x_type;     /* OMMA_F32 or OMMA_BF16 */
  enum omma_dtype arithmetic; /* likewise */
};

/* Outputs of panels first_panel .. first_panel + n_panels - 1 for n_rows rows (any number): y[r][n]
 * = sum + bias[n], or y[r][n] += that. x [n_rows][x_stride], y [n_rows][y_stride], strides in
 * elements. Thread-safe; two callers may share the panels. Allocates nothing. */
void ommai_gemv_run(const struct ommai_gemv_kernels *kernels, const struct ommai_gemv_weights *weights, const void *x,
                    int64_t x_stride, int64_t n_rows, float *y, int64_t y_stride, bool accumulate, int64_t first_panel,
                    int64_t n_panels);

/* Whether rows pass over OMMAI_GEMV_PANELS panels of such weights side by side. */
bool ommai_gemv_side_by_side(const struct ommai_gemv_kernels *kernels, const struct ommai_gemv_weights *weights);

/* Asks for a panel's biases, whose memory no prefetcher predicts, while the panel's weights are
 * read. */
static inline void ommai_gemv_prefetch_bias(const float *bias) {
  for (int c = 0; c < OMMAI_PANEL_COLUMNS; c += 16) __builtin_prefetch(bias + c);
}

/* y[r][c] = sums[r][c] + bias[c], or y[r][c] += that, for c < n_columns <= 64; sums [n_rows][64], y
 * [n_rows][y_stride]. y may be sums where the strides are equal. */
void ommai_gemv_finish(const float *sums, const float *bias, int n_rows, int n_columns, bool accumulate, float *y,
                       int64_t y_stride);

/* Micro-kernels that the tables of several levels have. */
void ommai_gemv_panel_bf16_scalar(const ommai_bf16 *weights, const ommai_bf16 *x, int64_t x_stride, int n_rows, int64_t n_k,
                                  float *sums);
void ommai_gemv_panel_f32_avx512(const float *weights, const float *x, int64_t x_stride, int n_rows, int64_t n_k, float *sums);
void ommai_gemv_panel_mixed_avx512(const ommai_bf16 *weights, const float *x, int64_t x_stride, int n_rows, int64_t n_k,
                                   float *sums);
void ommai_gemv_panel_f32_neon(const float *weights, const float *x, int64_t x_stride, int n_rows, int64_t n_k, float *sums);
void ommai_gemv_panel_mixed_neon(const ommai_bf16 *weights, const float *x, int64_t x_stride, int n_rows, int64_t n_k,
                                 float *sums);
