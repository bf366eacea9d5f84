/* Images through the tower: at most one pass at a time, for sequences that wait for images and for
 * callers of omma_encode. One thread. */
#pragma once

#include "engine/encode_call.h"
#include "engine/resources.h"
#include "engine/sequence.h"

struct ommai_encode_lane {
  struct ommai_resources *resources;
  bool running;                    /* a pass is in progress */
  struct ommai_encode_call *calls; /* waiting callers, oldest first */
  /* the call that the pass is for; NULL: the pass is for sequences */
  struct ommai_encode_call *running_call;
  int64_t n_in_pass, n_patches;
  struct ommai_encoded_image *encoded[OMMAI_MAX_PASS_IMAGES]; /* a user of each */
  struct ommai_image_rows *rows[OMMAI_MAX_PASS_IMAGES];       /* theirs */
  struct ommai_prepared_image images[OMMAI_MAX_PASS_IMAGES];  /* an owner of each one's pixels */
};

void ommai_encode_lane_init(struct ommai_encode_lane *lane, struct ommai_resources *resources);
/* Gives up the pass in progress. Calls must be over. */
void ommai_encode_lane_free(struct ommai_encode_lane *lane);

void ommai_encode_lane_add_call(struct ommai_encode_lane *lane, struct ommai_encode_call *call);
/* Takes the oldest call out, with the pass that is for it; NULL: there is none. */
struct ommai_encode_call *ommai_encode_lane_take_call(struct ommai_encode_lane *lane);

/* Begins a pass for the oldest that waits: a caller, or the first sequence (of n, in order) in
 * stage ENCODE. Images of other sequences join the pass: few if somebody waits for a first token
 * (hurry) or if they are encoded ahead, else up to the patch budget. No pass is in progress, and
 * somebody waits. Errors (MEMORY, LIMIT) concern all whose images are in the pass. */
enum omma_status ommai_encode_lane_begin(struct ommai_encode_lane *lane, struct ommai_sequence *const *sequences, int64_t n,
                                         bool hurry, struct omma_error *error);

/* Goes on with the pass for about `ns` nanoseconds. *done: its outputs are complete. Errors:
 * INTERNAL. */
enum omma_status ommai_encode_lane_advance(struct ommai_encode_lane *lane, int64_t ns, bool *done, struct omma_error *error);

/* Whether an image of the sequence is in the pass. */
bool ommai_encode_lane_serves(const struct ommai_encode_lane *lane, const struct ommai_sequence *sequence);
/* Ends the pass, complete or not. */
void ommai_encode_lane_end(struct ommai_encode_lane *lane, bool complete);
/* Ends the pass if nobody waits for any of its images any more. */
void ommai_encode_lane_forget(struct ommai_encode_lane *lane);

/* Work of the pass done and in all; for progress. */
void ommai_encode_lane_progress(const struct ommai_encode_lane *lane, int64_t *done, int64_t *total);
