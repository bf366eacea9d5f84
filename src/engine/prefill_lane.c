#include "engine/prefill_lane.h"

#include "base/checked.h"
#include "base/debug.h"
#include "base/error.h"
#include "engine/prompt_scores.h"

int64_t ommai_prefill_lane_end(const struct ommai_prefill_lane *lane, const struct ommai_sequence *sequence) {
  return ommai_min_i64(sequence->n_prefilled + lane->resources->sizes.limits.prefill_chunk,
                       (int64_t)sequence->request->n_tokens);
}

enum omma_status ommai_prefill_lane_begin(struct ommai_prefill_lane *lane, struct ommai_sequence *sequence,
                                          struct omma_error *error) {
  struct ommai_resources *resources = lane->resources;
  int64_t first = sequence->n_prefilled;
  lane->n_rows = ommai_prefill_lane_end(lane, sequence) - first;
  lane->n_scored = 0;
  OMMAI_DEBUG(&resources->model->log, "prefill: request %llu: tokens %lld to %lld of %zu", (unsigned long long)sequence->id,
              (long long)first, (long long)(first + lane->n_rows), sequence->request->n_tokens);
  ommai_sequence_begin_chunk(sequence, first + lane->n_rows);
  const struct ommai_prompt_piece piece = {.slot = sequence->slot,
                                           .first = first,
                                           .n_tokens = lane->n_rows,
                                           .tokens = sequence->request->tokens + first,
                                           .images = sequence->image_rows,
                                           .pages = ommai_held_state_rows(&sequence->state, resources->pool, OMMAI_ROW_BEGIN)};
  OMMAI_TRY(resources->runner->functions->prompt_begin(resources->runner, &piece, 1, error));
  lane->sequence = sequence;
  return OMMA_OK;
}

/* At least a few rows, and more until `end_ns`. */
static enum omma_status score(struct ommai_prefill_lane *lane, int64_t end_ns, struct omma_error *error) {
  struct ommai_sequence *sequence = lane->sequence;
  do {
    OMMAI_TRY(ommai_prompt_scores_advance(sequence, sequence->n_prefilled, lane->n_rows, &lane->n_scored, error));
  } while (lane->n_scored < lane->n_rows && ommai_resources_now(lane->resources) < end_ns);
  return OMMA_OK;
}

enum omma_status ommai_prefill_lane_advance(struct ommai_prefill_lane *lane, int64_t ns, bool *done, struct omma_error *error) {
  struct ommai_runner *runner = lane->resources->runner;
  struct ommai_sequence *sequence = lane->sequence;
  int64_t end_ns = ommai_resources_now(lane->resources) + ns;
  OMMAI_TRY(runner->functions->prompt_advance(runner, ns, done, error));
  if (*done && ommai_sequence_wants_scores(sequence)) {
    OMMAI_TRY(score(lane, end_ns, error));
    *done = lane->n_scored == lane->n_rows;
  }
  if (!*done) return OMMA_OK;
  ommai_sequence_publish(sequence, sequence->n_prefilled + lane->n_rows);
  lane->sequence = NULL;
  return OMMA_OK;
}

void ommai_prefill_lane_forget(struct ommai_prefill_lane *lane, const struct ommai_sequence *sequence) {
  if (lane->sequence == sequence) lane->sequence = NULL;
}
