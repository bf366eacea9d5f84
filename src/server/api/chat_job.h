/* The way of a chat request, of /v1/chat/completions or /tokenize, from its JSON to the
 * endpoint. */
#pragma once

#include "server/api/chat_request.h"

/* What an endpoint does with a request whose images are decoded; it gives the call a reply or a
 * stream, or returns false with *error filled. The request is destroyed afterwards. */
typedef bool (*ommai_chat_handler)(struct ommai_http_call *call, struct ommai_chat_request *request,
                                   struct ommai_api_error *error);

/* Reads a chat request from the call's JSON and hands it to `handle`: at once, or, where it names
 * images, from the queue of those that do, so that requests without images never wait behind
 * decoding. `source` is taken over; the body must be freed by now, and its share of the server's
 * budget for bodies is kept until the request is destroyed. On a worker. messages_only: as
 * ommai_chat_request_read. False with *error filled where memory is out; other errors go to the
 * call. */
bool ommai_chat_job_start(struct ommai_http_call *call, const struct ommai_chat_source *source, bool messages_only,
                          ommai_chat_handler handle, struct ommai_api_error *error);

/* The answer of a server that only encodes (omma_model_options.encoder_only): a chat's images go
 * through the tower, their embeddings are published, and the reply has no text and lists under
 * which keys. The request's images are loaded; it may go when this returns. As any handler, on a
 * worker. */
bool ommai_encode_answer(struct ommai_http_call *call, struct ommai_chat_request *request, struct ommai_api_error *error);

/* Reads the files and headers of its images and videos, refuses what cannot fit into the context or
 * into the server's memory for decoding, waits for that memory, and decodes them, for the parts
 * that the request was read into. The memory is given back with the images, by
 * ommai_chat_request_destroy. False with *error filled on failure. If the client leaves meanwhile,
 * some images may be missing whatever is returned. */
bool ommai_chat_media_load(struct ommai_http_call *call, struct ommai_chat_request *request, struct ommai_api_error *error);
