#include "engine/prompt_scores.h"

#include "base/checked.h"
#include "base/error.h"
#include "language/decode.h"

/* No choice is made: the tokens are given. */
static const struct ommai_sampler_settings given = {.top_p = 1, .repetition_penalty = 1};

bool ommai_prompt_scores_wanted(const struct ommai_sequence *sequence) {
  return sequence->request->prompt_logprobs && sequence->n_scored + 1 < (int64_t)sequence->request->n_tokens;
}

static void report_score(struct ommai_sequence *sequence, int64_t index, const struct ommai_sampler_row *row) {
  struct omma_top_logprob top[OMMA_MAX_TOP_LOGPROBS];
  for (int i = 0; i < row->n_top; i++) top[i] = (struct omma_top_logprob){row->top[i].token, row->top[i].logprob};
  const struct omma_prompt_token_event event = {.index = index,
                                                .token = row->token,
                                                .logprob = row->logprob,
                                                .rank = row->rank,
                                                .top = row->n_top ? top : NULL,
                                                .n_top = row->n_top};
  if (sequence->callbacks.on_prompt_token) sequence->callbacks.on_prompt_token(sequence->callbacks.context, &event);
}

/* The rows at positions at .. at + n - 1, each of which has a token after it. */
static enum omma_status score(struct ommai_sequence *sequence, const float *rows, int64_t at, int64_t n,
                              struct omma_error *error) {
  struct ommai_resources *resources = sequence->resources;
  const struct omma_request *request = sequence->request;
  struct ommai_sampler_row scored[OMMAI_SCORED_ROWS];
  int64_t vocab = request->model->config.text.vocab_size;
  OMMAI_TRY(ommai_decode_logits(&request->model->network.decoder, rows, n, resources->decode_workspace,
                                resources->sizes.decode_workspace, resources->team_interface, resources->logits, error));
  for (int64_t i = 0; i < n; i++) {
    scored[i] = (struct ommai_sampler_row){.settings = &given,
                                           .logits = resources->logits + i * vocab,
                                           .is_given = true,
                                           .token = request->ids[at + i + 1],
                                           .wants_logprob = true,
                                           .n_top = request->n_prompt_logprobs};
  }
  ommai_sampler_run(resources->sampler, scored, n, resources->team_interface);
  for (int64_t i = 0; i < n; i++) {
    if (!scored[i].finite) return ommai_sequence_fail_not_finite(sequence, error);
    report_score(sequence, at + i + 1, &scored[i]);
    sequence->n_scored = at + i + 1;
  }
  return OMMA_OK;
}

enum omma_status ommai_prompt_scores_advance(struct ommai_sequence *sequence, const float *rows, int64_t first, int64_t n_rows,
                                             int64_t *n_done, struct omma_error *error) {
  int64_t hidden = sequence->request->model->config.text.hidden_size, last = (int64_t)sequence->request->n_tokens - 1;
  *n_done = ommai_max_i64(*n_done, sequence->n_scored - first); /* reported before a preemption */
  int64_t max_rows = ommai_min_i64(OMMAI_SCORED_ROWS, sequence->resources->sizes.max_sequences);
  int64_t n = ommai_min_i64(max_rows, ommai_min_i64(n_rows, last - first) - *n_done);
  if (n > 0) OMMAI_TRY(score(sequence, rows + *n_done * hidden, first + *n_done, n, error));
  *n_done = n > 0 ? *n_done + n : n_rows;
  return OMMA_OK;
}
