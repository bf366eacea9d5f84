#include "engine/answer_text.h"

#include <string.h>

#include "base/checked.h"

void ommai_answer_text_init(struct ommai_answer_text *answer, const struct omma_request *request) {
  answer->request = request;
  answer->detokenizer = (struct ommai_detokenizer){0};
  answer->n_held = answer->n_ready = answer->reasoning_end = 0;
  answer->stop_index = -1;
  ommai_reasoning_start(&answer->reasoning, &request->reasoning);
}

size_t ommai_answer_text_reasoning(const struct ommai_answer_text *answer) {
  if (answer->reasoning.stage != OMMAI_REASONING_OVER) return answer->n_ready;
  return answer->reasoning_end < answer->n_ready ? answer->reasoning_end : answer->n_ready;
}

/* Where the stop string begins that is complete first, of those that end in the bytes of `held`
 * after the first n_old; of two that end together the longer one. n_held when there is none. */
static size_t find_stop(struct ommai_answer_text *answer, size_t n_old) {
  const struct omma_request *request = answer->request;
  size_t first = answer->n_held, first_end = answer->n_held + 1;
  for (size_t i = 0; i < request->n_stop; i++) {
    size_t size = request->stop_size[i], from = n_old < size ? 0 : n_old - size + 1;
    const char *found = memmem(answer->held + from, answer->n_held - from, request->stop[i], size);
    if (!found) continue;
    size_t at = (size_t)(found - answer->held);
    if (at + size > first_end || (at + size == first_end && at >= first)) continue;
    first = at;
    first_end = at + size;
    answer->stop_index = (int)i;
  }
  return first;
}

/* How many bytes at the end of `held`, after `from`, are the beginning of a string, if they are
 * more than `min_size`. */
static size_t begun_tail(const struct ommai_answer_text *answer, size_t from, const char *string, size_t size,
                         size_t min_size) {
  size_t max_size = size - 1 < answer->n_held - from ? size - 1 : answer->n_held - from;
  for (size_t n = max_size; n > min_size; n--) {
    if (memcmp(answer->held + answer->n_held - n, string, n) == 0) return n;
  }
  return min_size;
}

/* How many bytes at the end of `held` may be the beginning of a stop string or a mark. */
static size_t unsure_tail(const struct ommai_answer_text *answer) {
  const struct omma_request *request = answer->request;
  const struct ommai_reasoning_rules *rules = &request->reasoning;
  bool over = answer->reasoning.stage == OMMAI_REASONING_OVER;
  size_t longest = 0, from = over ? answer->reasoning_end : 0;
  if (answer->reasoning.stage == OMMAI_REASONING_BEFORE) return answer->n_held;
  if (!over) longest = begun_tail(answer, 0, rules->end, rules->end_size, longest);
  if (!over) longest = begun_tail(answer, 0, rules->begin, rules->begin_size, longest);
  if (!over && rules->answer_begin_size) {
    longest = begun_tail(answer, 0, rules->answer_begin, rules->answer_begin_size, longest);
  }
  for (size_t i = 0; i < request->n_stop; i++) {
    longest = begun_tail(answer, from, request->stop[i], request->stop_size[i], longest);
  }
  return longest;
}

/* Takes the bytes [at, at + size) out of `held`. */
static void cut_out(struct ommai_answer_text *answer, size_t at, size_t size) {
  memmove(answer->held + at, answer->held + at + size, answer->n_held - at - size);
  answer->n_held -= size;
}

/* Whether the begin mark may come yet. It is not part of the reasoning, as are blanks before it. */
static bool waits_for_begin(struct ommai_answer_text *answer) {
  const struct ommai_reasoning_rules *rules = &answer->request->reasoning;
  size_t n_blanks = 0;
  while (n_blanks < answer->n_held && ommai_reasoning_is_blank(answer->held[n_blanks])) n_blanks++;
  size_t rest = answer->n_held - n_blanks, compared = rest < rules->begin_size ? rest : rules->begin_size;
  if (n_blanks > OMMAI_ANSWER_MAX_BLANKS || memcmp(answer->held + n_blanks, rules->begin, compared) != 0) return false;
  if (rest < rules->begin_size) return true;
  cut_out(answer, 0, n_blanks + rules->begin_size);
  answer->reasoning.first_token = answer->reasoning.n_tokens;
  return false;
}

