/* Answers of a server that only encodes (omma_model_options.encoder_only): a chat's images go
 * through the tower, their embeddings are published, and the reply has no text and lists under
 * which keys. */
#pragma once

#include "server/api/chat_request.h"
#include "server/http/http_call.h"

/* Gives the call its reply, at once or later. The request's images are loaded; it may go when this
 * returns. On a worker. */
void ommai_encode_answer(struct ommai_http_call *call, struct ommai_chat_request *request);
