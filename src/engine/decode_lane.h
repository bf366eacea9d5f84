/* Generated tokens: a step gives every decoding sequence its next one. One thread. */
#ifndef OMMAI_ENGINE_DECODE_LANE_H
#define OMMAI_ENGINE_DECODE_LANE_H

#include "engine/resources.h"
#include "engine/sequence.h"
#include "language/decode.h"

/* Generated tokens of one sequence that are computed again together. */
#define OMMAI_REPLAY_ROWS 16

struct ommai_decode_lane {
  struct ommai_resources *resources;
  struct ommai_decode_row *rows;          /* [max_rows] */
  struct ommai_sampler_row *sampler_rows; /* [max_sequences] */
  struct ommai_sequence **sequences;      /* [max_sequences], of the step in progress */
  int32_t *banned;                        /* [max_sequences, OMMAI_SEQUENCE_MAX_BANNED] */
};

/* Bytes of its tables. */
size_t ommai_decode_lane_bytes(const struct ommai_engine_sizes *sizes);
/* Errors: MEMORY; what was made stays for free. */
enum omma_status ommai_decode_lane_init(struct ommai_decode_lane *lane, struct ommai_resources *resources,
                                        struct omma_error *error);
void ommai_decode_lane_free(struct ommai_decode_lane *lane);

/* Runs the last tokens of lane->sequences[0 .. n) (all in stage DECODE, their pages in place) and draws the next ones into
 * lane->sampler_rows, which the caller hands to the sequences. Errors: MEMORY, INTERNAL. */
enum omma_status ommai_decode_lane_step(struct ommai_decode_lane *lane, int64_t n, struct omma_error *error);

/* The end of a prompt: draws the first token from the last row's residual [hidden] into lane->sampler_rows[0]. */
enum omma_status ommai_decode_lane_first(struct ommai_decode_lane *lane, struct ommai_sequence *sequence, const float *residual,
                                         struct omma_error *error);

/* After a preemption: up to OMMAI_REPLAY_ROWS generated tokens through decode again, whose pages are in place. */
enum omma_status ommai_decode_lane_replay(struct ommai_decode_lane *lane, struct ommai_sequence *sequence,
                                          struct omma_error *error);
/* Tokens that a replay would take next; 0: all keys and values are there. */
int64_t ommai_decode_lane_replay_count(const struct ommai_sequence *sequence);

#endif
