/* The feed-forward part of a layer, down(act(gate) * up): dense layers, shared experts and experts,
 * in prefill and decode.
 *
 *   gate, up [n, intermediate] = gate_up(x), stacked in one matrix;  gated = act(gate) * up;
 *   residual or result = down(gated)
 *
 * act is SiLU (SwiGLU) in all models so far. ommai_feed_forward_gate is the one place that knows
 * it: a model with GELU (GeGLU) adds the activation to the config and its row operation there. */
#pragma once

#include "language/decoder.h"

/* A dense layer: one MLP, which every row takes. */
extern const struct ommai_ffn ommai_ffn_dense;

/* How prefill calls the two layers; accumulate: down adds to the residual. */
struct ommai_linear_call ommai_feed_forward_call_gate_up(const struct ommai_decoder_config *config, int64_t intermediate_size);
struct ommai_linear_call ommai_feed_forward_call_down(const struct ommai_decoder_config *config, int64_t intermediate_size,
                                                      bool accumulate);

/* act(gate) * up, rounded once: projected f32 [n_rows, 2 * intermediate_size], gate and then up in
 * each row, to gated dtype [n_rows, intermediate_size]. scales [n_rows]: what up is multiplied by
 * before, in its place; NULL: nothing. Thread-safe for different rows. */
void ommai_feed_forward_gate(const struct ommai_decoder *decoder, float *projected, int64_t n_rows, int64_t intermediate_size,
                             const float *scales, void *gated);
/* The same for columns [first, first + count) of each row; the bits do not depend on the cut. */
void ommai_feed_forward_gate_columns(const struct ommai_decoder *decoder, float *projected, int64_t n_rows,
                                     int64_t intermediate_size, const float *scales, void *gated, int64_t first, int64_t count);

/* Elements of the two matrices. */
int64_t ommai_feed_forward_elements(const struct ommai_decoder_config *config, int64_t intermediate_size);
