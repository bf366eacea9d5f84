#include "server/http/call_trace.h"

#include <microhttpd.h>
#include <sodium.h>
#include <strings.h>

#include "base/clock.h"
#include "server/http/http_call.h"
#include "server/http/routes.h"
#include "server/state/server_state.h"

#define PARENT_HEADER "traceparent"

struct header {
  const char *value;
  int n;
};

static enum MHD_Result look_at(void *context, enum MHD_ValueKind kind, const char *name, const char *value) {
  struct header *header = context;
  (void)kind;
  if (strcasecmp(name, PARENT_HEADER) != 0) return MHD_YES;
  header->value = value;
  header->n++;
  return MHD_YES;
}

/* Two headers are as good as none. */
void ommai_call_trace_begin(struct ommai_http_call *call, struct MHD_Connection *mhd) {
  struct ommai_trace_record *record = &call->trace.record;
  struct header header = {0};
  if (!call->server->tracer || !call->route || !call->route->answer) return;
  record->route = call->route->path;
  MHD_get_connection_values(mhd, MHD_HEADER_KIND, look_at, &header);
  if (header.n != 1 || !header.value || !ommai_trace_context_parse(header.value, &record->context)) {
    record->context = (struct ommai_trace_context){.sampled = true};
    randombytes_buf(record->context.trace_id, sizeof record->context.trace_id);
  }
  call->trace.wanted = record->context.sampled;
}

void ommai_call_trace_request(struct ommai_http_call *call, const char *model, const struct omma_sampling *sampling, int64_t n,
                              int64_t n_images) {
  struct ommai_trace_record *record = &call->trace.record;
  if (!call->trace.wanted) return;
  pthread_mutex_lock(&call->lock);
  record->model = model == call->config->info.directory ? call->config->model_names[0] : model;
  record->draws = sampling != NULL;
  record->temperature = sampling ? sampling->temperature : 0;
  record->top_p = sampling ? sampling->top_p : 0;
  record->max_tokens = sampling ? sampling->max_tokens : 0;
  record->n = n;
  record->n_images = n_images;
  pthread_mutex_unlock(&call->lock);
}

/* Sets a time, the first one or the last. */
static void mark(struct ommai_http_call *call, int64_t *time_ns, bool last, int64_t now_ns) {
  if (!call->trace.wanted) return;
  pthread_mutex_lock(&call->lock);
  if (last || !*time_ns) *time_ns = now_ns;
  pthread_mutex_unlock(&call->lock);
}

void ommai_call_trace_images(struct ommai_http_call *call) {
  mark(call, &call->trace.images_decoded_ns, true, ommai_clock_ns());
}

void ommai_call_trace_progress(struct ommai_http_call *call, enum omma_stage stage) {
  struct ommai_call_trace *trace = &call->trace;
  if (stage == OMMA_STAGE_ENCODE) mark(call, &trace->encoded_ns, true, ommai_clock_ns());
  if (stage == OMMA_STAGE_PREFILL) mark(call, &trace->prefill_ns, false, ommai_clock_ns());
}

void ommai_call_trace_token(struct ommai_http_call *call, int64_t now_ns) {
  mark(call, &call->trace.first_token_ns, false, now_ns);
}

/* The engine's times of a request add up to the time from its submission to now. */
void ommai_call_trace_finish(struct ommai_http_call *call, const struct omma_timings *timings) {
  struct ommai_call_trace *trace = &call->trace;
  int64_t now_ns = ommai_clock_ns();
  double all = timings->queue + timings->encode + timings->prefill + timings->decode;
  mark(call, &trace->submitted_ns, false, now_ns - (int64_t)(all * 1e9));
  mark(call, &trace->finished_ns, true, now_ns);
  if (!trace->wanted) return;
  pthread_mutex_lock(&call->lock);
  if (trace->encode < timings->encode) trace->encode = timings->encode;
  pthread_mutex_unlock(&call->lock);
}
