#include "server/routes.h"

#include <string.h>

#include "server/endpoints.h"

static const struct ommai_route routes[] = {
    {"/v1/chat/completions", OMMAI_METHOD_POST, true, ommai_endpoint_chat, false},
    {"/v1/completions", OMMAI_METHOD_POST, true, ommai_endpoint_completions, false},
    {"/v1/models", OMMAI_METHOD_GET, false, ommai_endpoint_models, false},
    {"/tokenize", OMMAI_METHOD_POST, true, ommai_endpoint_tokenize, false},
    {"/detokenize", OMMAI_METHOD_POST, true, ommai_endpoint_detokenize, false},
    {"/health", OMMAI_METHOD_GET, false, ommai_endpoint_health, true},
    {"/ping", OMMAI_METHOD_GET | OMMAI_METHOD_POST, false, ommai_endpoint_health, true},
    {"/version", OMMAI_METHOD_GET, false, ommai_endpoint_version, true},
    {"/load", OMMAI_METHOD_GET, false, ommai_endpoint_load, true},
    {"/metrics", OMMAI_METHOD_GET, false, ommai_endpoint_metrics, true},
    {"/", OMMAI_METHOD_GET, false, ommai_endpoint_page, false},
};

const struct ommai_route *ommai_route_find(const char *path) {
  for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
    if (!strcmp(routes[i].path, path)) return &routes[i];
  }
  return NULL;
}

size_t ommai_route_index(const struct ommai_route *route) { return (size_t)(route - routes); }

const struct ommai_route *ommai_route_at(size_t index) {
  return index < sizeof routes / sizeof routes[0] ? &routes[index] : NULL;
}

bool ommai_route_needs_key(const char *path) { return !strcmp(path, "/v1") || !strncmp(path, "/v1/", 4); }

const char *ommai_route_allow(const struct ommai_route *route) {
  switch (route->methods) {
    case OMMAI_METHOD_GET: return "GET, HEAD";
    case OMMAI_METHOD_POST: return "POST";
    default: return "GET, HEAD, POST";
  }
}
