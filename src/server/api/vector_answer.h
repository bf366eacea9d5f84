/* Requests for vectors and scores, for those who only want to know whether they are taken. */
#pragma once

#include "server/api/vector_inputs.h"

/* Reads a request and forgets it. False with *error filled where it is refused. */
bool ommai_vector_request_check(struct ommai_server *server, const json_t *root, const struct ommai_vector_rules *rules,
                                struct ommai_api_error *error);
