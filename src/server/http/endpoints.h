/* The handlers of all routes. Each gives its call a reply, an error or a stream, at once or
 * later. */
#pragma once

#include <jansson.h>

#include "server/http/http_call.h"

/* On the IO thread: they only read counters and constants, but for those that begin a step into
 * sleep or out of it. */
void ommai_endpoint_health(struct ommai_http_call *call);
void ommai_endpoint_version(struct ommai_http_call *call);
void ommai_endpoint_load(struct ommai_http_call *call);
void ommai_endpoint_sleep(struct ommai_http_call *call);
void ommai_endpoint_wake_up(struct ommai_http_call *call);
void ommai_endpoint_is_sleeping(struct ommai_http_call *call);
void ommai_endpoint_metrics(struct ommai_http_call *call);
void ommai_endpoint_models(struct ommai_http_call *call);
void ommai_endpoint_model(struct ommai_http_call *call);
void ommai_endpoint_page(struct ommai_http_call *call);
void ommai_endpoint_openapi(struct ommai_http_call *call);
void ommai_endpoint_docs(struct ommai_http_call *call);
void ommai_endpoint_encoding(struct ommai_http_call *call);

/* On a worker; each takes the JSON of the body over. False with *error filled: the call is to get
 * the error. */
bool ommai_endpoint_chat(struct ommai_http_call *call, json_t *root, struct ommai_api_error *error);
bool ommai_endpoint_completions(struct ommai_http_call *call, json_t *root, struct ommai_api_error *error);
bool ommai_endpoint_responses(struct ommai_http_call *call, json_t *root, struct ommai_api_error *error);
bool ommai_endpoint_messages(struct ommai_http_call *call, json_t *root, struct ommai_api_error *error);
bool ommai_endpoint_count_tokens(struct ommai_http_call *call, json_t *root, struct ommai_api_error *error);
bool ommai_endpoint_ocr(struct ommai_http_call *call, json_t *root, struct ommai_api_error *error);
bool ommai_endpoint_vectors(struct ommai_http_call *call, json_t *root, struct ommai_api_error *error);
bool ommai_endpoint_tokenize(struct ommai_http_call *call, json_t *root, struct ommai_api_error *error);
bool ommai_endpoint_detokenize(struct ommai_http_call *call, json_t *root, struct ommai_api_error *error);

/* Fills server->openapi and server->docs, before the server listens: an OpenAPI document, and the
 * same for people. Its fields are not listed anywhere: each reader of requests is run over samples
 * while the reads are observed (request_json.h), so that a field which a reader asks for is
 * described. Errors: MEMORY. */
enum omma_status ommai_openapi_create(struct ommai_server *server, struct omma_error *error);
