/* The request of /v1/completions. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "server/core/api_error.h"

struct ommai_server;

/* Reads and checks a request and drops what it became. False with *error filled. */
bool ommai_completion_check(struct ommai_server *server, json_t *root, struct ommai_api_error *error);
