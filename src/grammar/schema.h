/* JSON Schema (2020-12, and what drafts 4 to 7 have else) to grammar rules.
 * docs/structured-output.md has the table of keys.
 *
 * A key that is not in that table, or a value that it cannot have, is an error that names it by its
 * JSON pointer: nothing is ignored but annotations. Members come in the order of the schema. What
 * a grammar's texts are is never more than the schema allows; it is less where the page documents
 * so. */
#pragma once

#include <jansson.h>

#include "base/scratch.h"
#include "grammar/grammar_builder.h"

/* Schemas that hold of one value together ($ref, allOf). */
#define OMMAI_SCHEMA_MAX_PARTS 64
/* Different sets of them in one grammar. */
#define OMMAI_SCHEMA_MAX_RULES 20000
/* Patterns of one object's patternProperties. */
#define OMMAI_SCHEMA_MAX_PATTERNS 4

struct ommai_schema_options {
  bool compact; /* no blanks between the tokens of JSON */
};

/* Adds the rules and sets *root. `schema` is an object or a boolean. Errors: FORMAT and UNSUPPORTED
 * with the pointer, LIMIT, MEMORY. */
enum omma_status ommai_schema_compile(const json_t *schema, const struct ommai_schema_options *options,
                                      struct ommai_grammar_builder *builder, struct ommai_scratch *scratch, int32_t *root,
                                      struct omma_error *error);
