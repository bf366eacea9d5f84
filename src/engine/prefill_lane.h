/* Prompts: at most one chunk at a time, of one sequence or of several whose prompts are short. One
 * thread. */
#pragma once

#include "engine/resources.h"
#include "engine/sequence.h"

/* A sequence's part of the chunk. */
struct ommai_prefill_part {
  struct ommai_sequence *sequence; /* NULL: it has taken its rows, or has left */
  int64_t first_row, n_rows;
  int64_t n_scored; /* of these, where the prompt's log-probabilities are wanted */
};

struct ommai_prefill_lane {
  struct ommai_resources *resources;
  int64_t n_parts; /* 0: no chunk is in progress */
  struct ommai_prefill_part parts[OMMAI_MAX_CHUNK_PIECES];
};

/* The number of prompt tokens that a sequence in stage PREFILL will have computed after a chunk
 * that it begins. That many positions need pages. */
int64_t ommai_prefill_lane_end(const struct ommai_prefill_lane *lane, const struct ommai_sequence *sequence);

/* Begins a chunk with that part of `first`, whose pages are in place. Where rows are left, those
 * of `sequences` (n, in order) that wait for their prompts join with whole rests, or, unless
 * somebody waits for a first token (hurry), with what fits. No other chunk is in progress. Errors:
 * MEMORY, of all that have a part. */
enum omma_status ommai_prefill_lane_begin(struct ommai_prefill_lane *lane, struct ommai_sequence *first,
                                          struct ommai_sequence *const *sequences, int64_t n, bool hurry,
                                          struct omma_error *error);

/* Goes on for about `ns` nanoseconds. *done: every part's rows are there, and may be drawn from
 * until the next chunk begins. Errors: INTERNAL, of all that have a part. */
enum omma_status ommai_prefill_lane_advance(struct ommai_prefill_lane *lane, int64_t ns, bool *done, struct omma_error *error);

/* Of a chunk that is done: reports log-probabilities of a part's prompt until about `end_ns` by the
 * runner's clock. *done: there are no more. Errors: FORMAT, MEMORY, of that sequence. */
enum omma_status ommai_prefill_lane_score(struct ommai_prefill_part *part, int64_t end_ns, bool *done,
                                          struct omma_error *error);

/* Of a chunk that is done: the sequence has its part, whose full pages are published. */
struct ommai_sequence *ommai_prefill_lane_take(struct ommai_prefill_lane *lane, struct ommai_prefill_part *part);

/* The sequence leaves the chunk in progress if it has a part of it; the others go on. */
void ommai_prefill_lane_forget(struct ommai_prefill_lane *lane, const struct ommai_sequence *sequence);
