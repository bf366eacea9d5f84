/* Length limits of an engine, checked while a request is being built. */
#ifndef OMMAI_ENGINE_ENGINE_LIMITS_H
#define OMMAI_ENGINE_ENGINE_LIMITS_H

#include <omma/omma.h>

/* Whether a prompt of n_tokens and one token of an answer fit into the KV cache. Thread-safe.
 * Errors: LIMIT ("input_tokens"). */
enum omma_status ommai_engine_check_length(const struct omma_engine *engine, size_t n_tokens, struct omma_error *error);

#endif
