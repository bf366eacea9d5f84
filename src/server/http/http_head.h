/* Whether the head of a request can be believed: what a proxy in front might read otherwise than
 * libmicrohttpd is refused. docs/rationale.md says how it is found. */
#pragma once

#include <stdbool.h>

#include "server/core/api_error.h"

struct MHD_Connection;

/* Whether a request line's target, as it came, is one word without blanks and NUL, and %00 not in
 * its path, at which a path would end for some, with a version after it. From libmicrohttpd's
 * callback for it. */
bool ommai_http_head_target_fits(const char *target);

/* Whether line ends are looked at here, with libmicrohttpd 0.9; later ones do it by themselves. */
bool ommai_http_head_is_checked(void);

/* A request line, as libmicrohttpd hands it over. */
struct ommai_request_line {
  const char *method, *version;
  bool target_fits;
};

/* Exactly what RFC 9112 has for a head, sections 2.2, 3.2, 5, 6.1 and 6.3: every line ends in CR LF
 * and is one line; values hold no control character; names no blanks; one Content-Length at most,
 * or `Transfer-Encoding: chunked`, not both; one Host (in HTTP/1.0 none will do). False with *error
 * filled (400): the connection must be closed after the reply, since nobody knows where the next
 * request begins. To be called as the head is complete. */
bool ommai_http_head_check(struct MHD_Connection *connection, const struct ommai_request_line *line,
                           struct ommai_api_error *error);

/* The path of a request's target. That of `http://host/path`, which clients send to proxies, is
 * /path. Points into `target`. */
const char *ommai_http_head_path(const char *target);

/* What follows `root` ("/models", without a slash at its end) in a path: of "/models/health" it is
 * "/health", of "/models" itself "/". Any other path is given back as it is: a proxy in front may
 * have taken the root off. root: NULL for none. Points into `path`, or is a constant. */
const char *ommai_http_head_below(const char *path, const char *root);
