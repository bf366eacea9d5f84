/* Answers to requests for vectors and scores: their inputs go to the engine some at a time, so that
 * those of one request are computed together and never all of them wait in memory. */
#pragma once

#include "server/api/vector_inputs.h"
#include "server/http/http_call.h"

/* Reads the request and prepares its inputs; the reply, or a failure, goes to the call. Takes
 * `root` over; the body must be freed by now, and its share of the server's budget for bodies is
 * kept as long as the answer. On a worker. */
void ommai_vector_answer_begin(struct ommai_http_call *call, json_t *root, const struct ommai_vector_rules *rules);

/* Reads a request and forgets it. False with *error filled where it is refused. */
bool ommai_vector_request_check(struct ommai_server *server, const json_t *root, const struct ommai_vector_rules *rules,
                                struct ommai_api_error *error);
