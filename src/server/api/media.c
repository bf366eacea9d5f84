#include "server/api/media.h"

#include <limits.h>
#include <sodium.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/allocator.h"
#include "base/file.h"
#include "server/state/server_state.h"

#define IGNORED_IN_BASE64 " \t\r\n" /* encoders that wrap lines */

static bool has_prefix(const char *text, size_t size, const char *prefix) {
  size_t length = strlen(prefix);
  return size >= length && !strncasecmp(text, prefix, length);
}

/* An error of the codecs, about the image. */
static bool fail_image(struct ommai_api_error *error, const struct omma_error *cause) {
  ommai_api_fail_from(error, cause);
  if (error->status == 400) memcpy(error->param, "image", sizeof "image");
  return false;
}

static bool probe(const struct ommai_server *server, struct ommai_media_file *file, struct ommai_api_error *error) {
  struct omma_error cause = {0};
  if (omma_image_probe(file->bytes, file->size, &server->config.settings.image_limits, &file->header, &cause) == OMMA_OK)
    return true;
  return fail_image(error, &cause);
}

bool ommai_media_recall(struct ommai_server *server, struct ommai_media_file *file, const struct omma_image_options *options,
                        struct omma_image **image, struct ommai_api_error *error) {
  struct omma_error cause = {0};
  if (omma_image_recall(server->config.model, file->bytes, file->size, &server->config.settings.image_limits, options, image,
                        &cause) != OMMA_OK) {
    return fail_image(error, &cause);
  }
  if (!*image) return true;
  ommai_metrics_count(&server->metrics, OMMAI_IMAGES_RECALLED, 1);
  ommai_release(server->config.allocator, file->bytes, file->capacity, 1);
  file->bytes = NULL; /* the sizes are still computed from the header */
  file->size = file->capacity = 0;
  return true;
}

bool ommai_media_decode(struct ommai_server *server, struct ommai_media_file *file, int64_t max_cpu_ms,
                        struct omma_image **image, struct ommai_api_error *error) {
  struct omma_error cause = {0};
  struct omma_image_limits limits = server->config.settings.image_limits;
  limits.max_cpu_ms = max_cpu_ms;
  enum omma_status status = omma_image_decode(file->bytes, file->size, &limits, image, &cause);
  ommai_media_file_free(server, file);
  ommai_metrics_count(&server->metrics, OMMAI_IMAGES_DECODED, status == OMMA_OK);
  return status == OMMA_OK || fail_image(error, &cause);
}

void ommai_media_file_free(const struct ommai_server *server, struct ommai_media_file *file) {
  ommai_release(server->config.allocator, file->bytes, file->capacity, 1);
  *file = (struct ommai_media_file){.bytes = NULL};
}

static bool read_base64(const struct ommai_server *server, const char *field, const char *text, size_t text_size,
                        struct ommai_media_file *file, struct ommai_api_error *error) {
  file->capacity = text_size / 4 * 3 + 3;
  file->bytes = ommai_allocate(server->config.allocator, file->capacity, 1);
  if (!file->bytes) return ommai_api_fail_memory(error);
  if (sodium_base642bin((unsigned char *)file->bytes, file->capacity, text, text_size, IGNORED_IN_BASE64, &file->size, NULL,
                        sodium_base64_VARIANT_ORIGINAL) != 0) {
    return ommai_api_fail(error, 400, field, "The data is not valid base64 (wrong character, length or padding).");
  }
  return true;
}

bool ommai_media_read_base64(const struct ommai_server *server, const char *field, const char *text, size_t text_size,
                             struct ommai_media_file *file, struct ommai_api_error *error) {
  return read_base64(server, field, text, text_size, file, error) && probe(server, file, error);
}

/* "data:image/png;base64,AAAA": what stands before the comma decides the encoding; the media type
 * is not believed. */
static bool read_data_url(const struct ommai_server *server, const char *url, size_t url_size, struct ommai_media_file *file,
                          struct ommai_api_error *error) {
  static const char BASE64[] = ";base64";
  const char *comma = memchr(url, ',', url_size);
  if (!comma) return ommai_api_fail(error, 400, "image_url", "The data URL holds no comma, hence no data.");
  size_t head = (size_t)(comma - url);
  if (head < sizeof BASE64 - 1 || strncasecmp(comma - (sizeof BASE64 - 1), BASE64, sizeof BASE64 - 1)) {
    return ommai_api_fail(error, 400, "image_url", "Only base64 data URLs are supported.");
  }
  return read_base64(server, "image_url", comma + 1, url_size - head - 1, file, error);
}

/* The path of a file:// URL, percent signs decoded; false when it is too long, is not absolute, or
 * holds a NUL. */
static bool path_of_url(const char *url, size_t url_size, char *path, size_t path_size) {
  static const char SCHEME[] = "file://";
  size_t i = sizeof SCHEME - 1;
  if (has_prefix(url + i, url_size - i, "localhost/")) i += sizeof "localhost" - 1;
  return ommai_percent_decode(url + i, url_size - i, path, path_size) && path[0] == '/';
}

static bool read_file_url(const struct ommai_server *server, const char *url, size_t url_size, struct ommai_media_file *file,
                          struct ommai_api_error *error) {
  char path[PATH_MAX];
  size_t limit = server->config.fetch_rules.max_bytes;
  if (!server->config.media_root.opened) {
    return ommai_api_fail(
        error, 400, "image_url",
        "file:// URLs are not allowed on this server: --allowed-local-media-path DIR allows those of a directory.");
  }
  int descriptor = path_of_url(url, url_size, path, sizeof path) ? ommai_media_root_find(&server->config.media_root, path) : -1;
  bool read = descriptor >= 0 && ommai_file_read_open(descriptor, "image", limit, server->config.allocator, &file->bytes,
                                                      &file->size, NULL) == OMMA_OK;
  if (descriptor >= 0) close(descriptor);
  if (!read) {
    return ommai_api_fail(error, 400, "image_url", "The file of this file:// URL cannot be read, or is not one that may be.");
  }
  file->capacity = file->size + 1;
  return true;
}

static bool read_remote_url(const struct ommai_server *server, const char *url, size_t url_size, const struct ommai_stop *stop,
                            struct ommai_media_file *file, struct ommai_api_error *error) {
  struct ommai_text body = ommai_text_of(server->config.allocator);
  bool fetched = ommai_media_fetch(&server->config.fetch_rules, url, url_size, stop, &body, error);
  *file = (struct ommai_media_file){.bytes = body.data, .size = body.size, .capacity = body.capacity};
  return fetched;
}

bool ommai_media_read_bytes(const struct ommai_server *server, const char *url, size_t url_size, const struct ommai_stop *stop,
                            struct ommai_media_file *file, struct ommai_api_error *error) {
  if (has_prefix(url, url_size, "data:")) return read_data_url(server, url, url_size, file, error);
  if (has_prefix(url, url_size, "file://")) return read_file_url(server, url, url_size, file, error);
  if (has_prefix(url, url_size, "http://") || has_prefix(url, url_size, "https://")) {
    return read_remote_url(server, url, url_size, stop, file, error);
  }
  int shown = url_size < 40 ? (int)url_size : 40;
  return ommai_api_fail(error, 400, "image_url", "The URL must begin with data:, http(s):// or file://, got \"%.*s\".", shown,
                        url);
}

bool ommai_media_read(const struct ommai_server *server, const char *url, size_t url_size, const struct ommai_stop *stop,
                      struct ommai_media_file *file, struct ommai_api_error *error) {
  return ommai_media_read_bytes(server, url, url_size, stop, file, error) && probe(server, file, error);
}
