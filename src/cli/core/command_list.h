/* All commands of the program, and how their names are found in a command line. */
#pragma once

#include "cli/core/options.h"

/* In the order of the help. */
extern const struct ommai_command *const ommai_commands[];
extern const size_t ommai_n_commands;

/* The command whose name or alias stands at the beginning of words[n], and of how many words it is;
 * NULL: none. */
const struct ommai_command *ommai_command_find(size_t n, char *const *words, int *n_words);

/* The second word of a command of two, when its first is `word`; else NULL. */
const char *ommai_command_second_word(const struct ommai_command *command, const char *word);
