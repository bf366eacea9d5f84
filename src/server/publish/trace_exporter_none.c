/* In a build without libcurl. */
#include "base/error.h"
#include "server/publish/trace_exporter.h"

enum omma_status ommai_trace_endpoint_check(const char *endpoint, struct omma_error *error) {
  if (!endpoint) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "otlp_traces_endpoint",
                          "this program was built without an HTTP client, so that it cannot send traces: install libcurl "
                          "(Debian: libcurl4-openssl-dev) and build again");
}

enum omma_status ommai_trace_exporter_create(const struct ommai_trace_settings *settings,
                                             const struct omma_allocator *allocator, struct ommai_trace_exporter **exporter,
                                             struct omma_error *error) {
  (void)allocator;
  *exporter = NULL;
  return ommai_trace_endpoint_check(settings->endpoint, error);
}

void ommai_trace_exporter_destroy(struct ommai_trace_exporter *exporter) { (void)exporter; }

void ommai_trace_exporter_put(struct ommai_trace_exporter *exporter, const struct ommai_trace_record *record) {
  (void)exporter;
  (void)record;
}

void ommai_trace_exporter_counts(struct ommai_trace_exporter *exporter, int64_t *n_sent, int64_t *n_dropped) {
  (void)exporter;
  *n_sent = *n_dropped = 0;
}
