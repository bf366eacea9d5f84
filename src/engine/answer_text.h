/* The text of an answer as it grows: whole characters, and nothing that may yet turn out to be the
 * beginning of a stop string or of a mark of reasoning. Marks are taken out. */
#pragma once

#include "request/reasoning_state.h"
#include "request/request.h"
#include "text/detokenizer.h"

/* Blanks before a begin mark. */
#define OMMAI_ANSWER_MAX_BLANKS 64
/* Held back: less than the longest stop string, or blanks and less than a mark; new: what one token
 * writes. */
#define OMMAI_ANSWER_CAPACITY (OMMAI_REQUEST_MAX_STOP_BYTES + 2 * OMMAI_DETOKENIZER_MAX_OUTPUT + 8)

struct ommai_answer_text {
  const struct omma_request *request;
  struct ommai_detokenizer detokenizer;
  char held[OMMAI_ANSWER_CAPACITY];
  size_t n_held, n_ready; /* the first n_ready bytes of held may be shown */
  struct ommai_reasoning_state reasoning;
  size_t reasoning_end; /* where it ends in held, once it is over; all bytes before are ready */
  int stop_index;       /* of the stop string that was met, or -1 */
};

void ommai_answer_text_init(struct ommai_answer_text *answer, const struct omma_request *request);

/* Drops the n_ready bytes that were shown. */
void ommai_answer_text_shown(struct ommai_answer_text *answer);

/* The same, and takes one more token. may_stop false: no stop string may end with this token
 * yet, though one may begin. */
void ommai_answer_text_push(struct ommai_answer_text *answer, int32_t token, bool may_stop);

/* How many of the n_ready bytes, from the first on, belong to the reasoning. */
size_t ommai_answer_text_reasoning(const struct ommai_answer_text *answer);

/* Ends the answer: everything that is held back becomes ready, an unfinished character as U+FFFD.
 * Keeps n_ready bytes of the last push in front. */
void ommai_answer_text_finish(struct ommai_answer_text *answer);
