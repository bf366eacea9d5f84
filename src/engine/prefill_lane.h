/* Prompts: at most one chunk of one sequence at a time. One thread. */
#pragma once

#include "engine/resources.h"
#include "engine/sequence.h"

struct ommai_prefill_lane {
  struct ommai_resources *resources;
  struct ommai_sequence *sequence; /* whose chunk is in progress; NULL: none */
  int64_t n_rows;                  /* of the chunk */
  int64_t n_scored;                /* of these, where the prompt's log-probabilities are wanted */
};

/* Prompt tokens up to which the next chunk of a sequence in stage PREFILL computes: as many
 * positions need pages. */
int64_t ommai_prefill_lane_end(const struct ommai_prefill_lane *lane, const struct ommai_sequence *sequence);

/* Begins that chunk. No other is in progress. Errors: MEMORY. */
enum omma_status ommai_prefill_lane_begin(struct ommai_prefill_lane *lane, struct ommai_sequence *sequence,
                                          struct omma_error *error);

/* Goes on for about `ns` nanoseconds; log-probabilities of the prompt are reported as its rows are
 * there. *done: the chunk is complete, its full pages are published, and none is in progress any
 * more; its last row may be drawn from until the next chunk begins. Errors: INTERNAL; FORMAT,
 * MEMORY. */
enum omma_status ommai_prefill_lane_advance(struct ommai_prefill_lane *lane, int64_t ns, bool *done, struct omma_error *error);

/* Gives up the chunk in progress if it is the sequence's. */
void ommai_prefill_lane_forget(struct ommai_prefill_lane *lane, const struct ommai_sequence *sequence);
