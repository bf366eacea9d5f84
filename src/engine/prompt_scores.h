/* Log-probabilities of a prompt's tokens: each row of a chunk scores the token after it. A few rows
 * at a time, so that no row of the vocabulary's length is kept. One thread. */
#pragma once

#include "engine/sequence.h"

#define OMMAI_SCORED_ROWS 8

/* Scores the tokens after the chunk's rows from *n_done on, which stand at positions first .. of
 * the prompt, and notifies the client, up to OMMAI_SCORED_ROWS of them; *n_done goes on to n_rows.
 * Errors: FORMAT (logits that are not finite), MEMORY. */
enum omma_status ommai_prompt_scores_advance(struct ommai_sequence *sequence, int64_t first, int64_t n_rows, int64_t *n_done,
                                             struct omma_error *error);
