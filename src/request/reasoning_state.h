/* The reasoning that an answer begins with: its marks and its budget, as a request has them, and
 * where an answer stands in it. */
#pragma once

#include <omma/omma.h>

#include "families/prompt_builder.h"

#define OMMAI_MAX_FORCED_TOKENS 256 /* that end reasoning whose budget is used up */

/* Of a request, immutable. Zero-initialised: answers are one text. */
struct ommai_reasoning_rules {
  bool open; /* answers begin with reasoning: inside it, or with its begin mark */
  char begin[OMMA_MAX_MARK_BYTES + 1], end[OMMA_MAX_MARK_BYTES + 1];
  char answer_begin[OMMA_MAX_MARK_BYTES + 1];
  size_t begin_size, end_size, answer_begin_size; /* the last 0: there is none */
  /* where a mark is one token, else -1: shown even if it is a special one */
  int32_t begin_token, end_token, answer_begin_token;
  bool limited;
  int64_t max_tokens; /* of the reasoning */
  int32_t forced[OMMAI_MAX_FORCED_TOKENS];
  size_t n_forced;
};

/* Copies marks and budget; not open yet. Errors: ARGUMENT (field "reasoning": a mark of a wrong
 * size; "thinking_token_budget"), LIMIT (the forced end has too many tokens), FORMAT (it is no
 * UTF-8), MEMORY. */
enum omma_status ommai_reasoning_rules_take(struct ommai_reasoning_rules *rules, const struct omma_model *model,
                                            const struct omma_sampling *sampling, struct omma_error *error);

/* Answers to this prompt begin with reasoning, unless its end mark is in the message that is
 * continued, right before that message, or at the end of the prompt. */
void ommai_reasoning_rules_open(struct ommai_reasoning_rules *rules, const struct ommai_prompt_builder *prompt,
                                const struct omma_message *last_message, bool continue_final_message);

/* Whether a character may stand between the prompt, the marks and the texts without meaning
 * anything. */
bool ommai_reasoning_is_blank(char c);

enum ommai_reasoning_stage {
  OMMAI_REASONING_OVER = 0, /* or there is none */
  OMMAI_REASONING_BEFORE,   /* the begin mark may come yet */
  OMMAI_REASONING_INSIDE
};

/* Of an answer. Zero-initialised: over. */
struct ommai_reasoning_state {
  enum ommai_reasoning_stage stage;
  int64_t n_tokens;    /* drawn until its end mark was complete, marks included */
  int64_t first_token; /* that counts for the budget: after the begin mark */
  size_t n_forced;     /* tokens of the forced end that were drawn */
};

void ommai_reasoning_start(struct ommai_reasoning_state *reasoning, const struct ommai_reasoning_rules *rules);

/* The token that must come next, or -1: any may. */
int32_t ommai_reasoning_forced_token(const struct ommai_reasoning_state *reasoning, const struct ommai_reasoning_rules *rules);
/* Counts a token that was drawn; to be called before its text is looked at. */
void ommai_reasoning_count_token(struct ommai_reasoning_state *reasoning, const struct ommai_reasoning_rules *rules);
