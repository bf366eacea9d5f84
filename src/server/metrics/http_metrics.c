#include "server/metrics/http_metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "server/metrics/metrics_text.h"

/* The last is for all others, so that clients cannot make names. */
static const char *const methods[OMMAI_HTTP_METHODS] = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "OTHER"};
static const char *const classes[OMMAI_HTTP_CLASSES] = {"1xx", "2xx", "3xx", "4xx", "5xx"};

/* Upper bounds of buckets, and 0 at the end. Source: the default metrics of
 * prometheus-fastapi-instrumentator. */
static const double few_bounds[] = {.1, .5, 1, 0};
static const double many_bounds[] = {.01, .025, .05, .075, .1,  .25, .5,  .75, 1,  1.5, 2,
                                     2.5, 3,    3.5, 4,    4.5, 5,   7.5, 10,  30, 60,  0};

void ommai_http_metrics_init(struct ommai_http_metrics *metrics) {
  memset(metrics, 0, sizeof *metrics);
  pthread_mutex_init(&metrics->lock, NULL);
}

void ommai_http_metrics_destroy(struct ommai_http_metrics *metrics) { pthread_mutex_destroy(&metrics->lock); }

static size_t method_of(const char *method) {
  size_t i = 0;
  while (i + 1 < OMMAI_HTTP_METHODS && strcmp(methods[i], method) != 0) i++;
  return i;
}

void ommai_http_metrics_observe(struct ommai_http_metrics *metrics, size_t handler, const char *method, int status,
                                double seconds) {
  size_t verb = method_of(method);
  int class = status / 100 - 1;
  if (handler >= OMMAI_HTTP_HANDLERS) handler = OMMAI_HTTP_HANDLERS - 1;
  if (class < 0 || class >= OMMAI_HTTP_CLASSES) return;
  pthread_mutex_lock(&metrics->lock);
  metrics->counts[handler][verb][class]++;
  ommai_histogram_add(&metrics->durations[handler][verb], few_bounds, seconds);
  ommai_histogram_add(&metrics->all_durations, many_bounds, seconds);
  pthread_mutex_unlock(&metrics->lock);
}

static void write_counts(const struct ommai_http_metrics *metrics, const char *(*name)(size_t handler),
                         struct ommai_text *out) {
  ommai_metrics_begin(out, "http_requests_total", "counter", "Total number of requests by method, status and handler.");
  for (size_t h = 0; h < OMMAI_HTTP_HANDLERS; h++) {
    for (size_t m = 0; m < OMMAI_HTTP_METHODS; m++) {
      for (size_t c = 0; c < OMMAI_HTTP_CLASSES; c++) {
        if (!metrics->counts[h][m][c]) continue;
        ommai_text_format(out, "http_requests_total{handler=\"%s\",method=\"%s\",status=\"%s\"} %" PRId64 "\n",
                          name(h) ? name(h) : "none", methods[m], classes[c], metrics->counts[h][m][c]);
      }
    }
  }
}

static bool is_used(const struct ommai_histogram *histogram) {
  const int64_t *count = histogram->counts;
  while (count < histogram->counts + OMMAI_HISTOGRAM_MAX_BUCKETS && !*count) count++;
  return *count;
}

static void write_durations(const struct ommai_http_metrics *metrics, const char *(*name)(size_t handler),
                            struct ommai_text *out) {
  static const char few[] = "http_request_duration_seconds", many[] = "http_request_duration_highr_seconds";
  ommai_metrics_begin(out, few, "histogram", "Seconds from a request's head to the end of its reply, by handler.");
  for (size_t h = 0; h < OMMAI_HTTP_HANDLERS; h++) {
    for (size_t m = 0; m < OMMAI_HTTP_METHODS; m++) {
      char labels[160];
      if (!is_used(&metrics->durations[h][m])) continue;
      snprintf(labels, sizeof labels, "handler=\"%s\",method=\"%s\"", name(h) ? name(h) : "none", methods[m]);
      ommai_histogram_write(out, few, labels, &metrics->durations[h][m], few_bounds, INFINITY);
    }
  }
  ommai_metrics_begin(out, many, "histogram", "The same of all handlers together, with more buckets.");
  ommai_histogram_write(out, many, "", &metrics->all_durations, many_bounds, INFINITY);
}

void ommai_http_metrics_write(struct ommai_http_metrics *metrics, const char *(*name)(size_t handler), struct ommai_text *out) {
  pthread_mutex_lock(&metrics->lock);
  write_counts(metrics, name, out);
  write_durations(metrics, name, out);
  pthread_mutex_unlock(&metrics->lock);
}
