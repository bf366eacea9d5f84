/* Drafts of the next tokens, to be checked together with the last token in one decode step: from
 * what the prompt and the answer contain (prompt lookup), by a draft head, or from what the
 * answer's grammar leaves. A draft changes no token and no log-probability, it only saves steps.
 *
 * Source: prompt lookup decoding, as vLLM's method "ngram": the last tokens are looked for further
 * up, the longest run first. */
#pragma once

#include <stdint.h>

#include "engine/draft_record.h"

struct ommai_sequence;

/* Drafts up to `max_tokens` tokens that follow the sequence's last one, by prompt lookup; returns
 * how many. Drafts pause (0) for 32 steps when less than a quarter of their tokens were right. */
int64_t ommai_draft_look_up(struct ommai_sequence *sequence, int64_t max_tokens, int32_t *tokens);

/* The same where the grammar leaves one way to go on. */
int64_t ommai_draft_force(struct ommai_sequence *sequence, int64_t max_tokens, int32_t *tokens);

/* What the draft head has drafted after the last token, likewise. */
int64_t ommai_draft_of_head(struct ommai_sequence *sequence, int64_t max_tokens, int32_t *tokens);

/* How many tokens the draft head is to draft after the last one; 0 while its drafts pause. */
int64_t ommai_draft_head_wanted(struct ommai_sequence *sequence);

/* Draft tokens that have a place in the pages that are there, and in the answer; may be
 * negative. */
int64_t ommai_draft_room(const struct ommai_sequence *sequence);

/* n_right of n_drafted tokens were right. */
void ommai_draft_record_hits(struct ommai_draft_record *record, int64_t n_drafted, int64_t n_right);
