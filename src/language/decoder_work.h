/* What a decoder computes and reads, from its shapes alone. */
#ifndef OMMAI_LANGUAGE_DECODER_WORK_H
#define OMMAI_LANGUAGE_DECODER_WORK_H

#include "language/decoder.h"

/* Useful floating-point operations of a prompt of n_tokens, 2 per multiply-add: the matrices of all layers for each token, of a routed
 * part those of the experts that a token is sent to; 2 (head_dim + v_head_dim) for each head, token and token that it sees, itself and
 * those before it; the output layer for the last token. Latent attention expands a token's compressed row once. */
double ommai_decoder_prompt_flops(const struct ommai_decoder_config *config, int64_t n_tokens);

/* Bytes of the matrices that a generated token goes through, the output layer's with them: router f32, all others as they are
 * packed (ommai_weight_format_bytes). */
int64_t ommai_decoder_step_weight_bytes(const struct ommai_decoder_config *config, size_t element_bytes);

#endif
