/* Completion of command lines. The shells' scripts (src/cli/completion) know nothing of commands
 * and options: at every Tab they ask `omma __complete WORD...` for what may come. */
#pragma once

#include <stddef.h>
#include <stdio.h>

/* Writes what words[n - 1] may become, after the words before it (without the program's name): a
 * line for each, the word, a tab and its description; and a line `:files` where names of files may
 * stand. */
void ommai_complete(size_t n, char *const *words, FILE *out);

/* `omma completion SHELL`: writes the script for bash, zsh or fish to stdout. words[n] is what
 * follows `completion`. Returns an exit code; what was wrong has been printed. */
int ommai_completion_script(size_t n, char *const *words);
