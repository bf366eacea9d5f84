/* The library's errors in the words of the command line. */
#pragma once

#include <omma/status.h>
#include <stddef.h>

/* error's message (its status where there is none), cut to size. The library names fields of its
 * structs, such as max_model_len. The options that fill them stand in their place, --max-model-len:
 * in front of a message always, elsewhere where the error is about an argument or a limit. Returns
 * out. */
const char *ommai_error_words(const struct omma_error *error, char *out, size_t size);
