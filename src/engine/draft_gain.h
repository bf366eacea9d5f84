/* Whether guesses of a draft head pay: what a token takes in steps with them and without, as
 * measured, for each batch size. A step of many sequences is bound by arithmetic, and guessed rows
 * then cost as much as others; with few, they share what is read. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Batches of 1, 2, 3 to 4, 5 to 8, .. 1,024 sequences. */
enum { OMMAI_DRAFT_GAIN_SIZES = 11 };

struct ommai_draft_rate {
  double ns; /* of a token, a running mean */
  int64_t n; /* steps in it */
};

/* Zero-initialised: nothing was measured. */
struct ommai_draft_gain {
  struct {
    struct ommai_draft_rate with, without;
    int64_t since; /* steps since the slower way was tried */
    bool again;    /* it is tried in the next step, which counts for all that came before */
  } sizes[OMMAI_DRAFT_GAIN_SIZES];
};

/* A step of n_sequences took `ns` for n_tokens, what its guesses had taken included. */
void ommai_draft_gain_record(struct ommai_draft_gain *gain, int64_t n_sequences, bool guessed, int64_t ns, int64_t n_tokens);

/* Whether the next step of n_sequences is to have guesses: the faster way, and one in 64 the other,
 * so that a change is seen. The first steps try both. */
bool ommai_draft_gain_choose(struct ommai_draft_gain *gain, int64_t n_sequences);

/* Tokens a second with guesses over those without; 0: not known. */
double ommai_draft_gain_of(const struct ommai_draft_gain *gain, int64_t n_sequences);
