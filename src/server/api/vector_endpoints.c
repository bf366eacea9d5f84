/* POST /v1/embeddings, /v2/embed, /pooling, /score and /rerank. */
#include "server/api/vector_endpoints.h"

#include <string.h>

#include "server/api/vector_answer.h"
#include "server/core/request_json.h"
#include "server/http/endpoints.h"
#include "server/http/routes.h"

const struct ommai_vector_rules *ommai_vector_rules_of(const char *path) {
  static const struct ommai_vector_rules embedding = {.id_prefix = "embd-"},
                                         cohere = {.is_cohere = true, .id_prefix = "embd-"},
                                         pooling = {.is_pooling = true, .id_prefix = "pooling-"},
                                         scoring = {.is_scoring = true, .id_prefix = "score-"},
                                         reranking = {.is_scoring = true, .is_reranking = true, .id_prefix = "score-"};
  static const struct {
    const char *path;
    const struct ommai_vector_rules *rules;
  } list[] = {{"/v2/embed", &cohere}, {"/v1/embeddings", &embedding}, {"/pooling", &pooling},     {"/score", &scoring},      {"/v1/score", &scoring},
              {"/rerank", &reranking},        {"/v1/rerank", &reranking}, {"/v2/rerank", &reranking}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    if (strcmp(list[i].path, path) == 0) return list[i].rules;
  }
  return NULL;
}

void ommai_endpoint_vectors(struct ommai_http_call *call) {
  struct ommai_api_error error;
  json_t *root = ommai_request_parse(call->body.data, call->body.size, &error);
  ommai_text_free(&call->body);
  if (root) {
    ommai_vector_answer_begin(call, root, ommai_vector_rules_of(call->route->path));
  } else {
    ommai_http_call_fail(call, &error);
  }
}
