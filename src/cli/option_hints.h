/* Options of llama.cpp, vLLM and transformers under other names than ours: what is meant by them
 * here, for the message about an unknown option. */
#pragma once

#include <stddef.h>

struct ommai_option_hint {
  const char *word;    /* as it is typed, with its dashes */
  const char *own;     /* the option that is meant, without dashes; NULL: there is none */
  const char *instead; /* why there is none, or what to do; NULL where there is one */
};

/* The hints one after the other, each word in one row; NULL after the last. Start with NULL. */
const struct ommai_option_hint *ommai_option_hint_next(const struct ommai_option_hint *hint);
