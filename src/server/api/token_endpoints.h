/* The requests of /tokenize (of a prompt) and /detokenize. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "server/core/api_error.h"

struct ommai_server_config;

/* Each appends the reply. False with *error filled. */
bool ommai_tokenize(const struct ommai_server_config *config, const json_t *root, struct ommai_text *out,
                    struct ommai_api_error *error);
bool ommai_detokenize(const struct ommai_server_config *config, const json_t *root, struct ommai_text *out,
                      struct ommai_api_error *error);
