/* Many HTTP requests at once on one thread. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct ommai_http; /* belongs to one thread */

struct ommai_http_options {
  bool insecure;          /* certificates are not checked */
  double timeout_seconds; /* of a whole request */
  size_t n_parallel;      /* requests at a time, for which descriptors are made sure of */
};

/* Raises the process's limit of open files as far as n_parallel needs it. Errors: UNSUPPORTED (a
 * build without libcurl), LIMIT (of open files, with the numbers), IO, MEMORY. */
enum omma_status ommai_http_create(const struct ommai_http_options *options, const struct omma_allocator *allocator,
                                   struct ommai_http **http, struct omma_error *error);

/* Requests that still run end without a call of on_end. NULL is allowed. */
void ommai_http_destroy(struct ommai_http *http);

/* How a request ended. */
struct ommai_http_end {
  int status;          /* of HTTP; 0: none came */
  const char *reason;  /* the phrase after the status, or "" */
  const char *failure; /* why it failed on the way, or NULL when the reply is complete */
};

/* What is borrowed must live until on_end. on_data gets pieces of the body with the status, and
 * returns false to stop; then `failure` gives the reason. on_end is called once, from
 * ommai_http_wait. */
struct ommai_http_request {
  const char *url;
  const char *body; /* NULL: a GET, else a POST of JSON */
  size_t body_size;
  const char *const *headers; /* "Name: value", ends in NULL; may be NULL */
  const char *request_id;     /* for the header X-Request-Id, or NULL */
  double timeout_seconds;     /* of this request; 0: the client's */
  bool (*on_data)(void *context, int status, const char *bytes, size_t size);
  void (*on_end)(void *context, const struct ommai_http_end *end);
  void *context;
};
enum omma_status ommai_http_send(struct ommai_http *http, const struct ommai_http_request *request, struct omma_error *error);

/* Works until something has ended or moved on, `until` (monotonic seconds) has come, or `wake`, a
 * descriptor (-1: none), is readable, which it only looks at. */
enum omma_status ommai_http_wait(struct ommai_http *http, double until, int wake, struct omma_error *error);

/* Ends all requests that run: on_end gets `why` as the failure. */
void ommai_http_cancel(struct ommai_http *http, const char *why);
