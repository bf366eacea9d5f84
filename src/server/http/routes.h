/* Which path is served by what. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "server/http/http_call.h"

struct ommai_server_config;

#define OMMAI_METHOD_GET 1u /* and HEAD */
#define OMMAI_METHOD_POST 2u

#define OMMAI_N_ROUTES 30

struct ommai_route {
  const char *path; /* up to a "{" where anything follows: "/v1/models/{model}" */
  unsigned methods;
  /* One of them. On the IO thread, at once: */
  void (*handle)(struct ommai_http_call *call);
  /* On a worker, for bodies of type application/json: takes `root`, what is in it, over. False with
   * *error filled: the call is to get the error. */
  bool (*answer)(struct ommai_http_call *call, json_t *root, struct ommai_api_error *error);
};

/* The route of a path, NULL where there is none. *rest is what of the path stands for the route's
 * last part in braces, else empty. */
const struct ommai_route *ommai_route_find(const char *path, const char **rest);

/* The job of a call: hands it to its route, and gives back its body and the job's reference. On a
 * worker. */
void ommai_route_run(struct ommai_job *job);

/* Places in the table, from 0 on; NULL after the last. */
size_t ommai_route_index(const struct ommai_route *route);
const struct ommai_route *ommai_route_at(size_t index);
const char *ommai_route_name(size_t index); /* its path */

/* True for paths that the API key protects, whether or not they exist: all but those of health
 * checks, and where they are open /metrics, and the page with the interface's description. */
bool ommai_route_needs_key(const char *path, bool metrics_open, bool page_open);

/* True where the route is the page for people, which a server may be without. */
bool ommai_route_is_page(const struct ommai_route *route);

/* False for routes that a setting switches on, where it does not: they answer with status 404, and
 * the interface's description has none of them. */
bool ommai_route_is_offered(const struct ommai_route *route, const struct ommai_server_config *config);

/* True where the route reports how the server is and costs nothing: it is served when there is no
 * room for others. */
bool ommai_route_is_for_checks(const struct ommai_route *route);

/* The value of the Allow header, a constant string. */
const char *ommai_route_allow(const struct ommai_route *route);
