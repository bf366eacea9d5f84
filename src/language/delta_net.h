/* The gated delta net, a mixer that keeps a snapshot: of each value head a matrix
 * (kernels/delta_rule.h), and the last inputs of a causal convolution.
 *
 *   projected = [queries, keys, values, gates, rates, decays]
 *   queries, keys, values := silu(conv(them)): each channel over `kernel` rows, zeros before the
 *     first
 *   a head's query and key := divided by their lengths, the query by sqrt(key_dim) too
 *   rate := sigmoid(rate);   decay := exp(-exp(A_log) softplus(decay + bias))
 *   out = rms_norm(what the delta rule gives) * silu(gate), each value head; n of them share a key
 *     head
 *
 * Prompts go through it in blocks of OMMAI_DELTA_ROWS rows from the sequence's beginning on,
 * generated tokens row by row. All in f32. Source: the official code named in docs/models/. */
#pragma once

#include "language/mixer.h"

extern const struct ommai_mixer ommai_delta_net;
