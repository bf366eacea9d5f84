/* The words of `omma chat` and `omma run` that stand next to their options: [DIR] [IMAGE...]
 * [QUESTION]. */
#pragma once

#include "cli/core/options.h"

struct ommai_chat_words {
  const char *model, *prompt;   /* of the options; NULL: not given. A word sets them, once */
  struct ommai_strings images;  /* those of the options; words add to them; room for every word */
  size_t n_from_standard_input; /* images that it is */
};

/* Sorts `words` into model, images and question: a directory with a config.json is the model, an
 * existing file or an address an image, what is left the question. What looks like a path and does
 * not exist is refused, and so is a second model or question. With `model_first` the first word is
 * the model, whatever it looks like, unless there is one. Returns an exit code; what was wrong has
 * been reported, in the name of `command`. */
int ommai_chat_words_sort(const char *command, const struct ommai_strings *words, bool model_first,
                          struct ommai_chat_words *sorted);
