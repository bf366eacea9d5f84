/* Sends traces to an OpenTelemetry collector: OTLP over HTTP, in JSON.
 *
 * Requests that are over are put into a bounded queue, which takes no longer than a copy. A thread
 * of its own sends them in batches. What finds no room, or is not taken after some tries, is
 * dropped and counted. Neither a slow nor a dead collector delays anything else. */
#pragma once

#include <omma/omma.h>

#include "server/core/log_line.h"
#include "server/publish/trace_body.h"

struct ommai_trace_exporter;

struct ommai_trace_settings {
  const char *endpoint; /* a URL with http or https; without a path, /v1/traces is added */
  const char *service;  /* this program's name there; NULL: none */
  struct ommai_log log; /* gets a line when the collector stops taking traces and when it goes on */
};

/* Whether traces can be sent there. Errors: ARGUMENT, UNSUPPORTED in a build without libcurl (both
 * with the field "otlp_traces_endpoint"). */
enum omma_status ommai_trace_endpoint_check(const char *endpoint, struct omma_error *error);

/* Errors: those of ommai_trace_endpoint_check, MEMORY, INTERNAL. */
enum omma_status ommai_trace_exporter_create(const struct ommai_trace_settings *settings,
                                             const struct omma_allocator *allocator, struct ommai_trace_exporter **exporter,
                                             struct omma_error *error);
/* What waits is sent first, for some seconds at most. NULL is allowed. */
void ommai_trace_exporter_destroy(struct ommai_trace_exporter *exporter);

/* Copies the record. Any thread. */
void ommai_trace_exporter_put(struct ommai_trace_exporter *exporter, const struct ommai_trace_record *record);

/* Spans that the collector took, and those that were dropped. NULL is allowed: none. Any thread. */
void ommai_trace_exporter_counts(struct ommai_trace_exporter *exporter, int64_t *n_sent, int64_t *n_dropped);
