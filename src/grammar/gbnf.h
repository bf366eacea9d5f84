/* Grammars in llama.cpp's notation, GBNF: `name ::= alternatives`, the text is rule `root`.
 *
 * Known: "text" with escapes, [classes], `.` (any character), (groups), names, `* + ? {m} {m,}
 * {m,n}`, `|`, # comments. A line break ends a rule, but for one inside parentheses, after ::= and
 * |, and before |. Rules may not begin with themselves. */
#pragma once

#include "base/scratch.h"
#include "grammar/grammar_builder.h"

/* Groups inside groups. */
#define OMMAI_GBNF_MAX_DEPTH 64

/* Adds the rules and sets *root. Errors: FORMAT and UNSUPPORTED with the line, LIMIT, MEMORY. */
enum omma_status ommai_gbnf_compile(const char *text, size_t size, struct ommai_grammar_builder *builder,
                                    struct ommai_scratch *scratch, int32_t *root, struct omma_error *error);
