/* Options of a related program in a command line that was written for it: what means nothing here
 * is passed over with a warning, what would change answers or what is served is refused with the
 * reason. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cli/core/nearest.h"

enum ommai_foreign_kind {
  OMMAI_FOREIGN_SWITCH,   /* --name and --no-name */
  OMMAI_FOREIGN_VALUE,    /* --name value; keys of a JSON value also as --name.key value */
  OMMAI_FOREIGN_OPTIONAL, /* --name, or with a value */
  OMMAI_FOREIGN_WORDS     /* --name and all words up to the next option */
};

struct ommai_foreign_option {
  const char *name;
  enum ommai_foreign_kind kind;
  /* short form after one dash, or NULL; one letter may have a number attached */
  const char *letters;
  /* why it is refused; NULL: it is accepted and does nothing. A refused switch may be given as
   * --no-name */
  const char *refused;
  /* values that are accepted all the same, with one blank between them; NULL: none */
  const char *but_for;
};

/* Flags of `vllm serve` that this program's server does not have, but that may stand in a command
 * line that was written for it. Ends in a NULL name. */
extern const struct ommai_foreign_option ommai_vllm_flags[];

struct ommai_foreign_options {
  const char *command;                        /* that is given them */
  const char *program;                        /* whose they are; NULL where none is refused */
  const struct ommai_foreign_option *options; /* ends in a NULL name; NULL: there are none */
  const char *nearest;                        /* the command's own that comes nearest; NULL: none */
};

enum ommai_foreign_outcome { OMMAI_FOREIGN_UNKNOWN, OMMAI_FOREIGN_PASSED, OMMAI_FOREIGN_REFUSED };

/* Whether word[size] spells an option's name; underscores count as dashes, as in programs whose
 * options are written both ways. */
bool ommai_option_spelled(const char *word, size_t size, const char *name);

/* Passes over the option at argv[*index] and its values, of which *index is the last then, and
 * reports what came of it. OMMAI_FOREIGN_UNKNOWN: the word is none of them, nothing was printed. */
enum ommai_foreign_outcome ommai_foreign_option_pass(const struct ommai_foreign_options *foreign, int argc, char **argv,
                                                     int *index);

/* Offers all names to a search; with `negated`, those of switches, whose --no- form is looked
 * for. */
void ommai_foreign_options_offer(const struct ommai_foreign_option *options, bool negated, struct ommai_nearest *search);

/* Options of llama.cpp, vLLM and transformers, for the message about an unknown option. Those that
 * have a counterpart here are in that option's entry, too (`elsewhere`). */
struct ommai_option_hint {
  const char *word;    /* as it is typed, with its dashes */
  const char *instead; /* why there is no such option, or what to do; NULL: it is llama.cpp's */
};
extern const struct ommai_option_hint ommai_option_hints[]; /* ends in a NULL word */

/* The hint about word[size], with its dashes; NULL: there is none. */
const struct ommai_option_hint *ommai_option_hint(const char *word, size_t size);
