/* One request on its way through the engine: pictures, prompt, answer; a step at a time. */
#ifndef OMMAI_ENGINE_SEQUENCE_H
#define OMMAI_ENGINE_SEQUENCE_H

#include "engine/answer_text.h"
#include "engine/encode_batch.h"
#include "engine/encode_job.h"
#include "engine/request.h"
#include "engine/resources.h"
#include "language/prefill.h"

struct ommai_sequence {
  struct ommai_resources *resources;
  const struct omma_request *request;
  struct omma_callbacks callbacks;
  enum omma_stage stage;
  int64_t stage_started; /* ommai_clock_ns */

  struct ommai_encoded_picture **encoded; /* [n_pictures] the tower's outputs, a user of each; NULL behind a failed one */
  struct ommai_encode_batch batch;        /* what has to be encoded first */
  struct ommai_encode_job encode;

  struct ommai_prompt_row *rows; /* [n_tokens] */
  int32_t *pages;                /* [max_pages] */
  int64_t n_pages, max_pages;
  int64_t n_prefilled;
  struct ommai_prefill *prefill; /* chunk in progress; NULL between chunks */

  int64_t n_generated;
  int32_t last_token;
  struct ommai_answer_text answer;
  struct omma_result result;
};

/* Prepares a sequence: everything it allocates beside KV pages, it allocates here. Errors: MEMORY. */
enum omma_status ommai_sequence_start(struct ommai_resources *resources, const struct omma_request *request,
                                      const struct omma_callbacks *callbacks, struct ommai_sequence *sequence,
                                      struct omma_error *error);
/* Takes pictures of a request that waits along through the tower; before the first step. False when no more can be taken. */
bool ommai_sequence_invite(struct ommai_sequence *sequence, const struct omma_request *request);
/* Gives everything back; callable at any point after a start, failed ones included. */
void ommai_sequence_free(struct ommai_sequence *sequence);

/* One step: a slice of the tower or of the prompt, or one token. *done when the answer is complete; sequence->result then says how.
 * Calls on_progress and on_token. Errors: MEMORY, INTERNAL. */
enum omma_status ommai_sequence_step(struct ommai_sequence *sequence, bool *done, struct omma_error *error);

#endif
