/* What a message of a chat request has besides its role and content, as JSON for the chat
 * template. */
#pragma once

#include <jansson.h>
#include <omma/omma.h>
#include <stdbool.h>

#include "server/core/api_error.h"

/* *fields becomes the text of a JSON object, which `texts`, an array, keeps; NULL where there is
 * nothing: tool_calls of the assistant, their arguments as objects, which templates write; its
 * reasoning_content (or reasoning); tool_call_id and name of a tool. `where` names the message in
 * errors. */
bool ommai_message_fields_read(const json_t *message, const char *where, enum omma_role role, json_t *texts,
                               const char **fields, struct ommai_api_error *error);

/* *text becomes the JSON of `value`, kept in the array `texts`; NULL for NULL. */
bool ommai_json_text_keep(const json_t *value, json_t *texts, const char **text, struct ommai_api_error *error);
