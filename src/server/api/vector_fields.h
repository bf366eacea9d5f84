/* The fields that requests for vectors and scores have in common: /v1/embeddings, /pooling, /score
 * and /rerank, as vLLM has them; those of /v2/embed become such. */
#pragma once

#include <jansson.h>
#include <omma/vectors.h>
#include <stdbool.h>

#include "server/core/api_error.h"

struct ommai_server;

enum ommai_vector_format { OMMAI_VECTOR_FLOAT, OMMAI_VECTOR_BASE64, OMMAI_VECTOR_BYTES };
enum ommai_vector_type { OMMAI_VECTOR_F32, OMMAI_VECTOR_F16, OMMAI_VECTOR_BF16 };

/* Strings belong to the JSON document, the model's name to the server. */
struct ommai_vector_fields {
  const char *model, *request_id, *cache_salt; /* NULL: not given */
  const char *instruction;                     /* what its own prompts say; NULL: not given */
  int64_t priority, dimensions, top_n;
  bool raw; /* use_activation false */
  struct omma_truncation truncation;
  int64_t max_query_tokens, max_document_tokens; /* of texts; 0: all */
  /* Of what is replied. */
  enum ommai_vector_format format;
  enum ommai_vector_type type;
  bool big_endian;
};

/* What else a request may ask for, by its endpoint. */
struct ommai_vector_rules {
  bool is_scoring;   /* scores, not vectors */
  bool is_reranking; /* scores in order, the best first */
  bool is_pooling;   /* what the model gives, whatever that is */
  bool is_cohere;    /* vectors, in Cohere's form (cohere_embed.h) */
  const char *id_prefix;
};

/* Of a path; NULL where it is none of theirs. */
const struct ommai_vector_rules *ommai_vector_rules_of(const char *path);

/* Reads and checks all of them but the inputs. False with *error filled. */
bool ommai_vector_fields_read(struct ommai_server *server, const json_t *root, const struct ommai_vector_rules *rules,
                              struct ommai_vector_fields *fields, struct ommai_api_error *error);
