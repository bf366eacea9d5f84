#include "bench_client/bench_metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "bench_client/data_set.h"

#define MAX_SECONDS (366.0 * 24 * 3600)

const struct ommai_metric_name ommai_metric_names[OMMAI_METRIC_COUNT] = {
    [OMMAI_METRIC_TTFT] = {"ttft", "TTFT", "Time to First Token"},
    [OMMAI_METRIC_TPOT] = {"tpot", "TPOT", "Time per Output Token (excl. 1st token)"},
    [OMMAI_METRIC_ITL] = {"itl", "ITL", "Inter-token Latency"},
    [OMMAI_METRIC_E2EL] = {"e2el", "E2EL", "End-to-end Latency"},
    [OMMAI_METRIC_QUEUE] = {"client_queue_time", "Client Queue Time", "Client-side Queueing"},
    [OMMAI_METRIC_E2EL_WITH_QUEUE] = {"e2el_including_client_queue", "E2EL incl. Client Queue",
                                      "Queue-inclusive End-to-end Latency"},
};

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Linear interpolation between order statistics, rounded as NumPy rounds it. */
static double percentile(const double *sorted, size_t n, double percent) {
  double place = percent / 100 * (double)(n - 1), below = floor(place), part = place - below;
  size_t i = (size_t)below;
  if (i + 1 >= n) return sorted[n - 1];
  double step = sorted[i + 1] - sorted[i];
  return part < 0.5 ? sorted[i] + step * part : sorted[i + 1] - step * (1 - part);
}

void ommai_statistics_compute(double *values, size_t n, const double *percentiles, size_t n_percentiles,
                              struct ommai_statistics *statistics) {
  *statistics = (struct ommai_statistics){0};
  if (n == 0) return;
  long double sum = 0, squares = 0;
  for (size_t i = 0; i < n; i++) sum += values[i];
  statistics->mean = (double)(sum / n);
  for (size_t i = 0; i < n; i++) squares += ((long double)values[i] - statistics->mean) * (values[i] - statistics->mean);
  statistics->std = (double)sqrtl(squares / n);
  qsort(values, n, sizeof *values, compare);
  statistics->median = n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
  for (size_t i = 0; i < n_percentiles; i++) statistics->percentiles[i] = percentile(values, n, percentiles[i]);
}

static double tpot_of(const struct ommai_reply *reply, int64_t output_len) {
  return output_len > 1 ? (reply->latency - reply->ttft) / (double)(output_len - 1) : 0;
}

/* A metric's values of one reply, appended at `out`; returns how many. */
static size_t values_of(const struct ommai_reply *reply, int64_t output_len, enum ommai_metric metric, double *out) {
  switch (metric) {
    case OMMAI_METRIC_TTFT: *out = reply->ttft; return 1;
    case OMMAI_METRIC_TPOT: *out = tpot_of(reply, output_len); return output_len > 1;
    case OMMAI_METRIC_ITL:
      if (reply->n_itls) memcpy(out, reply->itls, reply->n_itls * sizeof *out);
      return reply->n_itls;
    case OMMAI_METRIC_E2EL: *out = reply->latency; return 1;
    case OMMAI_METRIC_QUEUE: *out = reply->queue_time; return 1;
    case OMMAI_METRIC_E2EL_WITH_QUEUE: *out = reply->latency + reply->queue_time; return 1;
    case OMMAI_METRIC_COUNT: break;
  }
  return 0;
}

/* Where neither the server nor the tokenizer gives a count, it is 1 and *uncounted is true. */
static enum omma_status count_tokens(const struct ommai_metrics_settings *settings, const struct ommai_reply *reply,
                                     int64_t *count, bool *uncounted, struct omma_error *error) {
  *count = reply->output_tokens;
  *uncounted = *count <= 0 && !settings->tokenizer;
  if (*count > 0) return OMMA_OK;
  enum omma_status status = ommai_data_count_tokens(settings->tokenizer, reply->text, reply->text_size, count, error);
  if (status != OMMA_ERROR_LIMIT) return status;
  *count = 1;
  *uncounted = true;
  return OMMA_OK;
}

static bool is_good(const struct ommai_metrics_settings *settings, const struct ommai_reply *reply, int64_t output_len) {
  const double *demands = settings->goodput;
  return !(reply->ttft > demands[OMMAI_METRIC_TTFT]) && !(tpot_of(reply, output_len) > demands[OMMAI_METRIC_TPOT]) &&
         !(reply->latency > demands[OMMAI_METRIC_E2EL]);
}

