/* Plain values about tokens that pass between requests, the engine and what computes: a token of a
 * prompt, and the choice of the next one. */
#pragma once

#include <omma/omma.h>

/* A token of a prompt: where it stands, and for image tokens which row of which image it is. */
struct ommai_prompt_token {
  int32_t token;
  int32_t position[3];
  int32_t image; /* -1: text */
  int32_t image_row;
};

struct ommai_sampler_settings {
  double temperature; /* 0: greedy */
  double top_p;       /* (0, 1] */
  double min_p;       /* [0, 1] */
  int64_t top_k;      /* 0: all */
  uint64_t seed;
  double repetition_penalty; /* 1: none */
  double presence_penalty, frequency_penalty;
};

/* Whether the choice depends on the tokens of the prompt and the answer so far. */
static inline bool ommai_sampler_has_penalties(const struct ommai_sampler_settings *settings) {
  return settings->repetition_penalty != 1 || settings->presence_penalty != 0 || settings->frequency_penalty != 0;
}

/* The choice of a token after one computed row: what is asked, and the answer. */
struct ommai_draw {
  int64_t slot; /* of the sequence, and the row: as runner/runner.h counts them */
  int64_t row;
  const struct ommai_sampler_settings *settings;
  /* tokens drawn so far: the draw depends on the seed and the step alone */
  int64_t step;
  const int32_t *banned; /* [n_banned], never chosen */
  size_t n_banned;
  /* a bit for each token, in words of 32: the others are never chosen; NULL: all */
  const uint32_t *allowed;
  const struct omma_logit_bias *biases; /* [n_biases] finite, in rising order of tokens */
  size_t n_biases;
  bool is_given; /* `token` is, nothing is chosen, and its rank is wanted */
  bool wants_logprob;
  int n_top; /* at most OMMA_MAX_TOP_LOGPROBS */

  bool finite;   /* false: NaN or infinity among the logits, and nothing else below is set */
  int32_t token; /* -1: none is left to choose, and nothing below is set */
  int64_t rank;  /* of a given token: how many have its logit or a larger one */
  float logprob; /* of the token, natural logarithm */
  struct omma_top_logprob top[OMMA_MAX_TOP_LOGPROBS]; /* [n_top], the likeliest first */
};
