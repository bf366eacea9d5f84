#include "engine/answer_text.h"

#include <string.h>

#include "base/checked.h"

void ommai_answer_text_init(struct ommai_answer_text *answer, const struct omma_request *request) {
  answer->request = request;
  answer->detokenizer = (struct ommai_detokenizer){0};
  answer->n_held = answer->n_ready = 0;
  answer->stop_index = -1;
}

/* The first place where any stop string stands in `held`; n_held when none does. */
static size_t find_stop(struct ommai_answer_text *answer) {
  size_t first = answer->n_held;
  for (size_t i = 0; i < answer->request->n_stop; i++) {
    const char *found = memmem(answer->held, answer->n_held, answer->request->stop[i], answer->request->stop_size[i]);
    if (found && (size_t)(found - answer->held) < first) {
      first = (size_t)(found - answer->held);
      answer->stop_index = (int)i;
    }
  }
  return first;
}

/* How many bytes at the end of `held` are the beginning of a stop string. */
static size_t unsure_tail(const struct ommai_answer_text *answer) {
  size_t longest = 0;
  for (size_t i = 0; i < answer->request->n_stop; i++) {
    size_t most = answer->request->stop_size[i] - 1;
    if (most > answer->n_held) most = answer->n_held;
    for (size_t n = most; n > longest; n--) {
      if (memcmp(answer->held + answer->n_held - n, answer->request->stop[i], n) == 0) longest = n;
    }
  }
  return longest;
}

static void settle(struct ommai_answer_text *answer) {
  size_t stop = find_stop(answer);
  if (answer->stop_index >= 0) {
    const struct omma_request *request = answer->request;
    answer->n_held = answer->n_ready = stop + (request->include_stop ? request->stop_size[answer->stop_index] : 0);
  } else {
    answer->n_ready = answer->n_held - unsure_tail(answer);
  }
}

void ommai_answer_text_shown(struct ommai_answer_text *answer) {
  memmove(answer->held, answer->held + answer->n_ready, answer->n_held - answer->n_ready);
  answer->n_held -= answer->n_ready;
  answer->n_ready = 0;
}

void ommai_answer_text_push(struct ommai_answer_text *answer, int32_t token, bool may_stop) {
  const struct omma_request *request = answer->request;
  ommai_answer_text_shown(answer);
  answer->n_held += ommai_detokenizer_push(&answer->detokenizer, request->model->tokenizer, token,
                                           !request->keep_special_tokens, answer->held + answer->n_held);
  if (may_stop) {
    settle(answer);
  } else {
    answer->n_ready = answer->n_held;
  }
}

void ommai_answer_text_finish(struct ommai_answer_text *answer) {
  if (answer->stop_index >= 0) return;
  answer->n_held += ommai_detokenizer_flush(&answer->detokenizer, answer->held + answer->n_held);
  answer->n_ready = answer->n_held; /* not searched again: before min_tokens a stop string is plain text */
}
