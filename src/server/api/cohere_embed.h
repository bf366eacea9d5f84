/* Cohere's form of requests for vectors, POST /v2/embed, as vLLM has it: it is read as a request
 * for /v1/embeddings, and replied to in its own form. */
#pragma once

#include "server/api/vector_result.h"

struct ommai_server_config;

/* The same request for /v1/embeddings; besides what that has, it keeps what the reply needs. The
 * caller decrefs it. NULL with *error filled. */
json_t *ommai_cohere_embed_read(const struct ommai_server_config *config, const json_t *root, struct ommai_api_error *error);

/* Whether the results can be given as the request wants them. */
bool ommai_cohere_embed_check(const struct ommai_vector_reply *reply, struct ommai_api_error *error);
/* Appends the body. A failed allocation is the text's. */
void ommai_cohere_embed_write(const struct ommai_vector_reply *reply, struct ommai_text *out);
