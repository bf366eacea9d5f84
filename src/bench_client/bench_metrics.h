/* The figures of a run, defined as vLLM's benchmark defines them. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench_client/reply.h"
#include "text/tokenizer.h"

#define OMMAI_MAX_PERCENTILES 16

/* Time to first token; time per output token, (latency - ttft) / (output tokens - 1), of replies
 * with more than one; gaps between token events, of all replies together; latency; the wait for a
 * free place; both together. Only successful replies count. */
enum ommai_metric {
  OMMAI_METRIC_TTFT,
  OMMAI_METRIC_TPOT,
  OMMAI_METRIC_ITL,
  OMMAI_METRIC_E2EL,
  OMMAI_METRIC_QUEUE,
  OMMAI_METRIC_E2EL_WITH_QUEUE,
  OMMAI_METRIC_COUNT
};

/* What a metric is called: in options and JSON keys, in rows of the table, above its section. */
struct ommai_metric_name {
  const char *key, *label, *title;
};
extern const struct ommai_metric_name ommai_metric_names[OMMAI_METRIC_COUNT];

/* In the values' unit; all 0 of no values. std is the population's; percentiles are interpolated
 * linearly. */
struct ommai_statistics {
  double mean, median, std, percentiles[OMMAI_MAX_PERCENTILES];
};

struct ommai_metrics_settings {
  const double *percentiles; /* [n_percentiles], 0 to 100 */
  size_t n_percentiles;
  /* seconds that a good request needs at most, by metric; NAN: no demand */
  double goodput[OMMAI_METRIC_COUNT];
  /* counts texts where the server did not; NULL: they count as 1 token */
  const struct ommai_tokenizer *tokenizer;
};

struct ommai_metrics {
  size_t completed, failed, good;
  size_t uncounted; /* completed ones whose tokens neither the server nor a tokenizer counted */
  int64_t total_input, total_output;
  double duration;
  double peak_output; /* token events in the fullest second */
  int64_t peak_parallel;
  struct ommai_statistics statistics[OMMAI_METRIC_COUNT]; /* seconds */
  /* [n]: tokens per reply, 0 of failed ones */
  int64_t *output_lens;
  size_t n;
  const struct omma_allocator *allocator;
};

/* Statistics of n values, which are sorted in place. */
void ommai_statistics_compute(double *values, size_t n, const double *percentiles, size_t n_percentiles,
                              struct ommai_statistics *statistics);

/* Computes the figures of n replies that took `duration` seconds together. Release in every case.
 * Errors: MEMORY, LIMIT (a run of more than a year), those of the tokenizer. */
enum omma_status ommai_metrics_compute(const struct ommai_metrics_settings *settings, const struct ommai_reply *replies,
                                       size_t n, double duration, const struct omma_allocator *allocator,
                                       struct ommai_metrics *metrics, struct omma_error *error);
void ommai_metrics_release(struct ommai_metrics *metrics);
