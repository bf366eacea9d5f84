/* The small operations between matrix products, one row at a time: norms, rotary embedding, gated
 * activation, conversion.
 *
 * Every operation is written once, in plain C (row_ops_body.h), and compiled for each CPU level;
 * sums run over sixteen fixed lanes, so that all levels give the same bits and a row never depends
 * on its neighbours. Pointers need only their natural alignment. Single-threaded; no allocation.
 * Output types are f32 or bf16 (one rounding to nearest even). The last four are those of draws
 * from a row of logits. */
#pragma once

#include <omma/attention.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/cpu.h"
#include "kernels/int8.h"

/* The smallest and the largest of a row; without meaning where some value is NaN or infinite. */
struct ommai_row_range {
  float low, high;
  bool finite;
};

/* What lies at or above a threshold. */
struct ommai_row_share {
  uint64_t weight;
  int64_t count;
};

/* The weight of what is as likely as the likeliest. */
#define OMMAI_ROW_WEIGHT_ONE (1u << 28)
/* Thresholds of one call. */
#define OMMAI_ROW_MAX_THRESHOLDS 7

/* X(name, return, parameters): every operation, for declarations, tables and tests. */
#define OMMAI_ROW_OPS(X)                                                                                                  \
  /* out[d] = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias; population variance. torch.nn.LayerNorm. */             \
  X(layer_norm,                                                                                                           \
    (const float *x, const float *weight, const float *bias, float eps, int64_t d, void *out, enum omma_dtype out_type))  \
  /* out[d] = x / sqrt(mean(x^2) + eps) * weight. RMSNorm of the decoder models. */                                       \
  X(rms_norm, (const float *x, const float *weight, float eps, int64_t d, void *out, enum omma_dtype out_type))           \
  /* Rotates n_heads heads of d elements: pair (j, j + d/2) turns by the angle with cosine cos[j] and sine sin[j]; \
   * x [n_heads * d], cos and sin [d/2], out [n_heads] at out_head_stride elements. */      \
  X(rope_half, (const float *x, const float *cos, const float *sin, int64_t n_heads, int64_t d, void *out,                \
                int64_t out_head_stride, enum omma_dtype out_type))                                                       \
  /* The same with pair (2j, 2j + 1). */                                                                                  \
  X(rope_pairs, (const float *x, const float *cos, const float *sin, int64_t n_heads, int64_t d, void *out,               \
                 int64_t out_head_stride, enum omma_dtype out_type))                                                      \
  /* out[d] = silu(gate[d]) * up[d]; silu(g) = g / (1 + exp(-g)). */                                                      \
  X(silu_mul, (const float *gate, const float *up, int64_t d, void *out, enum omma_dtype out_type))                       \
  /* out[d] = x[d] / (1 + exp(-gate[d])). */                                                                              \
  X(sigmoid_mul, (const float *gate, const float *x, int64_t d, void *out, enum omma_dtype out_type))                     \
  /* out[d] = x[d]. */                                                                                                    \
  X(convert, (const float *x, int64_t d, void *out, enum omma_dtype out_type))                                            \
  /* out[d] = exp((x[d] - shift) * scale), for arguments up to 88; below -87 it is exp(-87). */                           \
  X(exp_scaled, (const float *x, float shift, float scale, int64_t d, void *out, enum omma_dtype out_type))               \
  /* out[d] = sum over t < n of weights[t][d] * rows[t][d], summed in the order of t; out apart from them. */             \
  X(convolve, (const float *const *rows, const float *const *weights, int n, int64_t d, float *out))                      \
  /* y[d] += x[d]. */                                                                                                     \
  X(add, (float *y, const float *x, int64_t d))                                                                           \
  /* y[d] += sum over t < n of weight[t] * rows[t][d], summed in the order of t first. */                                 \
  X(add_weighted, (float *y, const float *const *rows, const float *weight, int n, int64_t d))                            \
  /* x[d], in place: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). */                                                \
  X(gelu_tanh, (float *x, int64_t d))                                                                                     \
  /* x[d], in place: 0.5 x (1 + erf(x / sqrt(2))). */                                                                     \
  X(gelu_erf, (float *x, int64_t d))                                                                                      \
  /* x[d], in place: x / (1 + exp(-x)). */                                                                                \
  X(silu, (float *x, int64_t d))                                                                                          \
  /* x[d], in place: x / (1 + exp(-1.702 x)). */                                                                          \
  X(quick_gelu, (float *x, int64_t d))                                                                                    \
  /* out[d] = x[d] / row->scale + row->zero (kernels/int8.h); x of x_type (f32 or bf16). */                               \
  X(quantise, (const void *x, enum omma_dtype x_type, int64_t d, int8_t *out, struct ommai_int8_row *row))                \
  /* out[d] = x[d] / *scale in -127 .. 127, *scale = max|x| / 127 (kernels/int8.h); x of x_type (f32 or bf16). */         \
  X(quantise_symmetric, (const void *x, enum omma_dtype x_type, int64_t d, int8_t *out, float *scale))                    \
  /* sums[g] = the sum of x[g * group] up to the next group or d. */                                                      \
  X(group_sums, (const int8_t *x, int64_t d, int64_t group, int32_t *sums))                                               \
  /* Of n_rows rows of a panel, x [n_rows][64], the first n; out and y [n_rows][stride], apart from x: */                 \
  /* out[row][n] = x[row][n] * scales[row] + bias[n], rounded twice. */                                                   \
  X(scale_panel,                                                                                                          \
    (const float *x, const float *scales, const float *bias, int64_t n_rows, int64_t n, float *out, int64_t stride))      \
  /* y[row][n] += x[row][n] * scales[row] + bias[n], rounded three times. */                                              \
  X(add_scaled_panel,                                                                                                     \
    (float *y, int64_t stride, const float *x, const float *scales, const float *bias, int64_t n_rows, int64_t n))        \
  /* out[row][n] = x[row][n]. */                                                                                          \
  X(convert_panel, (const float *x, int64_t n_rows, int64_t n, void *out, int64_t stride, enum omma_dtype out_type))      \
  /* out[d] in 0 .. 15 and *scale, x[d] being about *scale * (out[d] - 8): of eight grids that with the least squared \
   * error, the scale of each being the best for its integers (least squares). */   \
  X(fit_int4, (const float *x, int64_t d, int8_t *out, float *scale))                                                     \
  /* The range of x[d], d at least 1; infinities count in it, NaN does not. */                                            \
  X(find_range, (const float *x, int64_t d, struct ommai_row_range *range))                                               \
  /* out[d] = OMMAI_ROW_WEIGHT_ONE * exp((x[d] - shift) * scale), to the nearest; no argument is NaN or above 0. */       \
  X(weigh, (const float *x, float shift, float scale, int64_t d, uint32_t *out))                                          \
  /* shares[n] +=: the weights, at most OMMAI_ROW_WEIGHT_ONE each, and the number of all x[d] >= thresholds[n]. */        \
  X(add_shares,                                                                                                           \
    (const float *x, const uint32_t *weights, int64_t d, const float *thresholds, int n, struct ommai_row_share *shares)) \
  /* out[n_out] = first + i for every low <= x[i] < high, in rising order; all of out[d] may be written to. */            \
  X(list_between, (const float *x, float low, float high, int64_t d, int32_t first, int32_t *out, int64_t *n_out))

struct ommai_row_ops {
#define OMMAI_ROW_OP_MEMBER(name, parameters) void(*name) parameters;
  OMMAI_ROW_OPS(OMMAI_ROW_OP_MEMBER)
#undef OMMAI_ROW_OP_MEMBER
  enum ommai_cpu_level level; /* of the code in the table */
};

/* All there are: X(level). */
#if defined(__x86_64__)
#define OMMAI_ROW_OPS_LEVELS(X) X(scalar) OMMAI_VECTOR_LEVELS(X)
#else
#define OMMAI_ROW_OPS_LEVELS(X) X(scalar)
#endif
#define OMMAI_ROW_OPS_DECLARE(level) extern const struct ommai_row_ops ommai_row_ops_##level;
OMMAI_ROW_OPS_LEVELS(OMMAI_ROW_OPS_DECLARE)
#undef OMMAI_ROW_OPS_DECLARE

/* The best up to `level`. */
const struct ommai_row_ops *ommai_row_ops(enum ommai_cpu_level level);
