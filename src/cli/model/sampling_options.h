/* Options of sampling that several commands have, for their tables. What follows the arguments are
 * further members of struct ommai_option, such as the default. */
#pragma once

#include "cli/core/options.h"

#define OMMAI_TEMPERATURE_OPTION(field, highest, ...)                                                                  \
  OMMAI_NUMBER("temperature", field, "T", 0, highest, "sampling temperature; 0: greedy, always the most likely token", \
               __VA_ARGS__)
#define OMMAI_TOP_P_OPTION(field, ...)    \
  OMMAI_NUMBER("top-p", field, "P", 0, 1, \
               "nucleus sampling: sample from the most likely tokens that together have this probability", __VA_ARGS__)
#define OMMAI_TOP_K_OPTION(field, ...) \
  OMMAI_INTEGER("top-k", field, "K", -1, INT32_MAX, "sample from the K most likely tokens; 0 or -1: from all", __VA_ARGS__)
#define OMMAI_MIN_P_OPTION(field, ...) \
  OMMAI_NUMBER("min-p", field, "P", 0, 1, "leave out tokens less likely than P times the most likely", __VA_ARGS__)
#define OMMAI_REPETITION_PENALTY_OPTION(field, highest, ...) \
  OMMAI_NUMBER("repetition-penalty", field, "R", 0, highest, \
               "above 1: avoid tokens that are already in the prompt or the answer", __VA_ARGS__)
#define OMMAI_PRESENCE_PENALTY_OPTION(field, highest, ...)                                                                  \
  OMMAI_NUMBER("presence-penalty", field, "R", -(highest), highest, "above 0: avoid tokens that are already in the answer", \
               __VA_ARGS__)
#define OMMAI_FREQUENCY_PENALTY_OPTION(field, highest, ...)          \
  OMMAI_NUMBER("frequency-penalty", field, "R", -(highest), highest, \
               "above 0: avoid tokens, the more often they are already in the answer", __VA_ARGS__)
