/* The options of `omma chat` and `omma run`, and what those of the answer ask of the engine: what
 * it must look like, and how it is drawn. */
#pragma once

#include <omma/omma.h>

#include "cli/model/model_options.h"

/* --json-schema, --regex and --grammar as given on the command line; NULL: not given. */
struct ommai_constraint_values {
  const char *json_schema, *grammar; /* a text, or a file's name */
  const char *regex;
};

/* Zero-initialised: answers are free. */
struct ommai_answer_constraint {
  const char *option; /* that it comes from, for messages; NULL: there is none */
  struct omma_grammar_options options;
  char *text; /* of a file */
};

/* Finds the text of the constraint, reading its file. Returns an exit code; the error has been
 * printed. Release in every case. */
int ommai_answer_constraint_read(const char *command, const struct ommai_constraint_values *values,
                                 struct ommai_answer_constraint *constraint);
void ommai_answer_constraint_release(struct ommai_answer_constraint *constraint);

/* Compiles it for a model; *grammar becomes NULL where answers are free. Errors: as
 * omma_grammar_create, with the option's name. */
enum omma_status ommai_answer_constraint_compile(const struct ommai_answer_constraint *constraint,
                                                 const struct omma_model *model, struct omma_grammar **grammar,
                                                 struct omma_error *error);

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
