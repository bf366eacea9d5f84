/* Regular expressions: the part of ECMA-262's syntax (and Python's) that is regular, as a tree of
 * nodes, and as edges of a grammar.
 *
 * Known: literals, `.`, classes, alternation, groups (named and non-capturing too), `* + ? {m} {m,}
 * {m,n} {,n}` (a lazy `?` after them changes no text), escapes \d \w \s \D \W \S \t \n \r \f \v \0
 * \xHH \uHHHH \u{H} \cX and of punctuation, anchors at the beginning and end of the whole or of an
 * alternative of it. Refused by name: lookaround, backreferences, \b, \p, flags, anchors elsewhere.
 *
 * \d and \w are ASCII, as in ECMA-262; where engines differ (Python's have all of Unicode) a class
 * takes what both take. */
#pragma once

#include "grammar/char_ranges.h"

/* Groups inside groups; the highest bound of a repetition. */
#define OMMAI_REGEX_MAX_DEPTH 64
#define OMMAI_REGEX_MAX_REPEAT 100000

enum ommai_regex_kind {
  OMMAI_REGEX_CHARS,    /* one of a set */
  OMMAI_REGEX_SEQUENCE, /* the children one after the other; none: the empty text */
  OMMAI_REGEX_CHOICE,   /* one of the children */
  OMMAI_REGEX_REPEAT,   /* the child min to max times */
  OMMAI_REGEX_BEGIN,
  OMMAI_REGEX_END
};

struct ommai_regex {
  enum ommai_regex_kind kind;
  struct ommai_chars chars;
  struct ommai_regex *first, *last, *next; /* children; the next sibling */
  int32_t min, max;                        /* max OMMAI_GRAMMAR_NO_MAX: none */
};

/* Nodes live in the scratch. With `search` the pattern may stand anywhere in the text, as "pattern"
 * of JSON Schema means; else it is the whole text. Anchors are resolved: the tree has none.
 * Errors: FORMAT (with the offset), UNSUPPORTED, LIMIT, MEMORY. */
enum omma_status ommai_regex_parse(struct ommai_scratch *scratch, const char *pattern, size_t size, bool search,
                                   struct ommai_regex **regex, struct omma_error *error);

/* Edges from `from` to `to` for the texts of the pattern. */
void ommai_builder_regex(struct ommai_grammar_builder *builder, int32_t from, const struct ommai_regex *regex,
                         enum ommai_char_encoding encoding, int32_t to);
