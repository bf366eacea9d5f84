/* A template's tree, rendered: statements and expressions. */
#pragma once

#include "jinja/jinja_calls.h"
#include "jinja/jinja_parser.h"

/* Macros that call macros, loops inside loops, operators: while it is rendered. */
#define OMMAI_JINJA_MAX_DEPTH 400

/* Appends the text to `out`, which lies in the scratch as all values do. Errors: as
 * ommai_jinja_render. */
enum omma_status ommai_jinja_run_tree(const struct jinja_tree *tree, const json_t *variables, size_t max_bytes,
                                      struct ommai_scratch *scratch, struct jinja_buffer *out, struct omma_error *error);
