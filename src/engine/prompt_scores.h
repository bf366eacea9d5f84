/* Log-probabilities of a prompt's tokens: the logits of each row of a chunk score the token after
 * it. Rows go through the output layer a few at a time, as decode steps do, into the logits of the
 * next step's rows: no row of the vocabulary's length is kept. One thread. */
#ifndef OMMAI_ENGINE_PROMPT_SCORES_H
#define OMMAI_ENGINE_PROMPT_SCORES_H

#include "engine/sequence.h"

/* Whether prompt tokens of the sequence are still to be scored; then none of its rows may come from
 * the pages of earlier prompts. */
bool ommai_prompt_scores_wanted(const struct ommai_sequence *sequence);

/* Scores the tokens after the chunk's rows from *n_done on, whose residuals are `rows` [n_rows,
 * hidden] at positions first .. of the prompt, and notifies the client, up to OMMAI_SCORED_ROWS of
 * them; *n_done goes on to n_rows. Errors: FORMAT (logits that are not finite), MEMORY. */
#define OMMAI_SCORED_ROWS 8
enum omma_status ommai_prompt_scores_advance(struct ommai_sequence *sequence, const float *rows, int64_t first, int64_t n_rows,
                                             int64_t *n_done, struct omma_error *error);

#endif
