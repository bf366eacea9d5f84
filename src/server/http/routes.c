#include "server/http/routes.h"

#include <string.h>

#include "server/core/request_json.h"
#include "server/http/endpoints.h"
#include "server/metrics/http_metrics.h"
#include "server/state/server_config.h"

#define PAGE "/"
#define DESCRIPTION "/openapi.json"
#define DOCS "/docs"

static const struct ommai_route routes[] = {
    {"/v1/chat/completions", OMMAI_METHOD_POST, .answer = ommai_endpoint_chat},
    {"/v1/completions", OMMAI_METHOD_POST, .answer = ommai_endpoint_completions},
    {"/v1/responses", OMMAI_METHOD_POST, .answer = ommai_endpoint_responses},
    {"/v1/messages", OMMAI_METHOD_POST, .answer = ommai_endpoint_messages},
    {"/v1/ocr", OMMAI_METHOD_POST, .answer = ommai_endpoint_ocr},
    {"/v1/encodings/{key}", OMMAI_METHOD_GET, .handle = ommai_endpoint_encoding},
    {"/v1/messages/count_tokens", OMMAI_METHOD_POST, .answer = ommai_endpoint_count_tokens},
    {"/v1/embeddings", OMMAI_METHOD_POST, .answer = ommai_endpoint_vectors},
    {"/v2/embed", OMMAI_METHOD_POST, .answer = ommai_endpoint_vectors},
    {"/pooling", OMMAI_METHOD_POST, .answer = ommai_endpoint_vectors},
    {"/score", OMMAI_METHOD_POST, .answer = ommai_endpoint_vectors},
    {"/v1/score", OMMAI_METHOD_POST, .answer = ommai_endpoint_vectors},
    {"/rerank", OMMAI_METHOD_POST, .answer = ommai_endpoint_vectors},
    {"/v1/rerank", OMMAI_METHOD_POST, .answer = ommai_endpoint_vectors},
    {"/v2/rerank", OMMAI_METHOD_POST, .answer = ommai_endpoint_vectors},
    {"/v1/models", OMMAI_METHOD_GET, .handle = ommai_endpoint_models},
    {"/v1/models/{model}", OMMAI_METHOD_GET, .handle = ommai_endpoint_model},
    {"/tokenize", OMMAI_METHOD_POST, .answer = ommai_endpoint_tokenize},
    {"/detokenize", OMMAI_METHOD_POST, .answer = ommai_endpoint_detokenize},
    {"/health", OMMAI_METHOD_GET, .handle = ommai_endpoint_health},
    {"/ping", OMMAI_METHOD_GET | OMMAI_METHOD_POST, .handle = ommai_endpoint_health},
    {"/version", OMMAI_METHOD_GET, .handle = ommai_endpoint_version},
    {"/load", OMMAI_METHOD_GET, .handle = ommai_endpoint_load},
    {"/sleep", OMMAI_METHOD_POST, .handle = ommai_endpoint_sleep},
    {"/wake_up", OMMAI_METHOD_POST, .handle = ommai_endpoint_wake_up},
    {"/is_sleeping", OMMAI_METHOD_GET, .handle = ommai_endpoint_is_sleeping},
    {"/metrics", OMMAI_METHOD_GET, .handle = ommai_endpoint_metrics},
    {DESCRIPTION, OMMAI_METHOD_GET, .handle = ommai_endpoint_openapi},
    {DOCS, OMMAI_METHOD_GET, .handle = ommai_endpoint_docs},
    {PAGE, OMMAI_METHOD_GET, .handle = ommai_endpoint_page},
};
_Static_assert(OMMAI_N_ROUTES < OMMAI_HTTP_HANDLERS, "each route is counted apart");
_Static_assert(sizeof routes / sizeof routes[0] == OMMAI_N_ROUTES, "OMMAI_N_ROUTES counts the table");

const struct ommai_route *ommai_route_find(const char *path, const char **rest) {
  for (size_t i = 0; i < OMMAI_N_ROUTES; i++) {
    size_t fixed = strcspn(routes[i].path, "{");
    if (strncmp(routes[i].path, path, fixed) != 0 || !routes[i].path[fixed] != !path[fixed]) continue;
    *rest = path + fixed;
    return &routes[i];
  }
  return NULL;
}

