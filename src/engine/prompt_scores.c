#include "engine/prompt_scores.h"

#include "base/checked.h"
#include "base/error.h"

/* No choice is made: the tokens are given. */
static const struct ommai_sampler_settings given = {.top_p = 1, .repetition_penalty = 1};

static void report_score(struct ommai_sequence *sequence, int64_t index, const struct ommai_draw *draw) {
  const struct omma_prompt_token_event event = {.index = index,
                                                .token = draw->token,
                                                .logprob = draw->logprob,
                                                .rank = draw->rank,
                                                .top = draw->n_top ? draw->top : NULL,
                                                .n_top = draw->n_top};
  if (sequence->callbacks.on_prompt_token) sequence->callbacks.on_prompt_token(sequence->callbacks.context, &event);
}

/* The chunk's rows from `row` on, at positions at .. at + n - 1, each of which has a token after
 * it. */
static enum omma_status score(struct ommai_sequence *sequence, int64_t row, int64_t at, int64_t n, struct omma_error *error) {
  struct ommai_runner *runner = sequence->resources->runner;
  const struct omma_request *request = sequence->request;
  struct ommai_draw draws[OMMAI_SCORED_ROWS];
  for (int64_t i = 0; i < n; i++) {
    draws[i] = (struct ommai_draw){.slot = sequence->slot,
                                   .row = row + i,
                                   .settings = &given,
                                   .is_given = true,
                                   .token = request->ids[at + i + 1],
                                   .wants_logprob = true,
                                   .n_top = request->n_prompt_logprobs};
  }
  OMMAI_TRY(runner->functions->draw(runner, OMMAI_DRAW_FROM_CHUNK, draws, n, error));
  for (int64_t i = 0; i < n; i++) {
    if (!draws[i].finite) return ommai_sequence_fail_not_finite(sequence, error);
    report_score(sequence, at + i + 1, &draws[i]);
    sequence->n_scored = at + i + 1;
  }
  return OMMA_OK;
}

enum omma_status ommai_prompt_scores_advance(struct ommai_sequence *sequence, int64_t first_row, int64_t n_rows,
                                             int64_t *n_done, struct omma_error *error) {
  int64_t first = sequence->n_prefilled, last = (int64_t)sequence->request->n_tokens - 1;
  *n_done = ommai_max_i64(*n_done, sequence->n_scored - first); /* reported before a preemption */
  int64_t n = ommai_min_i64(OMMAI_SCORED_ROWS, ommai_min_i64(n_rows, last - first) - *n_done);
  if (n > 0) OMMAI_TRY(score(sequence, first_row + *n_done, first + *n_done, n, error));
  *n_done = n > 0 ? *n_done + n : n_rows;
  return OMMA_OK;
}
