/* What linear layers are made of, what they are, and how they are called: the values that linear.h
 * and the code of the formats (linear_objects.h) share. */
#pragma once

#include <omma/attention.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/bf16_tile.h"
#include "kernels/integer_panel.h"
#include "linear/weight_format.h"
#include "weights/stored_matrix.h"

#define OMMAI_LINEAR_MAX_ROWS 128       /* rows of one ommai_linear_run of any layer */
#define OMMAI_LINEAR_MAX_SIZE (1 << 24) /* n_in and n_out */
#define OMMAI_LINEAR_MAX_WORKERS 4096
#define OMMAI_LINEAR_MAX_INT8_INPUTS OMMAI_INTEGER_MAX_INPUTS /* of int8 and int4 weights */
/* groups of inputs are multiples of it, */
#define OMMAI_LINEAR_GROUP_STEP OMMAI_INTEGER_GROUP_STEP
#define OMMAI_LINEAR_MAX_GROUP OMMAI_INTEGER_MAX_GROUP /* up to this */

/* A weight matrix [n_out][n_in] and its bias [n_out] or NULL. Either `weight`: row-major
 * (transposed: [n_in][n_out]), of f32, bf16 or f16 at any address (mmapped files are not aligned);
 * or, where `stored` is set, that matrix's outputs from first_output on (transposed: n_in of its
 * outputs, of which each has one input of every output here). Read during ommai_linear_create
 * only. */
struct ommai_linear_source {
  const void *weight;
  enum omma_dtype type;
  int64_t n_out;
  const void *bias;
  enum omma_dtype bias_type;
  bool transposed;
  const struct ommai_stored_matrix *stored;
  int64_t first_output;
};

/* How rows of x come to 8 bits where weights are integers: by their range, with a zero point (what
 * suits activations with few values below 0; int8 weights with one scale for each output only), or
 * symmetric about 0. */
enum ommai_linear_inputs { OMMAI_INPUTS_RANGE, OMMAI_INPUTS_SYMMETRIC };

/* What a layer is, before there are weights. */
struct ommai_linear_spec {
  int64_t n_out, n_in;
  enum ommai_weight_format format;
  /* of x, of arithmetic, and of y at most: OMMA_F32 with F32 or integer weights, OMMA_BF16 with
   * BF16 or those */
  enum omma_dtype compute;
  bool has_bias;
  /* Of integer weights: */
  /* inputs to a scale: 0 (all), or a multiple of OMMAI_LINEAR_GROUP_STEP up to
   * OMMAI_LINEAR_MAX_GROUP; the last may be less */
  int64_t group;
  bool has_minimums; /* weights that are integers in their source only; others are symmetric */
  /* How scales and minimums are kept of weights that are integers in their source; of others 0 and
   * false, f32. Inputs, whole groups, whose scales and minimums are 8-bit integers times one float
   * each; or 0 */
  int64_t shared;
  bool has_half_scales; /* they are f16 */
  enum ommai_linear_inputs inputs;
};

/* The format in which dense weights are kept for computing in `compute`. */
static inline enum ommai_weight_format ommai_linear_dense_format(enum omma_dtype compute) {
  return compute == OMMA_BF16 ? OMMAI_FORMAT_BF16 : OMMAI_FORMAT_F32;
}

/* What a layer can apply to its result. GELU_TANH: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715
 * x^3))) (PyTorch's gelu with approximate="tanh"). GELU_ERF: 0.5 x (1 + erf(x / sqrt(2)))
 * (Hendrycks and Gimpel 2016). SILU: x / (1 + exp(-x)) (Elfwing et al. 2017). QUICK_GELU: x / (1 +
 * exp(-1.702 x)) (the sigmoid approximation of GELU by Hendrycks and Gimpel, as CLIP uses it). */
enum ommai_activation {
  OMMAI_ACTIVATION_NONE,
  OMMAI_ACTIVATION_GELU_TANH,
  OMMAI_ACTIVATION_GELU_ERF,
  OMMAI_ACTIVATION_SILU,
  OMMAI_ACTIVATION_QUICK_GELU,
  OMMAI_ACTIVATIONS
};

/* How a layer is called; fixed at load, so that everything exists before the first run. */
struct ommai_linear_call {
  /* elements from row to row, at least n_in and n_out */
  int64_t x_stride, y_stride;
  enum omma_dtype y_type; /* f32; or bf16 where the layer computes in bf16 */
  enum ommai_activation activation;
  /* y += x W^T + b; y f32, no activation */
  bool accumulate;
  /* Which outputs are computed: n_panels panels of 64 from first_panel on; 0 panels: all. y still
   * points at output 0. */
  int64_t first_panel, n_panels;
};

/* Rows of x as a layer's products read them, for callers that share one layer's outputs out: where
 * weights are integers, the 8 bits that each row is brought to once; where they are bf16 and the
 * CPU has AMX, packed rows; both in the caller's memory; else x itself. They hold for the layer
 * they were laid out for. */
struct ommai_linear_rows {
  const void *x;    /* [n_rows][x_stride] of the compute type */
  int64_t x_stride; /* elements */
  /* Integer weights, else NULL (kernels/integer_panel.h): */
  int8_t *bytes; /* [n_rows][byte_stride] */
  int64_t byte_stride;
  int32_t *sums, *zeros; /* [n_rows][groups], [n_rows] */
  float *scales;         /* [n_rows] */
  /* bf16 weights; memory NULL: as x lies. */
  struct ommai_bf16_packed packed;
};
