#include "server/http/http_head.h"

#include <ctype.h>
#include <microhttpd.h>
#include <string.h>
#include <strings.h>

#define LINE_END 2 /* CR LF, which the library overwrites with two NUL */

/* What the headers give about the message's frame. */
struct frame {
  const char *next; /* where the next header's name must stand */
  int n_hosts, n_lengths, n_codings;
  bool chunked, bad_name, bad_value, torn;
};

/* A token of RFC 9110, section 5.6.2. */
static bool is_token(const char *text) {
  for (const char *c = text; *c; c++) {
    if (!isalnum((unsigned char)*c) && !strchr("!#$%&'*+-.^_`|~", *c)) return false;
  }
  return *text != '\0';
}

/* RFC 9110, section 5.5: visible characters of any alphabet, blanks and tabs. */
static bool is_value(const char *text) {
  for (const char *c = text; *c; c++) {
    if (((unsigned char)*c < 0x20 && *c != '\t') || *c == 0x7f) return false;
  }
  return true;
}

static enum MHD_Result look_at(void *context, enum MHD_ValueKind kind, const char *name, const char *value) {
  (void)kind;
  struct frame *frame = context;
  if (name != frame->next || !value) frame->torn = true;
  if (value) frame->next = value + strlen(value) + LINE_END;
  if (value && !is_value(value)) frame->bad_value = true;
  if (!is_token(name)) frame->bad_name = true;
  if (!strcasecmp(name, MHD_HTTP_HEADER_HOST)) frame->n_hosts++;
  if (!strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH)) frame->n_lengths++;
  if (!strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING)) {
    frame->n_codings++;
    frame->chunked = value && !strcasecmp(value, "chunked");
  }
  return MHD_YES;
}

bool ommai_http_head_is_checked(void) { return strncmp(MHD_get_version(), "0.", 2) == 0; }

/* 0.9 takes lines that end in LF alone, cuts values at NUL and joins lines that were folded, all
 * without a word. But it keeps the head as it came and hands out pointers into it: where they leave
 * another gap than two bytes, something stood there that is no line end. */
static bool has_gaps(struct MHD_Connection *connection, const struct ommai_request_line *line, const struct frame *frame) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
  if (!ommai_http_head_is_checked()) return false;
  return frame->torn || !info || frame->next + LINE_END != line->method + info->header_size;
}

static const char *find_fault(const struct frame *frame, bool is_1_0) {
  if (frame->n_codings && frame->n_lengths) return "Content-Length and Transfer-Encoding exclude each other.";
  if (frame->n_codings && (is_1_0 || frame->n_codings > 1 || !frame->chunked)) {
    return "The only Transfer-Encoding supported is chunked, once, in HTTP/1.1.";
  }
  if (frame->n_lengths > 1) return "There is more than one Content-Length header.";
  if (frame->n_hosts > 1 || (frame->n_hosts == 0 && !is_1_0)) return "Exactly one Host header is needed.";
  if (frame->bad_name) return "A header's name holds characters that are not allowed there.";
  return frame->bad_value ? "A header's value holds a control character." : NULL;
}

bool ommai_http_head_target_fits(const char *target) {
  size_t length = 0;
  while ((unsigned char)target[length] > ' ' && target[length] != 0x7f) length++;
  /* After the NUL for its end comes the version, unless the NUL was the client's. */
  const char *zero = strstr(target, "%00"), *query = strchr(target, '?');
  return !target[length] && (!zero || (query && query < zero)) && !strncmp(target + length + 1, "HTTP/1.", 7);
}

bool ommai_http_head_check(struct MHD_Connection *connection, const struct ommai_request_line *line,
                           struct ommai_api_error *error) {
  struct frame frame = {.next = line->version + strlen(line->version) + LINE_END};
  bool is_1_0 = !strcmp(line->version, MHD_HTTP_VERSION_1_0);
  MHD_get_connection_values(connection, MHD_HEADER_KIND, look_at, &frame);
  const char *fault = find_fault(&frame, is_1_0);
  if (!fault && !line->target_fits) fault = "The request's target holds a character that is not allowed there.";
  if (!fault && has_gaps(connection, line, &frame)) {
    fault = "A line of the head does not end in CR LF, is folded, or holds a NUL.";
  }
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
