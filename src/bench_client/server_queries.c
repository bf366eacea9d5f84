#include "bench_client/server_queries.h"

#include <limits.h>
#include <stdio.h>

#include "base/allocator.h"
#include "base/file.h"
#include "base/json.h"

/* What helps against a reply that is not a list of models. */
static const char *hint(const char *base_url, int status) {
  if (status == 401 || status == 403) return "give the key with --header \"Authorization=Bearer KEY\"";
  if (ommai_path_ends_with(base_url, "/v1")) return "give --base-url without /v1 at its end";
  return "name the model with --model";
}

enum omma_status ommai_query_first_model(struct ommai_http *http, const char *base_url, const char *const *headers,
                                         const struct omma_allocator *allocator, json_t **model, struct omma_error *error) {
  char url[PATH_MAX], *body;
  int status;
  size_t size;
  snprintf(url, sizeof url, "%s/v1/models", base_url);
  struct ommai_http_request request = {.url = url, .headers = headers};
  OMMAI_TRY(ommai_http_fetch(http, &request, allocator, &status, &body, &size, error));
  bool no_memory = false;
  json_t *root = status == 200 ? ommai_json_parse(body, size, 0, NULL, &no_memory) : NULL;
  json_t *first = json_array_get(json_object_get(root, "data"), 0);
  enum omma_status result = OMMA_OK;
  *model = NULL;
  if (no_memory) {
    result = ommai_fail_memory(error, url, size);
  } else if (status == 0) {
    result = ommai_fail(error, OMMA_ERROR_IO, "%s: %s: is the server running there?", url, body);
  } else if (status != 200) {
    result = ommai_fail(error, OMMA_ERROR_IO, "%s: HTTP %d: %s", url, status, hint(base_url, status));
  } else if (!json_is_string(json_object_get(first, "id"))) {
    result = ommai_fail(error, OMMA_ERROR_FORMAT, "%s: the reply names no model: %s", url, hint(base_url, status));
  } else {
    *model = json_incref(first);
  }
  json_decref(root);
  ommai_release(allocator, body, size + 1, 1);
  return result;
}
