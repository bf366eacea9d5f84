/* Images named by a URL in a request: their files, and their pixels. */
#pragma once

#include <omma/omma.h>
#include <stdbool.h>
#include <stddef.h>

#include "server/core/api_error.h"
#include "server/media/media_fetch.h"

struct ommai_server;

/* An image as it was sent, and what its headers give. Zero-initialised: none. */
struct ommai_media_file {
  char *bytes;
  size_t size, capacity;
  struct omma_image_header header;
};

/* Reads the image file of a data: URL (base64), of a file:// URL below the allowed directory, or of
 * an http(s) URL of an allowed host, and its headers; decodes nothing. False with *error filled;
 * its message never names a file of the server. `url` need not end in NUL. The file is to be freed
 * in any case. */
bool ommai_media_read(const struct ommai_server *server, const char *url, size_t url_size, const struct ommai_stop *stop,
                      struct ommai_media_file *file, struct ommai_api_error *error);

/* The same of any file, whose headers are not read. */
bool ommai_media_read_bytes(const struct ommai_server *server, const char *url, size_t url_size, const struct ommai_stop *stop,
                            struct ommai_media_file *file, struct ommai_api_error *error);

/* The same from base64, in which white space is allowed. `field` is named where it is no base64. */
bool ommai_media_read_base64(const struct ommai_server *server, const char *field, const char *text, size_t text_size,
                             struct ommai_media_file *file, struct ommai_api_error *error);

/* The image as it was resized for an earlier request, NULL where that is not kept; frees the file
 * where it is. Decodes nothing. False with *error filled. */
bool ommai_media_recall(struct ommai_server *server, struct ommai_media_file *file, const struct omma_image_options *options,
                        struct omma_image **image, struct ommai_api_error *error);

/* Decodes the image and frees the file. max_cpu_ms: processor time that may be used, at least 1.
 * False with *error filled. */
bool ommai_media_decode(struct ommai_server *server, struct ommai_media_file *file, int64_t max_cpu_ms,
                        struct omma_image **image, struct ommai_api_error *error);

void ommai_media_file_free(const struct ommai_server *server, struct ommai_media_file *file);
