/* Pictures named by a URL in a request. */
#ifndef OMMAI_SERVER_MEDIA_H
#define OMMAI_SERVER_MEDIA_H

#include <omma/omma.h>
#include <stdbool.h>
#include <stddef.h>

#include "server/api_error.h"
#include "server/media_fetch.h"

struct ommai_server;

/* Decodes the picture of a data: URL (base64), of a file:// URL below the allowed directory, or of an http(s) URL of an allowed host.
 * False with *error filled; its message never names a file of the server. `url` need not end in NUL. */
bool ommai_media_load(const struct ommai_server *server, const char *url, size_t url_size, const struct ommai_stop *stop,
                      struct omma_image **image, struct ommai_api_error *error);

/* Decodes a picture from base64, in which white space is allowed. False with *error filled; `field` is named where it is no base64. */
bool ommai_media_decode_base64(const struct ommai_server *server, const char *field, const char *text, size_t text_size,
                               struct omma_image **image, struct ommai_api_error *error);

#endif
