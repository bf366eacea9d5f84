/* The images and videos that a chat request names. */
#pragma once

#include "server/api/chat_request.h"

/* Reads their files and headers, refuses what cannot fit into the context or into the server's
 * memory for decoding, waits for that memory, and decodes them, for the parts that the request was
 * read into. The memory is given back with the images, by ommai_chat_request_destroy. False with
 * *error filled on failure. If the client leaves meanwhile, some images may be missing whatever is
 * returned. */
bool ommai_chat_media_load(struct ommai_http_call *call, struct ommai_chat_request *request, struct ommai_api_error *error);
