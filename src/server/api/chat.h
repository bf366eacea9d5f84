/* A chat request that is ready to be answered, in the format of any endpoint that is for chats. */
#pragma once

#include "server/api/chat_job.h"
#include "server/api/reply_format.h"

/* Begins to answer. request_fields: what the reply repeats of the request, copied; NULL:
 * nothing. */
void ommai_chat_answer(struct ommai_http_call *call, struct ommai_chat_request *request,
                       const struct ommai_reply_format *format, const struct ommai_text *request_fields);

/* The tokens of the prompt that the request makes. False with *error filled. */
bool ommai_chat_count_tokens(const struct ommai_server *server, const struct ommai_chat_request *request, int64_t *n_tokens,
                             struct ommai_api_error *error);
