/* The pictures and videos that a chat request names. */
#ifndef OMMAI_SERVER_CHAT_MEDIA_H
#define OMMAI_SERVER_CHAT_MEDIA_H

#include "server/chat_request.h"

/* Fetches and decodes them, for the parts that the request was read into. When the client leaves meanwhile, either true is returned with
 * some missing or false. False with *error filled otherwise. */
bool ommai_chat_media_load(struct ommai_exchange *exchange, struct ommai_chat_request *request, struct ommai_api_error *error);

/* Frees what has been decoded of one part. */
void ommai_chat_media_destroy(const struct ommai_chat_request *request, struct ommai_media_part *media);

#endif
