/* Reads the words of a command line, and the file of --config, into a command's values. */
#pragma once

#include "cli/core/options.h"

enum ommai_parsed { OMMAI_PARSED, OMMAI_PARSED_HELP, OMMAI_PARSED_VERSION, OMMAI_PARSED_WRONG };

/* Reads argv[first..argc) into `values` (values_size bytes, zeroed) and `arguments` (zeroed).
 * Forms: --name value, --name=value (underscores in a name count as dashes), -x value, `--` ends
 * the options. A next word that is an option itself is not taken as a value: --name=--value gives
 * such a one. OMMAI_PARSED_HELP, OMMAI_PARSED_VERSION: --help (-h) or --version (-V) was asked for,
 * nothing more was read. OMMAI_PARSED_WRONG: the error has been printed on stderr, with the
 * nearest name for an unknown option. Release in every case. */
enum ommai_parsed ommai_options_parse(const struct ommai_command *command, int argc, char **argv, int first, void *values,
                                      struct ommai_strings *arguments);
void ommai_options_release(const struct ommai_command *command, void *values, struct ommai_strings *arguments);
