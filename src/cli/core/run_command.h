/* Runs a command: reads its options, and does what they ask for. */
#pragma once

#include "cli/core/options.h"

/* The command's words are argv[first..argc). From now on errors name this command's options
 * (diagnostics.h). Returns the exit code. */
int ommai_run_command(const struct ommai_command *command, int argc, char **argv, int first);

/* Prints the version; returns the exit code. */
int ommai_print_version(void);
