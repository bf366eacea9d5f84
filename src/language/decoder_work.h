/* What a decoder computes, from its shapes alone. */
#pragma once

#include "language/decoder.h"

/* Useful floating-point operations of a prompt of n_tokens, 2 per multiply-add: the matrices of all
 * layers for each token, of a routed part those of the experts that a token is sent to; 2
 * (head_dim + v_head_dim) for each head, token and token that it sees, itself and those before it,
 * within the layer's window;
 * the output layer for the last token. MLA expands a token's compressed row once. */
double ommai_decoder_prompt_flops(const struct ommai_decoder_config *config, int64_t n_tokens);
