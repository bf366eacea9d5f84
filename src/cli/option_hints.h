/* Options of llama.cpp, vLLM and transformers that have no counterpart here, for the message about
 * an unknown option. Those that have one are in that option's entry. */
#pragma once

#include <stddef.h>

/* Why word[size], with its dashes, is no option, or what to do; NULL for others. */
const char *ommai_option_hint(const char *word, size_t size);
