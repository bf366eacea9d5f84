/* Which tokens an answer may have: biases, a list of allowed tokens, and words that it must not
 * hold. Read-only once taken. */
#pragma once

#include <omma/omma.h>

#include "model/model.h"

#define OMMAI_MAX_BIAS 100.0f
#define OMMAI_MAX_BAD_WORD_BYTES 1024

/* Zero-initialised: no rules. */
struct ommai_token_rules {
  /* [n_biases], of a capacity of bias_room, in rising order of tokens */
  struct omma_logit_bias *biases;
  size_t n_biases, bias_room;
  uint32_t *allowed; /* [n_allowed_words], a bit for each token; NULL: all */
  size_t n_allowed_words;
  int32_t *bad_tokens; /* the bad words' tokens, one word after the other; a capacity of bad_room */
  size_t bad_room;
  size_t bad_ends[OMMA_MAX_BAD_WORDS]; /* [n_bad_words], of each */
  size_t n_bad_words;
};

/* Checks the rules of the settings and copies them; free them in any case. Errors: ARGUMENT with
 * the field's name, MEMORY. */
enum omma_status ommai_token_rules_take(struct ommai_token_rules *rules, const struct omma_model *model,
                                        const struct omma_sampling *sampling, struct omma_error *error);
void ommai_token_rules_free(struct ommai_token_rules *rules, const struct omma_allocator *allocator);

/* The tokens that would complete a bad word after the answer generated[n_generated], into
 * banned[OMMA_MAX_BAD_WORDS]; returns how many. */
size_t ommai_token_rules_ban(const struct ommai_token_rules *rules, const int32_t *generated, int64_t n_generated,
                             int32_t *banned);
