/* Commands that another program has: it is started in this one's place. */
#pragma once

#include "cli/core/options.h"

/* Runs command->program with the words of argv, of which [0] is replaced: the one in this program's
 * own directory, else the one in PATH. What was written to stdout is flushed. Returns, with an exit
 * code, only where none can be started: the error has been printed. */
int ommai_start_program(const struct ommai_command *command, char **argv);
