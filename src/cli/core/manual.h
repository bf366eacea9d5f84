/* Manual pages of commands, made from their tables. */
#pragma once

#include <stdio.h>

#include "cli/core/options.h"

/* Writes the source (for man) of the page omma-NAME(1), with dashes for blanks in the name. */
void ommai_manual_write(const struct ommai_command *command, FILE *out);

/* Writes the tables of docs/options.md: the options of all commands, each group once. */
void ommai_manual_write_options(const struct ommai_command *const *commands, size_t n, FILE *out);