static enum omma_status count_all(const struct ommai_metrics_settings *settings, const struct ommai_reply *replies,
                                  struct ommai_metrics *metrics, struct omma_error *error) {
  for (size_t i = 0; i < metrics->n; i++) {
    const struct ommai_reply *reply = &replies[i];
    if (!reply->success) {
      metrics->failed++;
      continue;
    }
    bool uncounted;
    OMMAI_TRY(count_tokens(settings, reply, &metrics->output_lens[i], &uncounted, error));
    metrics->completed++;
    metrics->uncounted += uncounted;
    metrics->total_input += reply->prompt_len;
    metrics->total_output += metrics->output_lens[i];
    metrics->good += is_good(settings, reply, metrics->output_lens[i]);
  }
  return OMMA_OK;
}

static enum omma_status compute_statistics(const struct ommai_metrics_settings *settings, const struct ommai_reply *replies,
                                           struct ommai_metrics *metrics, struct omma_error *error) {
  size_t room = metrics->n + 1;
  for (size_t i = 0; i < metrics->n; i++) room += replies[i].n_itls;
  double *values = ommai_allocate_uninitialised(metrics->allocator, room, sizeof *values);
  if (!values) return ommai_fail_memory(error, "the times of all tokens", room * sizeof *values);
  for (int metric = 0; metric < OMMAI_METRIC_COUNT; metric++) {
    size_t n = 0;
    for (size_t i = 0; i < metrics->n; i++) {
      if (replies[i].success) n += values_of(&replies[i], metrics->output_lens[i], (enum ommai_metric)metric, values + n);
    }
    ommai_statistics_compute(values, n, settings->percentiles, settings->n_percentiles, &metrics->statistics[metric]);
  }
  ommai_release(metrics->allocator, values, room, sizeof *values);
  return OMMA_OK;
}

/* Counts per second since the first start. */
struct seconds {
  double first;
  size_t n;
  int64_t *tokens, *parallel; /* [n] */
};

static void fill_seconds(const struct seconds *seconds, const struct ommai_reply *reply) {
  double time = reply->start_time + reply->ttft;
  for (size_t i = 0; i <= reply->n_itls; i++) {
    size_t second = (size_t)(time - seconds->first);
    if (second < seconds->n) seconds->tokens[second]++;
    if (i < reply->n_itls) time += reply->itls[i];
  }
  size_t from = (size_t)(reply->start_time - seconds->first);
  size_t to = (size_t)(reply->start_time + reply->latency - seconds->first);
  for (size_t second = from; second <= to && second < seconds->n; second++) seconds->parallel[second]++;
}

static enum omma_status find_peaks(const struct ommai_reply *replies, struct ommai_metrics *metrics, struct omma_error *error) {
  double first = INFINITY, last = -INFINITY;
  for (size_t i = 0; i < metrics->n; i++) {
    if (!replies[i].success) continue;
    first = fmin(first, replies[i].start_time);
    last = fmax(last, replies[i].start_time + replies[i].latency);
  }
  if (metrics->completed == 0) return OMMA_OK;
  if (last - first > MAX_SECONDS) return ommai_fail(error, OMMA_ERROR_LIMIT, "a run of %.0f seconds", last - first);
  struct seconds seconds = {.first = first, .n = (size_t)ceil(last - first) + 1};
  seconds.tokens = ommai_allocate(metrics->allocator, seconds.n, 2 * sizeof *seconds.tokens);
  if (!seconds.tokens) return ommai_fail_memory(error, "counts per second", seconds.n * sizeof *seconds.tokens);
  seconds.parallel = seconds.tokens + seconds.n;
  for (size_t i = 0; i < metrics->n; i++) {
    if (replies[i].success) fill_seconds(&seconds, &replies[i]);
  }
  for (size_t i = 0; i < seconds.n; i++) {
    metrics->peak_output = fmax(metrics->peak_output, (double)seconds.tokens[i]);
    if (seconds.parallel[i] > metrics->peak_parallel) metrics->peak_parallel = seconds.parallel[i];
  }
  ommai_release(metrics->allocator, seconds.tokens, seconds.n, 2 * sizeof *seconds.tokens);
  return OMMA_OK;
}

enum omma_status ommai_metrics_compute(const struct ommai_metrics_settings *settings, const struct ommai_reply *replies,
                                       size_t n, double duration, const struct omma_allocator *allocator,
                                       struct ommai_metrics *metrics, struct omma_error *error) {
  *metrics = (struct ommai_metrics){.duration = duration, .n = n, .allocator = allocator};
  metrics->output_lens = ommai_allocate(allocator, n, sizeof *metrics->output_lens);
  if (!metrics->output_lens) return ommai_fail_memory(error, "token counts", n * sizeof *metrics->output_lens);
  OMMAI_TRY(count_all(settings, replies, metrics, error));
  OMMAI_TRY(compute_statistics(settings, replies, metrics, error));
  return find_peaks(replies, metrics, error);
}

void ommai_metrics_release(struct ommai_metrics *metrics) {
  if (metrics->allocator) ommai_release(metrics->allocator, metrics->output_lens, metrics->n, sizeof *metrics->output_lens);
  *metrics = (struct ommai_metrics){0};
}
