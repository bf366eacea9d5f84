#include "server/publish/trace_body.h"

#include <inttypes.h>
#include <omma/omma.h>
#include <sodium.h>
#include <string.h>

#include "base/json_writer.h"

enum { KIND_INTERNAL = 1, KIND_SERVER = 2 };
enum { STATUS_UNSET = 0, STATUS_ERROR = 2 };

int64_t ommai_trace_n_spans(const struct ommai_trace_record *record) { return 1 + record->n_stages; }

/* An attribute of a span, up to its value. */
static void begin_attribute(struct ommai_text *out, const char *key) {
  ommai_put_begin(out, NULL, "{");
  ommai_put_string(out, "key", key);
  ommai_put_begin(out, "value", "{");
}

static void add_string(struct ommai_text *out, const char *key, const char *value) {
  if (!value) return;
  begin_attribute(out, key);
  ommai_put_string(out, "stringValue", value);
  ommai_put_end(out, "}}");
}

/* Integers of 64 bits are strings in the JSON of Protobuf. */
static void add_integer(struct ommai_text *out, const char *key, int64_t value) {
  begin_attribute(out, key);
  ommai_put_format(out, "intValue", "%" PRId64, value);
  ommai_put_end(out, "}}");
}

static void add_number(struct ommai_text *out, const char *key, double value) {
  begin_attribute(out, key);
  ommai_put_number(out, "doubleValue", value, 9);
  ommai_put_end(out, "}}");
}

static double seconds_of(const struct ommai_trace_record *record, const char *stage) {
  int64_t ns = 0;
  for (int i = 0; i < record->n_stages; i++) {
    if (!strcmp(record->stages[i].name, stage)) ns += record->stages[i].end_ns - record->stages[i].begin_ns;
  }
  return (double)ns * 1e-9;
}

/* vLLM's names for what the engine reports; those with omma. have none there. */
static void add_run(struct ommai_text *out, const struct ommai_trace_record *record) {
  double encode = seconds_of(record, "encode"), prefill = seconds_of(record, "prefill"), decode = seconds_of(record, "decode");
  if (!record->ran) return;
  add_integer(out, "gen_ai.usage.prompt_tokens", record->n_prompt_tokens);
  add_integer(out, "gen_ai.usage.completion_tokens", record->n_completion_tokens);
  add_integer(out, "omma.usage.cached_tokens", record->n_cached_tokens);
  if (record->first_token_ns) {
    add_number(out, "gen_ai.latency.time_to_first_token", (double)record->first_token_ns * 1e-9);
  }
  add_number(out, "gen_ai.latency.time_in_queue", seconds_of(record, "queue"));
  add_number(out, "gen_ai.latency.time_in_model_prefill", encode + prefill);
  add_number(out, "gen_ai.latency.time_in_model_decode", decode);
  add_number(out, "gen_ai.latency.time_in_model_inference", encode + prefill + decode);
  add_number(out, "omma.latency.preprocess", record->preprocess);
}

static void add_attributes(const struct ommai_trace_record *record, struct ommai_text *out) {
  add_string(out, "http.request.method", record->method);
  add_string(out, "http.route", record->route);
  add_integer(out, "http.response.status_code", record->status);
  add_string(out, "gen_ai.request.id", record->request_id);
  add_string(out, "gen_ai.response.model", record->model);
  add_string(out, "omma.end", record->cause);
  add_number(out, "gen_ai.latency.e2e", (double)(record->end_ns - record->begin_ns) * 1e-9);
  if (record->draws) {
    add_number(out, "gen_ai.request.temperature", record->temperature);
    add_number(out, "gen_ai.request.top_p", record->top_p);
    if (record->max_tokens) add_integer(out, "gen_ai.request.max_tokens", record->max_tokens);
    add_integer(out, "gen_ai.request.n", record->n);
    add_integer(out, "omma.request.images", record->n_images);
  }
  add_run(out, record);
}

static void add_id(struct ommai_text *out, const char *key, const uint8_t *id, size_t size) {
  char hex[2 * OMMAI_TRACE_ID_BYTES + 1];
  ommai_put_string(out, key, sodium_bin2hex(hex, sizeof hex, id, size));
}

/* A span up to its attributes. parent: NULL for the root of a trace. */
static void begin_span(const struct ommai_trace_record *record, const uint8_t *span, const uint8_t *parent, const char *name,
                       int kind, int64_t begin_ns, int64_t end_ns, struct ommai_text *out) {
  ommai_put_begin(out, NULL, "{");
  add_id(out, "traceId", record->context.trace_id, OMMAI_TRACE_ID_BYTES);
  add_id(out, "spanId", span, OMMAI_SPAN_ID_BYTES);
  if (parent) add_id(out, "parentSpanId", parent, OMMAI_SPAN_ID_BYTES);
  ommai_put_string(out, "name", name);
  ommai_put_integer(out, "kind", kind);
  ommai_put_format(out, "startTimeUnixNano", "%" PRId64, begin_ns + record->wall_offset_ns);
  ommai_put_format(out, "endTimeUnixNano", "%" PRId64, end_ns + record->wall_offset_ns);
}

static void write_record(const struct ommai_trace_record *record, struct ommai_text *out) {
  static const uint8_t none[OMMAI_SPAN_ID_BYTES];
  uint8_t request[OMMAI_SPAN_ID_BYTES], stage[OMMAI_SPAN_ID_BYTES];
  bool is_root = !memcmp(record->context.parent_id, none, sizeof none);
  randombytes_buf(request, sizeof request);
  begin_span(record, request, is_root ? NULL : record->context.parent_id, "llm_request", KIND_SERVER, record->begin_ns,
             record->end_ns, out);
  ommai_put_begin(out, "attributes", "[");
  add_attributes(record, out);
  ommai_put_end(out, "]");
  ommai_put_new(out, "status", json_pack("{s:i}", "code", record->status >= 500 ? STATUS_ERROR : STATUS_UNSET));
  ommai_put_end(out, "}");
  for (int i = 0; i < record->n_stages; i++) {
    const struct ommai_trace_stage *part = &record->stages[i];
    randombytes_buf(stage, sizeof stage);
    begin_span(record, stage, request, part->name, KIND_INTERNAL, part->begin_ns, part->end_ns, out);
    ommai_put_end(out, "}");
  }
}

void ommai_trace_write(const struct ommai_trace_record *records, size_t n, const char *service, struct ommai_text *out) {
  ommai_put_begin(out, NULL, "{");
  ommai_put_begin(out, "resourceSpans", "[{");
  ommai_put_begin(out, "resource", "{");
  ommai_put_begin(out, "attributes", "[");
  add_string(out, "service.name", service);
  add_string(out, "service.version", OMMA_VERSION);
  ommai_put_end(out, "]}");
  ommai_put_begin(out, "scopeSpans", "[{");
  ommai_put_new(out, "scope", json_pack("{s:s,s:s}", "name", "omma", "version", OMMA_VERSION));
  ommai_put_begin(out, "spans", "[");
  for (size_t i = 0; i < n; i++) write_record(&records[i], out);
  ommai_put_end(out, "]}]}]}");
}
