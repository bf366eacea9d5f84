/* The request of /v1/messages and of /v1/messages/count_tokens. */
#pragma once

#include "server/api/chat_request.h"

/* Makes a chat of the request, which it keeps. count_only: what concerns the answer is not read.
 * False with *error filled: what cannot be done is refused by its name; values that chats have in
 * common with it are checked there. */
bool ommai_messages_request_read(const struct ommai_server_config *config, json_t *root, bool count_only,
                                 struct ommai_chat_source *source, struct ommai_api_error *error);
