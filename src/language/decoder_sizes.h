/* What follows from a decoder's config, its layers' mixers and their feed-forward parts, in numbers
 * alone: how wide rows are, how layers are called, how much is computed. */
#pragma once

#include "language/decoder.h"

/* The largest of what rows take over the layers: outputs of qkv (and of o, where they are normed),
 * q, inputs of o, decode's scratch. */
struct ommai_decoder_widths {
  int64_t projected, q, mixed, scratch;
};
struct ommai_decoder_widths ommai_decoder_max_widths(const struct ommai_decoder_config *config);

/* Values of a head that are rotated: twice the pairs of the rotary embedding. */
int64_t ommai_decoder_rope_dim(const struct ommai_decoder_config *config);
/* The intermediate width of the MLP that every row takes, a dense layer's or the shared expert; 0:
 * there is none. */
int64_t ommai_decoder_dense_size(const struct ommai_decoder_config *config, int64_t layer);
/* The largest of these over the layers. */
int64_t ommai_decoder_max_dense_size(const struct ommai_decoder_config *config);

/* How prefill calls a layer's linears (those of its feed-forward part: feed_forward.h). */
struct ommai_linear_call ommai_decoder_call_qkv(const struct ommai_decoder_config *config, int64_t layer);
struct ommai_linear_call ommai_decoder_call_o(const struct ommai_decoder_config *config, int64_t layer);
struct ommai_linear_call ommai_decoder_call_draft(const struct ommai_decoder_config *config);
struct ommai_linear_call ommai_decoder_call_router(const struct ommai_decoder_config *config);

/* Useful floating-point operations of a prompt of n_tokens, 2 per multiply-add: the matrices of all
 * layers for each token, of a routed part those of the experts that a token is sent to; 2
 * (head_dim + v_head_dim) for each head, token and token that it sees, itself and those before it,
 * within the layer's window; the output layer for the last token. MLA expands a token's compressed
 * row once. */
double ommai_decoder_prompt_flops(const struct ommai_decoder_config *config, int64_t n_tokens);
