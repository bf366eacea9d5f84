/* The fields of a request that set how its answer is drawn and sent, the same for all endpoints
 * that answer. */
#pragma once

#include <jansson.h>
#include <omma/omma.h>
#include <stdbool.h>

#include "server/api/own_fields.h"
#include "server/api/structured_output.h"
#include "server/api/token_fields.h"
#include "server/core/api_error.h"

struct ommai_server;
struct ommai_server_config;

#define OMMAI_FIELD_MAX_STOP_TOKENS 128

/* Strings belong to the JSON document, the model's name to the server. */
struct ommai_answer_fields {
  const char *model;
  const char *request_id;
  struct omma_sampling sampling;
  const char *stop[OMMA_MAX_STOP_STRINGS];
  int32_t stop_token_ids[OMMAI_FIELD_MAX_STOP_TOKENS];
  const char *max_tokens_field; /* the one that was given */
  /* none was: as many as the context leaves, or the checkpoint's default if that is fewer */
  bool default_max_tokens;
  bool own_seed; /* the request named its seed */
  int64_t n;
  int64_t priority;
  const char *cache_salt; /* NULL: none */
  bool stream, include_usage, continuous_usage;
  bool shows_reasoning; /* the reply has the reasoning */
  struct ommai_token_fields tokens;
  struct omma_truncation truncation;
  bool return_token_ids;
  struct ommai_own_wishes own;
};

/* Reads and checks all of them but those on log-probabilities, whose format differs. `max_tokens`
 * is the default, 0: the checkpoint's, or what the context leaves. The fields stay where they are:
 * the sampling points into them. */
bool ommai_answer_fields_read(struct ommai_server *server, const json_t *root, int64_t max_tokens,
                              struct ommai_answer_fields *fields, struct ommai_api_error *error);
/* Gives back what reading took, also when it failed; zeroes are allowed. */
void ommai_answer_fields_free(const struct ommai_server *server, struct ommai_answer_fields *fields);

/* Checks that a model of this name is served. */
bool ommai_model_check(const struct ommai_server_config *config, const char *name, struct ommai_api_error *error);
/* The same of the one named in root. *name is the server's own text: that name, or where there is
 * none the first that is served. */
bool ommai_model_read(const struct ommai_server_config *config, const json_t *root, const char **name,
                      struct ommai_api_error *error);
