/* What a request requires of the form of its answers: response_format, structured_outputs, and the
 * guided_* fields of older clients. */
#pragma once

#include <jansson.h>
#include <omma/omma.h>
#include <stdbool.h>

#include "server/core/api_error.h"

struct ommai_server;

/* *grammar becomes the one that all of root's fields ask for together, or NULL; the caller destroys
 * it. The same wish that came before is not compiled again. `make`: one that is not there is
 * compiled; else that is status 503. False with the field, and in a schema the pointer of its
 * key. */
bool ommai_structured_output_read(struct ommai_server *server, const json_t *root, bool make, struct omma_grammar **grammar,
                                  struct ommai_api_error *error);

/* As ommai_api_fail_from, of what ommai_grammar_cache_get gives. */
bool ommai_api_fail_grammar(struct ommai_api_error *error, const struct omma_error *cause);
