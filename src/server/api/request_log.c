#include "server/api/request_log.h"

#include "server/api/own_fields.h"
#include "server/core/log_line.h"
#include "server/http/call_trace.h"
#include "server/state/server_config.h"

/* How the answer is drawn; filters and bounds that there are not, and a seed that nobody named, are
 * left out. */
static void add_sampling(struct ommai_log_line *line, const struct ommai_answer_fields *fields) {
  const struct omma_sampling *sampling = &fields->sampling;
  ommai_log_line_number(line, "temperature", sampling->temperature);
  ommai_log_line_number(line, "top_p", sampling->top_p);
  if (sampling->top_k > 0) ommai_log_line_integer(line, "top_k", sampling->top_k);
  ommai_log_line_number(line, "min_p", sampling->min_p);
  ommai_log_line_number(line, "repetition_penalty", sampling->repetition_penalty);
  ommai_log_line_number(line, "presence_penalty", sampling->presence_penalty);
  ommai_log_line_number(line, "frequency_penalty", sampling->frequency_penalty);
  if (fields->own_seed) ommai_log_line_integer(line, "seed", (int64_t)sampling->seed);
  if (sampling->max_tokens) ommai_log_line_integer(line, "max_tokens", sampling->max_tokens);
}

/* False where they are not asked for. */
static bool begin_request(const struct ommai_http_call *call, const char *model, struct ommai_log_line *line) {
  const struct ommai_server_config *config = call->config;
  if (!config->log.put || !config->settings.log_requests) return false;
  ommai_log_line_begin(line, call->allocator, config->log.json, "info", "request");
  ommai_log_line_string(line, "client", call->access.client);
  ommai_log_line_string(line, "path", call->access.path);
  ommai_log_line_string(line, "request_id", call->request_id);
  ommai_log_line_string(line, "model", model);
  return true;
}

void ommai_request_log(struct ommai_http_call *call, const struct ommai_answer_fields *fields, int64_t n_images) {
  struct ommai_log_line line;
  ommai_call_trace_request(call, fields->model, &fields->sampling, fields->n, n_images);
  if (!begin_request(call, fields->model, &line)) return;
  ommai_log_line_integer(&line, "stream", fields->stream);
  ommai_log_line_integer(&line, "n", fields->n);
  ommai_log_line_integer(&line, "images", n_images);
  add_sampling(&line, fields);
  ommai_log_line_send(&line, &call->config->log);
}

void ommai_request_log_inputs(struct ommai_http_call *call, const char *model, size_t n_inputs) {
  struct ommai_log_line line;
  ommai_call_trace_request(call, model, NULL, 1, 0);
  if (!begin_request(call, model, &line)) return;
  ommai_log_line_integer(&line, "inputs", (int64_t)n_inputs);
  ommai_log_line_send(&line, &call->config->log);
}
