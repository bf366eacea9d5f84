/* Between the texts and token ids of requests. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text_buffer.h"
#include "server/core/api_error.h"

struct ommai_server_config;

/* Each gives *tokens in the server's memory, to be released with *n_tokens (also when there are
 * none); false with *error filled. */
/* A text of more than `max_tokens` tokens is refused before more of it is read than that takes. */
bool ommai_text_tokenize(const struct ommai_server_config *config, const json_t *text, size_t max_tokens, int32_t **tokens,
                         size_t *n_tokens, struct ommai_api_error *error);
/* `field` names the array in errors. */
bool ommai_token_array_read(const struct ommai_server_config *config, const json_t *array, const char *field, int32_t **tokens,
                            size_t *n_tokens, struct ommai_api_error *error);

/* Appends the text of tokens. */
bool ommai_token_text_add(const struct ommai_server_config *config, const int32_t *tokens, size_t n_tokens,
                          struct ommai_text *out, struct ommai_api_error *error);