/* Whether its answers are text that the model writes. */
static bool generates(const struct ommai_route *route) {
  return route->answer == ommai_endpoint_chat || route->answer == ommai_endpoint_completions ||
         route->answer == ommai_endpoint_responses || route->answer == ommai_endpoint_messages ||
         route->answer == ommai_endpoint_ocr;
}

/* Whether the model is one for this route. What vectors and scores need, their handler checks. */
static bool check_model(const struct omma_model_info *info, const struct ommai_route *route, struct ommai_api_error *error) {
  bool gives_vectors = info->task == OMMA_TASK_EMBED;
  if (info->encoder_only) {
    /* images of chats can also be encoded alone */
    bool refused = route->answer == ommai_endpoint_vectors || (generates(route) && route->answer != ommai_endpoint_chat);
    return !refused || ommai_api_fail(error, 400, NULL,
                                      "This server only encodes images (--mm-encoder-only) and generates no text: send "
                                      "them to /v1/chat/completions.");
  }
  if (!generates(route) || info->task == OMMA_TASK_GENERATE) return true;
  return ommai_api_fail(error, 400, "model",
                        "The model gives %s and generates no text: ask %s. Its family's Instruct and Thinking models answer.",
                        gives_vectors ? "vectors of inputs" : "scores of documents",
                        info->token_vector_width ? "/pooling, /v1/score or /v1/rerank"
                        : gives_vectors          ? "/v1/embeddings, /v1/score or /v1/rerank"
                                                 : "/v1/score or /v1/rerank");
}

/* The text of the body is freed by the time that the route has its JSON. */
static bool answer(struct ommai_http_call *call, struct ommai_api_error *error) {
  json_t *root = ommai_request_parse(call->body.data, call->body.size, error);
  ommai_text_free(&call->body);
  return root && call->route->answer(call, root, error);
}

void ommai_route_run(struct ommai_job *job) {
  struct ommai_http_call *call = (struct ommai_http_call *)job;
  struct ommai_api_error error;
  bool good = check_model(&call->config->info, call->route, &error) && (ommai_http_call_is_gone(call) || answer(call, &error));
  if (!good) ommai_http_call_fail(call, &error);
  ommai_http_call_release_body(call);
  ommai_http_call_release(call);
}

size_t ommai_route_index(const struct ommai_route *route) { return (size_t)(route - routes); }

const char *ommai_route_name(size_t index) { return index < OMMAI_N_ROUTES ? routes[index].path : NULL; }

const struct ommai_route *ommai_route_at(size_t index) { return index < OMMAI_N_ROUTES ? &routes[index] : NULL; }

bool ommai_route_needs_key(const char *path, bool metrics_open, bool page_open) {
  static const char *const open_paths[] = {"/health", "/ping", "/version"};
  for (size_t i = 0; i < sizeof open_paths / sizeof open_paths[0]; i++) {
    if (!strcmp(path, open_paths[i])) return false;
  }
  if (page_open && (!strcmp(path, PAGE) || !strcmp(path, DESCRIPTION) || !strcmp(path, DOCS))) return false;
  return !metrics_open || strcmp(path, "/metrics") != 0;
}

bool ommai_route_is_page(const struct ommai_route *route) { return route->handle == ommai_endpoint_page; }

bool ommai_route_is_offered(const struct ommai_route *route, const struct ommai_server_config *config) {
  if (route->handle == ommai_endpoint_encoding) return config->info.encoder_only;
  bool of_sleep = route->handle == ommai_endpoint_sleep || route->handle == ommai_endpoint_wake_up;
  return !of_sleep || config->settings.enable_sleep_mode;
}

bool ommai_route_is_for_checks(const struct ommai_route *route) {
  return route->handle == ommai_endpoint_health || route->handle == ommai_endpoint_version ||
         route->handle == ommai_endpoint_metrics || route->handle == ommai_endpoint_load;
}

const char *ommai_route_allow(const struct ommai_route *route) {
  switch (route->methods) {
    case OMMAI_METHOD_GET: return "GET, HEAD";
    case OMMAI_METHOD_POST: return "POST";
    default: return "GET, HEAD, POST";
  }
}
