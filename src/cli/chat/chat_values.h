/* The options of `omma chat` and `omma run`, and what those of the answer ask of the engine. */
#pragma once

#include "cli/chat/answer_constraint.h"
#include "cli/model/model_options.h"

struct ommai_chat_values {
  struct ommai_common common;
  struct ommai_strings images, videos;
  double fps;
  const char *prompt, *system, *boxes;
  bool json;
  struct ommai_optional_integer logprobs;
  int64_t max_tokens, min_tokens;
  struct ommai_optional_number temperature, top_p, min_p;
  struct ommai_optional_integer top_k;
  int64_t seed;
  struct ommai_optional_number repetition_penalty, presence_penalty, frequency_penalty;
  struct ommai_strings stop;
  struct ommai_constraint_values form;
  bool ignore_eos;
  bool no_history;
};

extern const struct ommai_option_group ommai_chat_question_options, ommai_chat_sampling_options, ommai_chat_constraint_options;
extern const struct ommai_option_group ommai_chat_note_options;  /* verbose, of a conversation */
extern const struct ommai_option_group ommai_chat_other_options; /* by names of another program */

/* Sets what was not given as the model recommends. */
void ommai_chat_values_recommend(struct ommai_chat_values *values, const struct omma_model *model);

/* Of an answer without a grammar. */
struct omma_sampling ommai_chat_values_sampling(const struct ommai_chat_values *values);
