/* How an input of a request for vectors or scores becomes a request of the engine. */
#pragma once

#include "server/api/vector_inputs.h"

struct ommai_http_call;

/* Makes the request of input `index`: tokenizes, loads and resizes images. When the client leaves
 * meanwhile, true may be returned with *request NULL. False with *error filled. */
bool ommai_vector_input_prepare(struct ommai_http_call *call, const json_t *root, const struct ommai_vector_fields *fields,
                                const struct ommai_vector_inputs *inputs, size_t index, struct omma_request **request,
                                struct ommai_api_error *error);
