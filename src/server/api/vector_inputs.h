/* The inputs of a request for vectors or scores. */
#pragma once

#include "server/api/vector_fields.h"

struct ommai_server_config;

/* As many as OpenAI's interface takes; of a score, queries and documents together. */
#define OMMAI_MAX_VECTOR_INPUTS 2048

enum ommai_vector_input_kind {
  OMMAI_VECTOR_TEXTS,         /* as they are, without a form of prompts */
  OMMAI_VECTOR_IDS,           /* token ids, likewise */
  OMMAI_VECTOR_CONVERSATIONS, /* in the chat template */
  OMMAI_VECTOR_CONTENTS,      /* texts and parts, in the model's own form */
  OMMAI_VECTOR_PAIRS          /* of query and document, in the model's own form */
};

/* Values belong to the JSON document. */
struct ommai_vector_input {
  const json_t *value;    /* a text, ids, a list of messages, or a text or list of parts */
  const json_t *document; /* of PAIRS: the value is the query */
};

struct ommai_vector_inputs {
  const struct omma_allocator *allocator;
  enum ommai_vector_input_kind kind;
  struct ommai_vector_input *list; /* [n] */
  size_t n;
  /* Of scores: how many of each. Where each has a vector of its own, the queries come first. */
  size_t n_queries, n_documents;
  const json_t *documents; /* of scores, as they came: a list, or one by itself */
  /* their names; of others `document_field` is the field of all */
  const char *query_field, *document_field;
  bool is_single; /* the field is no list of inputs but one */
  bool has_media; /* images or videos are to be loaded */
};

/* Finds them. `root` is kept as long as they are. False with *error filled; free in any case. */
bool ommai_vector_inputs_read(const struct ommai_server_config *config, const json_t *root,
                              const struct ommai_vector_rules *rules, const struct ommai_vector_fields *fields,
                              struct ommai_vector_inputs *inputs, struct ommai_api_error *error);
void ommai_vector_inputs_free(struct ommai_vector_inputs *inputs);
