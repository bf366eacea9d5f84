/* What the answers of `omma chat` must look like: --json-schema, --regex, --grammar. */
#pragma once

#include <omma/omma.h>

/* As given on the command line; NULL: not given. */
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
