/* In a build without libcurl. */
#include "bench_client/http_client.h"

static enum omma_status missing(struct omma_error *error) {
  return ommai_fail(
      error, OMMA_ERROR_UNSUPPORTED,
      "this program was built without an HTTP client: install libcurl (Debian: libcurl4-openssl-dev) and build again");
}

enum omma_status ommai_http_create(const struct ommai_http_options *options, const struct omma_allocator *allocator,
                                   struct ommai_http **http, struct omma_error *error) {
  (void)options;
  (void)allocator;
  *http = NULL;
  return missing(error);
}

void ommai_http_destroy(struct ommai_http *http) { (void)http; }

enum omma_status ommai_http_send(struct ommai_http *http, const struct ommai_http_request *request, struct omma_error *error) {
  (void)http;
  (void)request;
  return missing(error);
}

enum omma_status ommai_http_wait(struct ommai_http *http, double until, int wake, struct omma_error *error) {
  (void)http;
  (void)until;
  (void)wake;
  return missing(error);
}

void ommai_http_cancel(struct ommai_http *http, const char *why) {
  (void)http;
  (void)why;
}
