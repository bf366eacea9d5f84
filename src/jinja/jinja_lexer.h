/* A Jinja template as tokens: literal text with the blanks that Jinja removes gone, and what stands
 * in tags. Source: jinja2's lexer with trim_blocks and lstrip_blocks, as transformers compiles
 * chat templates. */
#pragma once

#include <omma/status.h>

#include "base/scratch.h"

/* Tokens of one template; the longest of the known ones has about 1,000. */
#define OMMAI_JINJA_MAX_TOKENS 65536

enum jinja_token_kind {
  JINJA_TEXT, /* literal; never empty */
  JINJA_BLOCK_BEGIN,
  JINJA_BLOCK_END,
  JINJA_PRINT_BEGIN,
  JINJA_PRINT_END,
  JINJA_NAME,
  JINJA_STRING, /* without its quotation marks, escapes resolved */
  JINJA_INTEGER,
  JINJA_FLOAT,
  JINJA_OPERATOR,
  JINJA_END
};

struct jinja_token {
  enum jinja_token_kind kind;
  const char *text; /* in the scratch */
  size_t size;
  int line; /* from 1 */
};

/* All tokens, END last, in the scratch. Errors: FORMAT and UNSUPPORTED with the line, LIMIT,
 * MEMORY. */
enum omma_status ommai_jinja_lex(const char *text, size_t size, struct ommai_scratch *scratch, struct jinja_token **tokens,
                                 struct omma_error *error);
