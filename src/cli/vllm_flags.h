/* Flags of `vllm serve` that say nothing to this program but may stand in a command line that was written for it. */
#ifndef OMMAI_CLI_VLLM_FLAGS_H
#define OMMAI_CLI_VLLM_FLAGS_H

#include "cli/options.h"

/* Ends in a NULL name. */
extern const struct ommai_ignored_option ommai_vllm_flags[];

#endif
