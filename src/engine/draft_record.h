/* What a sequence keeps of the tokens that were guessed for it; draft.h guesses. */
#pragma once

#include <omma/omma.h>
#include <stdint.h>

/* Whether guesses have paid lately. */
struct ommai_draft_record {
  float share;   /* of guessed tokens that were right, lately */
  int64_t pause; /* steps without guesses yet to come */
};

/* What a draft head guessed after the answer's first `after` tokens. */
struct ommai_head_guess {
  int64_t after, n;
  int32_t tokens[OMMA_MAX_GUESSED_TOKENS];
};
