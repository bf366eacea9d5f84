/* The request of /v1/responses. */
#pragma once

#include "server/api/chat_request.h"

/* Makes a chat of the request, which it keeps. False with *error filled: what cannot be done
 * is refused by its name; values that chats have in common with it are checked there. */
bool ommai_responses_request_read(json_t *root, struct ommai_chat_source *source, struct ommai_api_error *error);

/* What the response repeats of the request: members of a JSON object. */
void ommai_responses_request_write(const struct ommai_chat_request *request, struct ommai_text *out);
