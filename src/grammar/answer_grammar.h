/* From what a request asks for to a grammar: a JSON Schema, any JSON object, a regular expression,
 * one of several texts, a grammar in GBNF. */
#pragma once

#include "grammar/grammar.h"

/* Bytes of a schema, pattern or grammar; texts of a choice. */
#define OMMAI_ANSWER_GRAMMAR_MAX_BYTES ((size_t)1 << 20)
#define OMMAI_ANSWER_GRAMMAR_MAX_CHOICES 10000

enum ommai_answer_kind {
  OMMAI_ANSWER_JSON_SCHEMA, /* `text` is the schema */
  OMMAI_ANSWER_JSON_OBJECT, /* no text */
  OMMAI_ANSWER_REGEX,
  OMMAI_ANSWER_CHOICE, /* a JSON array of strings */
  OMMAI_ANSWER_GBNF
};

struct ommai_grammar_source {
  enum ommai_answer_kind kind;
  const char *text;
  size_t size;
  bool compact;     /* no blanks between the tokens of JSON */
  int64_t max_work; /* steps of the compilation; 0: OMMAI_GRAMMAR_MAX_WORK */
};

/* Compiles it. The same text takes the same work everywhere. Thread-safe. Errors: FORMAT,
 * UNSUPPORTED, LIMIT, MEMORY. */
enum omma_status ommai_answer_grammar_create(const struct ommai_grammar_source *source, const struct omma_allocator *allocator,
                                             struct ommai_grammar **grammar, struct omma_error *error);
