#include "server/http_head.h"

#include <ctype.h>
#include <microhttpd.h>
#include <string.h>
#include <strings.h>

/* What the headers give about the message's frame. */
struct frame {
  int n_hosts, n_lengths, n_codings;
  bool chunked, bad_name;
};

/* A token of RFC 9110, section 5.6.2. */
static bool is_token(const char *text) {
  for (const char *c = text; *c; c++) {
    if (!isalnum((unsigned char)*c) && !strchr("!#$%&'*+-.^_`|~", *c)) return false;
  }
  return *text != '\0';
}

static enum MHD_Result look_at(void *context, enum MHD_ValueKind kind, const char *name, const char *value) {
  (void)kind;
  struct frame *frame = context;
  if (!is_token(name)) frame->bad_name = true;
  if (!strcasecmp(name, MHD_HTTP_HEADER_HOST)) frame->n_hosts++;
  if (!strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH)) frame->n_lengths++;
  if (!strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING)) {
    frame->n_codings++;
    frame->chunked = value && !strcasecmp(value, "chunked");
  }
  return MHD_YES;
}

bool ommai_http_head_check(struct MHD_Connection *connection, const char *version, struct ommai_api_error *error) {
  struct frame frame = {0};
  bool is_1_0 = !strcmp(version, MHD_HTTP_VERSION_1_0);
  MHD_get_connection_values(connection, MHD_HEADER_KIND, look_at, &frame);
  const char *fault = NULL;
  if (frame.bad_name) fault = "A header's name holds characters that are not allowed there.";
  if (frame.n_hosts > 1 || (frame.n_hosts == 0 && !is_1_0)) fault = "Exactly one Host header is needed.";
  if (frame.n_lengths > 1) fault = "There is more than one Content-Length header.";
  if (frame.n_codings && (is_1_0 || frame.n_codings > 1 || !frame.chunked)) {
    fault = "The only Transfer-Encoding supported is chunked, once, in HTTP/1.1.";
  }
  if (frame.n_codings && frame.n_lengths) fault = "Content-Length and Transfer-Encoding exclude each other.";
  return !fault || ommai_api_fail_body(error, NULL, "%s", fault);
}

const char *ommai_http_head_path(const char *target) {
  static const char *const schemes[] = {"http://", "https://"};
  for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
    size_t length = strlen(schemes[i]);
    if (strncasecmp(target, schemes[i], length)) continue;
    const char *path = strchr(target + length, '/');
    return path ? path : "/";
  }
  return target;
}

const char *ommai_http_head_below(const char *path, const char *root) {
  size_t length = root ? strlen(root) : 0;
  if (length == 0 || strncmp(path, root, length)) return path;
  if (path[length] == '\0') return "/";
  return path[length] == '/' ? path + length : path;
}
