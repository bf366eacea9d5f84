/* The commands of a program: how their names are found in a command line, and how one runs, here or
 * in another program. */
#pragma once

#include "cli/core/options.h"

/* In the order of the help. Each program defines its own: src/cli/commands.c,
 * src/bench/bench_main.c. */
extern const struct ommai_command *const ommai_commands[];
extern const size_t ommai_n_commands;

/* The command whose name or alias stands at the beginning of words[n], and of how many words it is;
 * NULL: none. */
const struct ommai_command *ommai_command_find(size_t n, char *const *words, int *n_words);

/* The second word of a command of two, when its first is `word`; else NULL. */
const char *ommai_command_second_word(const struct ommai_command *command, const char *word);

/* The command of another program that words[n], a whole command line without the program's name,
 * is for: to run it, to print its help ("help bench serve") or its manual page, or to complete what
 * follows it. NULL: this program's. */
const struct ommai_command *ommai_command_elsewhere(size_t n, char *const *words);

/* Runs command->program with the words of argv, of which [0] is replaced: the one in this program's
 * own directory, else the one in PATH. What was written to stdout is flushed. Returns, with an exit
 * code, only where none can be started: the error has been printed. */
int ommai_start_program(const struct ommai_command *command, char **argv);

/* Runs a command: reads its options, and does what they ask for. Its words are argv[first..argc).
 * From now on errors name this command's options (diagnostics.h). Returns the exit code. */
int ommai_run_command(const struct ommai_command *command, int argc, char **argv, int first);

/* Prints the version; returns the exit code. */
int ommai_print_version(void);
