/* The text of an answer as it grows: whole characters, and nothing that may yet turn out to be the beginning of a stop string. */
#ifndef OMMAI_ENGINE_ANSWER_TEXT_H
#define OMMAI_ENGINE_ANSWER_TEXT_H

#include "engine/request.h"
#include "text/detokenizer.h"

/* Held back: less than the longest stop string; new: what one token writes. */
#define OMMAI_ANSWER_CAPACITY (OMMAI_REQUEST_MAX_STOP_BYTES + 2 * OMMAI_DETOKENIZER_MAX_OUTPUT + 8)

struct ommai_answer_text {
  const struct omma_request *request;
  struct ommai_detokenizer detokenizer;
  char held[OMMAI_ANSWER_CAPACITY];
  size_t n_held, n_ready; /* the first n_ready bytes of held may be shown */
  int stop_index;         /* of the stop string that was met, or -1 */
};

void ommai_answer_text_init(struct ommai_answer_text *answer, const struct omma_request *request);

/* Drops the n_ready bytes that were shown. */
void ommai_answer_text_shown(struct ommai_answer_text *answer);

/* The same, and takes one more token. may_stop false: stop strings are not looked for yet. */
void ommai_answer_text_push(struct ommai_answer_text *answer, int32_t token, bool may_stop);

/* Ends the answer: everything that is held back becomes ready, an unfinished character as U+FFFD. Keeps n_ready bytes of the last
 * push in front. */
void ommai_answer_text_finish(struct ommai_answer_text *answer);

#endif