/* A begin mark after other words: it is taken out like one at the beginning. */
static void cut_out_late_begin(struct ommai_answer_text *answer) {
  const struct ommai_reasoning_rules *rules = &answer->request->reasoning;
  const char *begin = memmem(answer->held, answer->n_held, rules->begin, rules->begin_size);
  const char *end = memmem(answer->held, answer->n_held, rules->end, rules->end_size);
  if (begin && (!end || begin < end)) cut_out(answer, (size_t)(begin - answer->held), rules->begin_size);
}

/* Where the reasoning ends in `held`: at its end mark, or where the answer begins without one
 * (*is_end false). NULL: nowhere yet. */
static const char *find_end(const struct ommai_answer_text *answer, bool *is_end) {
  const struct ommai_reasoning_rules *rules = &answer->request->reasoning;
  const char *end = memmem(answer->held, answer->n_held, rules->end, rules->end_size), *begin = NULL;
  if (rules->answer_begin_size) {
    begin = memmem(answer->held, answer->n_held, rules->answer_begin, rules->answer_begin_size);
  }
  *is_end = !begin || (end && end < begin);
  return *is_end ? end : begin;
}

/* Goes through the marks in `held`. A grammar begins after the token that completes the end mark,
 * and the answer with it. */
static void follow_reasoning(struct ommai_answer_text *answer) {
  const struct ommai_reasoning_rules *rules = &answer->request->reasoning;
  struct ommai_reasoning_state *reasoning = &answer->reasoning;
  if (reasoning->stage == OMMAI_REASONING_OVER) return;
  if (reasoning->stage == OMMAI_REASONING_BEFORE && waits_for_begin(answer)) return;
  reasoning->stage = OMMAI_REASONING_INSIDE;
  cut_out_late_begin(answer);
  bool written = rules->limited && reasoning->n_forced == rules->n_forced, is_end = true;
  const char *end = find_end(answer, &is_end);
  if (!end && !written) return;
  answer->reasoning_end = end ? (size_t)(end - answer->held) : answer->n_held;
  if (end && is_end) cut_out(answer, answer->reasoning_end, rules->end_size);
  if (!is_end) reasoning->n_tokens--; /* the token that it ends with is the answer's */
  if (answer->request->grammar) answer->n_held = answer->reasoning_end;
  reasoning->stage = OMMAI_REASONING_OVER;
}

/* Ends what is held at a stop string, or after it where it is part of the answer. */
static void look_for_stop(struct ommai_answer_text *answer, size_t n_old) {
  const struct omma_request *request = answer->request;
  answer->n_held = find_stop(answer, n_old);
  if (answer->stop_index >= 0 && request->include_stop) answer->n_held += request->stop_size[answer->stop_index];
}

void ommai_answer_text_shown(struct ommai_answer_text *answer) {
  cut_out(answer, 0, answer->n_ready);
  answer->n_ready = answer->reasoning_end = 0;
}

void ommai_answer_text_push(struct ommai_answer_text *answer, int32_t token, bool may_stop) {
  const struct omma_request *request = answer->request;
  const struct ommai_reasoning_rules *rules = &request->reasoning;
  bool is_mark = answer->reasoning.stage != OMMAI_REASONING_OVER &&
                 (token == rules->begin_token || token == rules->end_token || token == rules->answer_begin_token);
  ommai_answer_text_shown(answer);
  size_t n_old = answer->n_held;
  answer->n_held += ommai_detokenizer_push(&answer->detokenizer, request->model->tokenizer, token,
                                           !request->keep_special_tokens && !is_mark, answer->held + answer->n_held);
  if (may_stop) look_for_stop(answer, n_old);
  ommai_reasoning_count_token(&answer->reasoning, rules);
  follow_reasoning(answer);
  answer->n_ready = answer->n_held;
  if (answer->stop_index < 0) answer->n_ready -= unsure_tail(answer);
}

void ommai_answer_text_finish(struct ommai_answer_text *answer) {
  if (answer->stop_index >= 0) return;
  answer->n_held += ommai_detokenizer_flush(&answer->detokenizer, answer->held + answer->n_held);
  /* not searched again: a stop string that ends before min_tokens is plain text */
  answer->n_ready = answer->n_held;
}
