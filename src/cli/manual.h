/* Manual pages of commands, made from their tables. */
#ifndef OMMAI_CLI_MANUAL_H
#define OMMAI_CLI_MANUAL_H

#include <stdio.h>

#include "cli/options.h"

/* Writes the source (for man) of the page omma-NAME(1), with dashes for blanks in the name. */
void ommai_manual_write(const struct ommai_command *command, FILE *out);

#endif
