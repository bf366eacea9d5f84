/* One answer of the model: asked for, shown while it comes, collected. */
#pragma once

#include <omma/omma.h>

#include "base/text_buffer.h"
#include "cli/chat/conversation.h"

struct ommai_answer_options {
  struct omma_sampling sampling;
  bool stream;  /* write the text to stdout as it comes */
  bool details; /* collect token ids and log-probabilities */
};

struct ommai_answer {
  char *text;
  size_t text_size;
  struct ommai_text prompt_ids, ids, logprobs; /* with `details`: entries of JSON lists */
  struct omma_result result;                   /* stop_string is NULL */
  bool interrupted;                            /* by Ctrl-C; the text so far is there */
  /* it failed because the prompt does not fit: `error` states it */
  bool too_long;
  struct omma_error error;
  double seconds; /* from the question to the end */
};

/* Asks and waits. Returns an exit code: OMMAI_EXIT_DONE also when the answer was interrupted. What
 * was wrong has been reported, but for too_long. Release in every case. */
int ommai_answer(struct omma_model *model, struct omma_engine *engine, const struct ommai_conversation *conversation,
                 const struct ommai_answer_options *options, struct ommai_answer *answer);

/* Notes what an answer took: tokens and seconds. decode_image: seconds that reading and decoding
 * its images took before. */
void ommai_answer_note(const struct ommai_answer *answer, double decode_image);

void ommai_answer_release(struct ommai_answer *answer);
