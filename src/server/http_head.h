/* Whether the head of a request can be believed: what a proxy in front might read otherwise than
 * libmicrohttpd is refused. */
#ifndef OMMAI_SERVER_HTTP_HEAD_H
#define OMMAI_SERVER_HTTP_HEAD_H

#include <stdbool.h>

#include "server/api_error.h"

struct MHD_Connection;

/* One Content-Length at most, or `Transfer-Encoding: chunked`, not both; one Host (in HTTP/1.0 none
 * will do); names of headers without blanks. False with *error filled (400): the connection must
 * be closed after the reply, since nobody knows where the next request begins. Source: RFC 9112,
 * sections 3.2, 5.1, 6.1 and 6.3. */
bool ommai_http_head_check(struct MHD_Connection *connection, const char *version, struct ommai_api_error *error);

/* The path of a request's target. That of `http://host/path`, which clients send to proxies, is
 * /path. Points into `target`. */
const char *ommai_http_head_path(const char *target);

/* What follows `root` ("/models", without a slash at its end) in a path: of "/models/health" it is
 * "/health", of "/models" itself "/". Any other path is given back as it is: a proxy in front may
 * have taken the root off. root: NULL for none. Points into `path`, or is a constant. */
const char *ommai_http_head_below(const char *path, const char *root);

#endif
