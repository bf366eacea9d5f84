/* Options of llama.cpp, vLLM and transformers, for the message about an unknown option. Those that
 * have a counterpart here are in that option's entry, too (`elsewhere`). */
#pragma once

#include <stddef.h>

struct ommai_option_hint {
  const char *word;    /* as it is typed, with its dashes */
  const char *instead; /* why there is no such option, or what to do; NULL: it is llama.cpp's */
};
extern const struct ommai_option_hint ommai_option_hints[]; /* ends in a NULL word */

/* The hint about word[size], with its dashes; NULL: there is none. */
const struct ommai_option_hint *ommai_option_hint(const char *word, size_t size);
