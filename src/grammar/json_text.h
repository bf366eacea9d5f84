/* The pieces of JSON that every schema's grammar is made of, as rules of a builder. */
#pragma once

#include <jansson.h>

#include "grammar/char_ranges.h"

/* Digits of numbers without bounds: before the point, after it, of the exponent; and blanks after a
 * line break. So every number is one that a 64-bit integer or a double holds, and no answer loses
 * itself in blanks. */
#define OMMAI_JSON_MAX_INTEGER_DIGITS 18
#define OMMAI_JSON_MAX_FRACTION_DIGITS 17
#define OMMAI_JSON_MAX_EXPONENT_DIGITS 2
#define OMMAI_JSON_MAX_INDENT 32
/* Nesting of a value that is written as it is (const, enum). */
#define OMMAI_JSON_MAX_VALUE_DEPTH 64

enum ommai_json_piece {
  /* nothing, one blank, or a line break with blanks and tabs; with `compact` nothing */
  OMMAI_JSON_SPACE,
  OMMAI_JSON_CHAR, /* a character of a string, escaped in any way */
  OMMAI_JSON_STRING,
  OMMAI_JSON_INTEGER,
  OMMAI_JSON_NUMBER,
  OMMAI_JSON_ARRAY,
  OMMAI_JSON_OBJECT,
  OMMAI_JSON_VALUE,
  OMMAI_JSON_N_PIECES
};

struct ommai_json_text {
  struct ommai_grammar_builder *builder;
  bool compact;
  int32_t rules[OMMAI_JSON_N_PIECES]; /* + 1; 0: not made yet */
};

/* A piece's rule. */
int32_t ommai_json_rule(struct ommai_json_text *json, enum ommai_json_piece piece);
/* Edges for a piece; returns the node after it. */
int32_t ommai_json_add(struct ommai_json_text *json, int32_t from, enum ommai_json_piece piece);
/* A comma or bracket with the space that may stand before and after it. */
int32_t ommai_json_spaced(struct ommai_json_text *json, int32_t from, bool before, const char *text, bool after);

/* A value's text without blanks, in the scratch: strings with the fewest escapes, numbers in the
 * fewest digits. Errors: LIMIT, MEMORY. */
enum omma_status ommai_json_write(struct ommai_scratch *scratch, const json_t *value, struct ommai_literal *text,
                                  struct omma_error *error);

/* A JSON string of these characters, in quotation marks. */
enum omma_status ommai_json_quote(struct ommai_scratch *scratch, const char *text, size_t size, struct ommai_literal *out,
                                  struct omma_error *error);
