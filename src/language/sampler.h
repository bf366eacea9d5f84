/* From logits to tokens, many rows at a time: greedy, or drawn with temperature, top-k, top-p and
 * min-p from a seeded generator; penalties; the log-probabilities that clients ask for.
 *
 * Order of steps and meaning of the settings as in vLLM 0.32 (v1/sample): log-probabilities are the
 * model's own (before everything else); then bans and biases; repetition, frequency and presence
 * penalties; temperature; min-p, against the likeliest token; top-k; top-p, a share of what these
 * two leave. Ties go to the lower id, and top-k leaves k tokens at most (as vLLM's GPU kernels do;
 * its plain form keeps all that equal the k-th). A draw takes the first token in rising order of
 * ids at which the sum of the weights that are left passes a random share of them all. Weights are
 * counted in 2^-28ths of the likeliest token's, so that their sums are exact; what is less than
 * 2^-29 as likely as that is never drawn. A temperature below 1e-5 is greedy, as there; one below
 * 0.01, which vLLM raises to that, is taken as it is. The vocabulary is cut into parts of a fixed
 * length that a thread pool shares, so that a row's result depends neither on the threads nor on
 * the other rows. */
#pragma once

#include "base/tokens.h"
#include "kernels/row_ops.h"

/* Below this temperature a row is greedy. */
#define OMMAI_SAMPLER_MIN_TEMPERATURE 1e-5

/* What penalties look at: how often each token stands in the answer, and whether it stands in the
 * prompt. */
struct ommai_token_counts {
  const int32_t *answer; /* [vocab] */
  const bool *prompt;    /* [vocab] */
};

/* What a token is drawn from. */
struct ommai_sampler_input {
  const float *logits;              /* [vocab] */
  struct ommai_token_counts counts; /* read where a penalty is set */
};

struct ommai_sampler;

/* Bytes for a sampler of at most max_rows rows; 0 when they overflow. */
size_t ommai_sampler_size(int64_t vocab_size, int64_t max_rows);

/* Places a sampler into `memory` (64-aligned, of that size), which is its only memory. */
struct ommai_sampler *ommai_sampler_place(void *memory, int64_t vocab_size, int64_t max_rows, const struct ommai_row_ops *ops);

/* Answers each draw (whose slot and row mean nothing here) from the input of its place; n_rows at
 * most max_rows. Allocates nothing. One call at a time. */
void ommai_sampler_run(struct ommai_sampler *sampler, struct ommai_draw *draws, const struct ommai_sampler_input *inputs,
                       int64_t n_rows, const struct omma_team *team);
