#include "server/metrics/http_metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The last is for all others, so that clients cannot make names. */
static const char *const methods[OMMAI_HTTP_METHODS] = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "OTHER"};
static const char *const classes[OMMAI_HTTP_CLASSES] = {"1xx", "2xx", "3xx", "4xx", "5xx"};

/* Upper bounds of buckets. Source: the default metrics of prometheus-fastapi-instrumentator. */
static const double few_bounds[OMMAI_HTTP_FEW_BUCKETS - 1] = {.1, .5, 1};
static const double many_bounds[OMMAI_HTTP_MANY_BUCKETS - 1] = {.01, .025, .05, .075, .1,  .25, .5,  .75, 1,  1.5, 2,
                                                                2.5, 3,    3.5, 4,    4.5, 5,   7.5, 10,  30, 60};

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

static size_t bucket_of(const double *bounds, size_t n_bounds, double value) {
  size_t i = 0;
  while (i < n_bounds && value > bounds[i]) i++;
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
  metrics->durations[handler][verb].buckets[bucket_of(few_bounds, OMMAI_HTTP_FEW_BUCKETS - 1, seconds)]++;
  metrics->durations[handler][verb].sum += seconds;
  metrics->many_buckets[bucket_of(many_bounds, OMMAI_HTTP_MANY_BUCKETS - 1, seconds)]++;
  metrics->sum += seconds;
  pthread_mutex_unlock(&metrics->lock);
}

static void write_counts(const struct ommai_http_metrics *metrics, const char *(*name)(size_t handler),
                         struct ommai_text *out) {
  ommai_text_add(out,
                 "# HELP http_requests_total Total number of requests by method, status and handler.\n"
                 "# TYPE http_requests_total counter\n");
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

/* Buckets, sum and count of one histogram. labels: with a comma at the end, or empty. */
static void write_histogram(const char *name, const char *labels, const double *bounds, size_t n_bounds, const int64_t *buckets,
                            double sum, struct ommai_text *out) {
  int64_t count = 0;
  int size = (int)strlen(labels);
  for (size_t i = 0; i < n_bounds; i++) {
    count += buckets[i];
    ommai_text_format(out, "%s_bucket{%sle=\"%g\"} %" PRId64 "\n", name, labels, bounds[i], count);
  }
  count += buckets[n_bounds];
  ommai_text_format(out, "%s_bucket{%sle=\"+Inf\"} %" PRId64 "\n", name, labels, count);
  /* Without the comma, and without braces where there is nothing in them. */
  const char *open = size ? "{" : "", *close = size ? "}" : "";
  if (size) size--;
  ommai_text_format(out, "%s_sum%s%.*s%s %.17g\n", name, open, size, labels, close, sum);
  ommai_text_format(out, "%s_count%s%.*s%s %" PRId64 "\n", name, open, size, labels, close, count);
}

static void write_durations(const struct ommai_http_metrics *metrics, const char *(*name)(size_t handler),
                            struct ommai_text *out) {
  static const char few[] = "http_request_duration_seconds", many[] = "http_request_duration_highr_seconds";
  ommai_text_format(out, "# HELP %s Seconds from a request's head to the end of its reply, by handler.\n# TYPE %s histogram\n",
                    few, few);
  for (size_t h = 0; h < OMMAI_HTTP_HANDLERS; h++) {
    for (size_t m = 0; m < OMMAI_HTTP_METHODS; m++) {
      char labels[160];
      const int64_t *buckets = metrics->durations[h][m].buckets;
      int64_t count = 0;
      for (size_t i = 0; i < OMMAI_HTTP_FEW_BUCKETS; i++) count += buckets[i];
      if (!count) continue;
      snprintf(labels, sizeof labels, "handler=\"%s\",method=\"%s\",", name(h) ? name(h) : "none", methods[m]);
      write_histogram(few, labels, few_bounds, OMMAI_HTTP_FEW_BUCKETS - 1, buckets, metrics->durations[h][m].sum, out);
    }
  }
  ommai_text_format(out, "# HELP %s The same of all handlers together, with more buckets.\n# TYPE %s histogram\n", many, many);
  write_histogram(many, "", many_bounds, OMMAI_HTTP_MANY_BUCKETS - 1, metrics->many_buckets, metrics->sum, out);
}

void ommai_http_metrics_write(struct ommai_http_metrics *metrics, const char *(*name)(size_t handler), struct ommai_text *out) {
  pthread_mutex_lock(&metrics->lock);
  write_counts(metrics, name, out);
  write_durations(metrics, name, out);
  pthread_mutex_unlock(&metrics->lock);
}
