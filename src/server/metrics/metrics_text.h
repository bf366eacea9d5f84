/* The server's figures in the text form that Prometheus reads. Names that begin with vllm: are
 * those of vLLM's server, so that dashboards made for it work; what only this program has begins
 * with omma:. */
#pragma once

#include "base/text_buffer.h"
#include "server/metrics/metrics.h"

/* What others count. */
struct ommai_metrics_sources {
  const struct omma_engine_stats *stats; /* [n_engines] */
  int n_engines;
  const char *model_name;
  int sleep_level;                          /* 0: the server is awake */
  const char *kv_cache;                     /* omma_model_info.kv_cache */
  int64_t max_model_len;                    /* bounds the buckets of tokens */
  int64_t kv_event_batches, kv_events_lost; /* ommai_kv_publisher_counts */
  int64_t spans_sent, spans_dropped;        /* ommai_trace_exporter_counts */
  size_t grammar_bytes, n_grammars;         /* ommai_grammar_cache_count */
};

/* The two lines before a figure's values. type: "counter", "gauge", "summary" or "histogram". */
void ommai_metrics_begin(struct ommai_text *out, const char *name, const char *type, const char *help);
/* Buckets, sum and count with these labels, which may be empty. bounds: as in a kind; those above
 * `last` are left out. */
void ommai_histogram_write(struct ommai_text *out, const char *name, const char *labels,
                           const struct ommai_histogram *histogram, const double *bounds, double last);

/* Writes everything. */
void ommai_metrics_write(struct ommai_metrics *metrics, const struct ommai_metrics_sources *sources, struct ommai_text *out);

/* Writes what prometheus_client exports of a process (process_resident_memory_bytes and its like),
 * as far as it can be read from /proc. Thread-safe. */
void ommai_process_metrics_write(struct ommai_text *out);
