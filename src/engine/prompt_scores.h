/* Log-probabilities of a prompt's tokens: each row of a chunk scores the token after it. A few rows
 * at a time, so that no row of the vocabulary's length is kept. One thread. */
#pragma once

#include "engine/sequence.h"

#define OMMAI_SCORED_ROWS 8

/* The sequence's next n_rows prompt tokens have the rows of the chunk from first_row on. Scores the
 * tokens after those from *n_done on, up to OMMAI_SCORED_ROWS of them, and notifies the client;
 * *n_done goes on to n_rows. Errors: FORMAT (logits that are not finite), MEMORY. */
enum omma_status ommai_prompt_scores_advance(struct ommai_sequence *sequence, int64_t first_row, int64_t n_rows,
                                             int64_t *n_done, struct omma_error *error);
