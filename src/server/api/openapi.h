/* The description of the interface: an OpenAPI document at /openapi.json, and the same for people
 * at /docs. Its fields are not listed anywhere: each reader of requests is run over samples while
 * the reads are observed (request_json.h), so that a field which a reader asks for is described. */
#pragma once

#include <omma/status.h>

struct ommai_server;

/* Fills server->openapi and server->docs, before the server listens. Errors: MEMORY. */
enum omma_status ommai_openapi_create(struct ommai_server *server, struct omma_error *error);
