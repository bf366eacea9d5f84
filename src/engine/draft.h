/* The next tokens guessed, to be checked together with the last token in one decode step: from what
 * the prompt and the answer contain (prompt lookup), by a draft head, or from what the answer's
 * grammar leaves. A guess changes no token and no log-probability, it only saves steps.
 *
 * Source: prompt lookup decoding, as vLLM's method "ngram": the last tokens are looked for further
 * up, the longest run first. */
#pragma once

#include <stdint.h>

#include "engine/draft_record.h"

struct ommai_sequence;

/* Guesses up to `max_tokens` tokens that follow the sequence's last one; returns how many. 0 too
 * while guesses have not paid: when less than a quarter of the tokens were right, for 32 steps. */
int64_t ommai_draft_guess(struct ommai_sequence *sequence, int64_t max_tokens, int32_t *tokens);

/* The same where the grammar leaves one way to go on. */
int64_t ommai_draft_force(struct ommai_sequence *sequence, int64_t max_tokens, int32_t *tokens);

/* What the draft head has guessed after the last token, likewise. */
int64_t ommai_draft_of_head(struct ommai_sequence *sequence, int64_t max_tokens, int32_t *tokens);

/* How many tokens the draft head is to guess after the last one; 0 too while its guesses have not
 * paid. */
int64_t ommai_draft_head_wanted(struct ommai_sequence *sequence);

/* Guesses that have a place in the pages that are there, and in the answer; may be negative. */
int64_t ommai_draft_room(const struct ommai_sequence *sequence);

/* n_right of n_guessed tokens were right. */
void ommai_draft_record_hits(struct ommai_draft_record *record, int64_t n_guessed, int64_t n_right);
