/* Vectors of inputs, and how their numbers are written. */
#pragma once

#include <stdint.h>

#include "base/text_buffer.h"
#include "server/api/vector_inputs.h"

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
