#include "server/http/call_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "server/core/log_line.h"
#include "server/publish/trace_exporter.h"
#include "server/state/server_state.h"

/* Between the encoder and the prompt a request may wait for pages; less is no wait. */
#define MIN_WAIT_NS INT64_C(1000000)

/* ---- the access line ---- */

/* Whether `path` is one of a list with commas between. */
static bool is_listed(const char *list, const char *path) {
  size_t size = strlen(path);
  while (list) {
    list += strspn(list, ", ");
    size_t length = strcspn(list, ", ");
    if (length && length == size && !memcmp(list, path, size)) return true;
    list = length ? list + length : NULL;
  }
  return false;
}

/* What is known of a request that the engine has run. */
static void add_timings(struct ommai_log_line *line, const struct ommai_access *access) {
  if (access->ran) {
    ommai_log_line_integer(line, "prompt_tokens", access->n_prompt_tokens);
    ommai_log_line_integer(line, "cached_tokens", access->n_cached_tokens);
    ommai_log_line_integer(line, "completion_tokens", access->n_completion_tokens);
    ommai_log_line_seconds(line, "queue", access->timings.queue);
  }
  if (access->decode_image > 0) ommai_log_line_seconds(line, "decode_image", access->decode_image);
  if (!access->ran) return;
  ommai_log_line_seconds(line, "preprocess", access->timings.preprocess);
  ommai_log_line_seconds(line, "encode", access->timings.encode);
  ommai_log_line_seconds(line, "prefill", access->timings.prefill);
  ommai_log_line_seconds(line, "decode", access->timings.decode);
}

static void log_access(const struct ommai_call_report *report) {
  const struct ommai_server *server = report->server;
  const struct ommai_access *access = report->access;
  struct ommai_log_line line;
  if (!server->config.log.put || !server->config.settings.log_access || is_listed(server->config.unlogged_paths, access->path))
    return;
  ommai_log_line_begin(&line, server->config.allocator, server->config.log.json, "info", "access");
  ommai_log_line_string(&line, "client", access->client);
  ommai_log_line_string(&line, "method", access->method);
  ommai_log_line_string(&line, "path", access->path);
  ommai_log_line_string(&line, "version", access->version);
  ommai_log_line_integer(&line, "status", access->status);
  ommai_log_line_string(&line, "request_id", report->request_id);
  ommai_log_line_string(&line, "end", access->cause);
  add_timings(&line, access);
  ommai_log_line_seconds(&line, "total", access->seconds);
  ommai_log_line_send(&line, &server->config.log);
}

void ommai_call_report_refusal(const struct ommai_server *server, const char *request_id, const struct ommai_api_error *error) {
  struct ommai_log_line line;
  if (!server->config.log.put) return;
  ommai_log_line_begin(&line, server->config.allocator, server->config.log.json, "error", "failure");
  ommai_log_line_string(&line, "while", "taking a request");
  ommai_log_line_string(&line, "request_id", request_id);
  ommai_log_line_integer(&line, "status", error->status);
  ommai_log_line_string(&line, "message", error->message);
  ommai_log_line_send(&line, &server->config.log);
}

/* ---- the trace ---- */

static void add_stage(struct ommai_trace_record *record, const char *name, int64_t begin_ns, int64_t end_ns) {
  if (!begin_ns || begin_ns >= end_ns) return;
  if (begin_ns < record->begin_ns) begin_ns = record->begin_ns;
  record->stages[record->n_stages++] = (struct ommai_trace_stage){name, begin_ns, end_ns};
}

static int64_t first_of(int64_t a, int64_t b, int64_t c) { return a ? a : b ? b : c; }

static void add_stages(struct ommai_trace_record *record, const struct ommai_call_trace *trace, double decode_image) {
  int64_t encode_ns = trace->encoded_ns ? trace->encoded_ns - (int64_t)(trace->encode * 1e9) : 0;
  int64_t images_ns = trace->images_decoded_ns;
  int64_t answer_ns = first_of(trace->first_token_ns, trace->finished_ns, 0);
  add_stage(record, "decode_image", images_ns ? images_ns - (int64_t)(decode_image * 1e9) : 0, images_ns);
  add_stage(record, "queue", trace->submitted_ns, first_of(encode_ns, trace->prefill_ns, answer_ns));
  add_stage(record, "encode", encode_ns, trace->encoded_ns);
  if (encode_ns && trace->prefill_ns - trace->encoded_ns > MIN_WAIT_NS) {
    add_stage(record, "queue", trace->encoded_ns, trace->prefill_ns);
  }
  add_stage(record, "prefill", trace->prefill_ns, answer_ns);
  add_stage(record, "decode", trace->first_token_ns, trace->finished_ns);
}

static int64_t wall_offset_ns(void) {
  struct timespec wall;
  clock_gettime(CLOCK_REALTIME, &wall);
  return (int64_t)wall.tv_sec * 1000000000 + wall.tv_nsec - ommai_clock_ns();
}

static void put_trace(const struct ommai_call_report *report) {
  const struct ommai_call_trace *trace = report->trace;
  const struct ommai_access *access = report->access;
  if (!trace->wanted) return;
  struct ommai_trace_record record = trace->record;
  record.begin_ns = report->created_ns;
  record.end_ns = report->created_ns + (int64_t)(access->seconds * 1e9);
  record.wall_offset_ns = wall_offset_ns();
  record.status = access->status;
  record.cause = access->cause;
  record.ran = access->ran;
  record.n_prompt_tokens = access->n_prompt_tokens;
  record.n_cached_tokens = access->n_cached_tokens;
  record.n_completion_tokens = access->n_completion_tokens;
  record.preprocess = access->timings.preprocess;
  record.first_token_ns = trace->first_token_ns ? trace->first_token_ns - report->created_ns : 0;
  snprintf(record.method, sizeof record.method, "%s", access->method);
  snprintf(record.request_id, sizeof record.request_id, "%s", report->request_id);
  add_stages(&record, trace, access->decode_image);
  ommai_trace_exporter_put(report->server->tracer, &record);
}

void ommai_call_report_write(const struct ommai_call_report *report) {
  log_access(report);
  put_trace(report);
}
