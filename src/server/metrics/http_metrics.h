/* Requests by path, method and class of status, with the names that vLLM's server has from
 * prometheus-fastapi-instrumentator. */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "base/text_buffer.h"
#include "server/metrics/metrics.h"

#define OMMAI_HTTP_HANDLERS 40 /* routes by their index, and at last any other path */
#define OMMAI_HTTP_METHODS 8
#define OMMAI_HTTP_CLASSES 5

/* Any thread may observe. Zero-initialised memory and ommai_http_metrics_init make it ready. */
struct ommai_http_metrics {
  pthread_mutex_t lock;
  int64_t counts[OMMAI_HTTP_HANDLERS][OMMAI_HTTP_METHODS][OMMAI_HTTP_CLASSES];
  struct ommai_histogram durations[OMMAI_HTTP_HANDLERS][OMMAI_HTTP_METHODS];
  struct ommai_histogram all_durations; /* with more buckets */
};

void ommai_http_metrics_init(struct ommai_http_metrics *metrics);
void ommai_http_metrics_destroy(struct ommai_http_metrics *metrics);

/* Counts a request that is over. handler: the index of its route, or one that no route has. */
void ommai_http_metrics_observe(struct ommai_http_metrics *metrics, size_t handler, const char *method, int status,
                                double seconds);

/* name: of the route with this index; NULL where there is none. */
void ommai_http_metrics_write(struct ommai_http_metrics *metrics, const char *(*name)(size_t handler), struct ommai_text *out);
