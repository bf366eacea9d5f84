/* What is read of requests that are no chats of OpenAI's, by their endpoint and by whoever only
 * wants to know whether they are taken (openapi.c). */
#pragma once

#include "server/api/chat_request.h"

/* ---- /v1/messages and /v1/messages/count_tokens ---- */

/* Makes a chat of the request, which is taken over. count_only: what concerns the answer is not
 * read. False with *error filled: what cannot be done is refused by its name; values that chats
 * have in common with it are checked there. */
bool ommai_messages_request_read(const struct ommai_server_config *config, json_t *root, bool count_only,
                                 struct ommai_chat_source *source, struct ommai_api_error *error);

/* ---- /v1/responses ---- */

/* Makes a chat of the request, which is taken over. False with *error filled: what cannot be done
 * is refused by its name; values that chats have in common with it are checked there. */
bool ommai_responses_request_read(json_t *root, struct ommai_chat_source *source, struct ommai_api_error *error);

/* What the response repeats of the request: members of a JSON object. */
void ommai_responses_request_write(const struct ommai_chat_request *request, struct ommai_text *out);

/* ---- /v1/completions ---- */

/* Reads and checks a request and drops what it became. False with *error filled. */
bool ommai_completion_check(struct ommai_server *server, json_t *root, struct ommai_api_error *error);

/* ---- /tokenize (of a prompt) and /detokenize ---- */

/* Each takes `root` over and appends the reply. False with *error filled. */
bool ommai_tokenize(const struct ommai_server_config *config, json_t *root, struct ommai_text *out,
                    struct ommai_api_error *error);
bool ommai_detokenize(const struct ommai_server_config *config, json_t *root, struct ommai_text *out,
                      struct ommai_api_error *error);
