/* Flags of `vllm serve` that this program's server does not have, but that may stand in a command
 * line that was written for it. */
#pragma once

#include "cli/core/foreign_options.h"

/* Ends in a NULL name. */
extern const struct ommai_foreign_option ommai_vllm_flags[];
