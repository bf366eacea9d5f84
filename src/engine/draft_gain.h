/* Whether drafts of a draft head pay: what a token takes in steps with them and without, as
 * measured, for each batch size. A step of many sequences is bound by arithmetic, and rows of draft
 * tokens then cost as much as others; with few, they share what is read. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Batches of 1, 2, 3 to 4, 5 to 8, .. 1,024 sequences. */
enum { OMMAI_DRAFT_GAIN_SIZES = 11 };

/* Sums over steps, of which earlier ones count for less: a token's time is that of the steps over
 * their tokens. The mean over steps of time by tokens would be larger, as drafts are not equally
 * often right. */
struct ommai_draft_rate {
  double ns, tokens, steps;
  int64_t n; /* steps in all */
  bool anew; /* the next step counts for all that came before */
};

/* Zero-initialised: nothing was measured. */
struct ommai_draft_gain {
  struct {
    struct ommai_draft_rate with, without;
    int64_t since;       /* steps since the slower way was tried again */
    bool retries_drafts; /* which one that is, while it is */
  } sizes[OMMAI_DRAFT_GAIN_SIZES];
};

/* A step of n_sequences took `ns` for n_tokens, what its drafts had taken included. */
void ommai_draft_gain_record(struct ommai_draft_gain *gain, int64_t n_sequences, bool drafted, int64_t ns, int64_t n_tokens);

/* Whether the next step of n_sequences is to have drafts: the faster way, and in 4 of 260 steps
 * the other, so that a change is seen. The first steps try both. */
bool ommai_draft_gain_choose(struct ommai_draft_gain *gain, int64_t n_sequences);

/* Tokens a second with drafts over those without; 0: not known. */
double ommai_draft_gain_of(const struct ommai_draft_gain *gain, int64_t n_sequences);
