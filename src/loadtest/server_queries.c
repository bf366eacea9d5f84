#include "loadtest/server_queries.h"

#include <limits.h>
#include <stdio.h>

#include "base/allocator.h"

enum omma_status ommai_query_first_model(struct ommai_http *http, const char *base_url, const char *const *headers,
                                         const struct omma_allocator *allocator, json_t **model, struct omma_error *error) {
  char url[PATH_MAX], *body;
  int status;
  size_t size;
  snprintf(url, sizeof url, "%s/v1/models", base_url);
  struct ommai_http_request request = {.url = url, .headers = headers};
  OMMAI_TRY(ommai_http_fetch(http, &request, allocator, &status, &body, &size, error));
  json_t *root = status == 200 ? json_loadb(body, size, 0, NULL) : NULL;
  json_t *first = json_array_get(json_object_get(root, "data"), 0);
  enum omma_status result = OMMA_OK;
  *model = NULL;
  if (status == 0) {
    result = ommai_fail(error, OMMA_ERROR_IO, "%s: %s: is the server running there?", url, body);
  } else if (status != 200) {
    result = ommai_fail(error, OMMA_ERROR_IO, "%s: HTTP %d: name the model with --model", url, status);
  } else if (!json_is_string(json_object_get(first, "id"))) {
    result = ommai_fail(error, OMMA_ERROR_FORMAT, "%s: the reply names no model: name it with --model", url);
  } else {
    *model = json_incref(first);
  }
  json_decref(root);
  ommai_release(allocator, body, size + 1, 1);
  return result;
}
