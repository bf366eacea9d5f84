/* A tokenizer.json in memory: its vocabulary and merges, which are large, to be read in order; all
 * the rest as a JSON tree. */
#pragma once

#include <stddef.h>

#include "base/json.h"
#include "text/json_cursor.h"

/* Room for two tokens in the byte alphabet (two bytes per byte) and what a cursor wants beyond
 * that. */
#define OMMAI_DOCUMENT_MAX_STRING 4112

/* A token of model.vocab and its id. */
struct ommai_document_token {
  char text[OMMAI_DOCUMENT_MAX_STRING];
  size_t size;
  int32_t id;
};

/* A merge of model.merges, which the file has as one string with a space between, or as a pair of
 * strings. */
struct ommai_document_merge {
  char left[OMMAI_DOCUMENT_MAX_STRING], right[OMMAI_DOCUMENT_MAX_STRING];
  size_t left_size, right_size;
};

struct ommai_tokenizer_document {
  const char *path; /* the caller's */
  char *data;       /* the file, [data_size] */
  size_t data_size;
  json_t *root; /* the file with an empty model.vocab and model.merges */

  /* the value from after its "{" on; text is NULL when it is missing */
  struct ommai_json_cursor vocab;
  size_t n_tokens, token_bytes; /* token_bytes: of all tokens as the file spells them */
  int32_t max_id;

  struct ommai_json_cursor merges; /* from after its "[" on */
  size_t n_merges;
};

/* Reads a file of at most `limit` bytes; the vocabulary's and merges' syntax is checked, and they
 * are counted. `path` must outlive the document. Errors: IO, LIMIT, FORMAT with key or byte
 * offset, MEMORY. */
enum omma_status ommai_tokenizer_document_open(const char *path, size_t limit, const struct omma_allocator *allocator,
                                               struct ommai_tokenizer_document *document, struct omma_error *error);
/* Gives everything back; a zeroed or half-built document is allowed. */
void ommai_tokenizer_document_close(struct ommai_tokenizer_document *document, const struct omma_allocator *allocator);

/* Reads the next item through a copy of the document's cursor; sets *done where there is none.
 * Errors: FORMAT. */
enum omma_status ommai_document_next_token(const struct ommai_tokenizer_document *document, struct ommai_json_cursor *cursor,
                                           struct ommai_document_token *token, bool *done, struct omma_error *error);
enum omma_status ommai_document_next_merge(const struct ommai_tokenizer_document *document, struct ommai_json_cursor *cursor,
                                           struct ommai_document_merge *merge, bool *done, struct omma_error *error);
