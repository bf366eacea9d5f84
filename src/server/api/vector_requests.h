/* Requests for vectors and scores: /v1/embeddings, /pooling, /score and /rerank, as vLLM has them,
 * and /v2/embed, which becomes one of these: what is read of them, how their inputs become requests
 * of the engine, and how results are replied (vector_answer.c). */
#pragma once

#include <jansson.h>
#include <omma/vectors.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/text_buffer.h"
#include "server/core/api_error.h"

struct ommai_http_call;
struct ommai_server;
struct ommai_server_config;

/* ---- fields that they have in common ---- */

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
  bool is_cohere;    /* vectors, in Cohere's form (cohere_embed.c) */
  const char *id_prefix;
};

/* Of a path; NULL where it is none of theirs. */
const struct ommai_vector_rules *ommai_vector_rules_of(const char *path);

/* Reads and checks all of them but the inputs. False with *error filled. */
bool ommai_vector_fields_read(struct ommai_server *server, const json_t *root, const struct ommai_vector_rules *rules,
                              struct ommai_vector_fields *fields, struct ommai_api_error *error);

/* Reads a whole request and forgets it. False with *error filled where it is refused. */
bool ommai_vector_request_check(struct ommai_server *server, const json_t *root, const struct ommai_vector_rules *rules,
                                struct ommai_api_error *error);

/* ---- inputs ---- */

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

/* ---- results ---- */

/* Of one input. */
struct ommai_vector_result {
  float *values; /* [n_rows, width] */
  int64_t n_rows, width, n_tokens;
};

struct ommai_vector_reply {
  const char *id, *model;
  int64_t created;
  const struct ommai_vector_rules *rules;
  bool has_token_vectors; /* results have a row for each token */
  const struct ommai_vector_fields *fields;
  const struct ommai_vector_inputs *inputs;
  const struct ommai_vector_result *results; /* [inputs->n] */
  const json_t *root;                        /* the request */
};

/* A vector's n numbers: as a list in JSON, with as many digits as it takes to be the same again, as
 * bytes, or as a string of base64, the latter two as the fields say. */
void ommai_vector_add_floats(struct ommai_text *out, const char *key, const float *values, int64_t n);
void ommai_vector_add_binary(struct ommai_text *out, const struct ommai_vector_fields *fields, const float *values, int64_t n);
void ommai_vector_add_base64(struct ommai_text *out, const char *key, const struct ommai_vector_fields *fields,
                             const float *values, int64_t n);

/* ---- from inputs to requests of the engine ---- */

/* Makes the request of input `index`: tokenizes, loads and resizes images. When the client leaves
 * meanwhile, true may be returned with *request NULL. False with *error filled. */
bool ommai_vector_input_prepare(struct ommai_http_call *call, const json_t *root, const struct ommai_vector_fields *fields,
                                const struct ommai_vector_inputs *inputs, size_t index, struct omma_request **request,
                                struct ommai_api_error *error);

/* ---- replies ---- */

/* Appends the body. Returns its content type. A failed allocation is the text's. */
const char *ommai_vector_reply_write(const struct ommai_vector_reply *reply, struct ommai_text *out);

/* ---- Cohere's form ---- */

/* The same request for /v1/embeddings; besides what that has, it keeps what the reply needs. The
 * caller decrefs it. NULL with *error filled. */
json_t *ommai_cohere_embed_read(const struct ommai_server_config *config, const json_t *root, struct ommai_api_error *error);

/* Whether the results can be given as the request wants them. */
bool ommai_cohere_embed_check(const struct ommai_vector_reply *reply, struct ommai_api_error *error);
/* Appends the body. A failed allocation is the text's. */
void ommai_cohere_embed_write(const struct ommai_vector_reply *reply, struct ommai_text *out);
