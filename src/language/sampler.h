/* From logits to a token: greedy, or drawn with temperature, top-k, top-p and min-p from a seeded generator; penalties; the
 * log-probabilities that clients ask for.
 *
 * Order of steps and meaning of the settings as in vLLM 0.32 (v1/sample): log-probabilities are the model's own (before everything
 * else); then bans; repetition, frequency and presence penalties; temperature; min-p, against the likeliest token; top-k; top-p,
 * a share of what these two leave. Ties go to the lower id, and top-k leaves k tokens at most (as vLLM's GPU kernels do; its
 * plain form keeps all that equal the k-th). A temperature below 0.01, which vLLM raises to that, is taken as it is. */
#ifndef OMMAI_LANGUAGE_SAMPLER_H
#define OMMAI_LANGUAGE_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ommai_sampler_settings {
  double temperature; /* 0: greedy */
  double top_p;       /* (0, 1] */
  double min_p;       /* [0, 1] */
  int64_t top_k;      /* 0: all */
  uint64_t seed;
  double repetition_penalty; /* 1: none */
  double presence_penalty, frequency_penalty;
};

/* Scratch of a sampler, for one vocabulary; placed in caller's memory. */
struct ommai_sampler_scratch {
  int32_t *order;  /* [vocab] */
  float *adjusted; /* [vocab] */
};
size_t ommai_sampler_scratch_size(int64_t vocab_size);
struct ommai_sampler_scratch ommai_sampler_scratch_place(void *memory, int64_t vocab_size);

/* What penalties look at: how often each token stands in the answer, and whether it stands in the prompt. */
struct ommai_token_counts {
  const int32_t *answer; /* [vocab] */
  const bool *prompt;    /* [vocab] */
};

/* The next token. step counts the tokens drawn so far: the draw depends on the seed and the step alone. counts may be NULL when no
  * penalty is set. Tokens in banned[n_banned] are never chosen. */
int32_t ommai_sample(const struct ommai_sampler_settings *settings, const float *logits, int64_t vocab_size, int64_t step,
                     const struct ommai_token_counts *counts, const int32_t *banned, size_t n_banned,
                     const struct ommai_sampler_scratch *scratch);

/* log(sum(exp(logits))), summed in double. */
double ommai_log_sum_exp(const float *logits, int64_t n);

/* The n likeliest tokens in falling order into tokens[n]; n at most vocab_size. */
void ommai_top_tokens(const float *logits, int64_t vocab_size, int32_t *tokens, int64_t n,
                      const struct ommai_sampler_scratch *scratch);

#endif
