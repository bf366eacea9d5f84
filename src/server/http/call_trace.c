#include "server/http/call_trace.h"

#include <microhttpd.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "server/http/http_call.h"
#include "server/http/routes.h"
#include "server/publish/trace_exporter.h"
#include "server/state/server_state.h"

#define PARENT_HEADER "traceparent"
/* Between the encoder and the prompt a request may wait for pages; less is no wait. */
#define MIN_WAIT_NS INT64_C(1000000)

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
  struct ommai_call_trace *trace = &call->trace;
  struct header header = {0};
  if (!call->server->tracer || !call->route || !call->route->needs_json) return;
  MHD_get_connection_values(mhd, MHD_HEADER_KIND, look_at, &header);
  if (header.n == 1 && header.value && ommai_trace_context_parse(header.value, &trace->context)) {
    trace->wanted = trace->context.sampled;
    return;
  }
  trace->wanted = true;
  trace->context = (struct ommai_trace_context){.sampled = true};
  randombytes_buf(trace->context.trace_id, sizeof trace->context.trace_id);
}

/* The server's own copy of a name, which outlives the request. */
static const char *kept_name(const struct ommai_server *server, const char *model) {
  for (size_t i = 0; model && i < server->n_model_names; i++) {
    if (!strcmp(server->model_names[i], model)) return server->model_names[i];
  }
  return server->model_names[0];
}

void ommai_call_trace_request(struct ommai_http_call *call, const char *model, const struct omma_sampling *sampling, int64_t n,
                              int64_t n_images) {
  struct ommai_call_trace *trace = &call->trace;
  if (!trace->wanted) return;
  pthread_mutex_lock(&call->lock);
  trace->model = kept_name(call->server, model);
  trace->draws = sampling != NULL;
  trace->temperature = sampling ? sampling->temperature : 0;
  trace->top_p = sampling ? sampling->top_p : 0;
  trace->max_tokens = sampling ? sampling->max_tokens : 0;
  trace->n = n;
  trace->n_images = n_images;
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

static void add_stage(struct ommai_trace_record *record, const char *name, int64_t begin_ns, int64_t end_ns) {
  if (!begin_ns || begin_ns >= end_ns) return;
  if (begin_ns < record->begin_ns) begin_ns = record->begin_ns;
  record->stages[record->n_stages++] = (struct ommai_trace_stage){name, begin_ns, end_ns};
}

static int64_t first_of(int64_t a, int64_t b, int64_t c) { return a ? a : b ? b : c; }

static void add_stages(struct ommai_trace_record *record, const struct ommai_call_trace *trace, double decode_image) {
  int64_t encode_ns = trace->encoded_ns && trace->encode > 0 ? trace->encoded_ns - (int64_t)(trace->encode * 1e9) : 0;
  int64_t images_ns = trace->images_decoded_ns;
  add_stage(record, "decode_image", images_ns ? images_ns - (int64_t)(decode_image * 1e9) : 0, images_ns);
  add_stage(record, "queue", trace->submitted_ns, first_of(encode_ns, trace->prefill_ns, trace->finished_ns));
  add_stage(record, "encode", encode_ns, trace->encoded_ns);
  if (encode_ns && trace->prefill_ns - trace->encoded_ns > MIN_WAIT_NS) {
    add_stage(record, "queue", trace->encoded_ns, trace->prefill_ns);
  }
  add_stage(record, "prefill", trace->prefill_ns, first_of(trace->first_token_ns, trace->finished_ns, 0));
  add_stage(record, "decode", trace->first_token_ns, trace->finished_ns);
}

static int64_t wall_offset_ns(void) {
  struct timespec wall;
  clock_gettime(CLOCK_REALTIME, &wall);
  return (int64_t)wall.tv_sec * 1000000000 + wall.tv_nsec - ommai_clock_ns();
}

void ommai_call_trace_end(struct ommai_http_call *call) {
  if (!call->trace.wanted) return;
  pthread_mutex_lock(&call->lock);
  const struct ommai_call_trace trace = call->trace;
  const struct ommai_access access = call->access;
  pthread_mutex_unlock(&call->lock);
  struct ommai_trace_record record = {
      .context = trace.context,
      .begin_ns = call->created_ns,
      .end_ns = call->created_ns + (int64_t)(access.seconds * 1e9),
      .wall_offset_ns = wall_offset_ns(),
      .route = call->route->path,
      .model = trace.model,
      .status = access.status,
      .cause = access.cause,
      .draws = trace.draws,
      .temperature = trace.temperature,
      .top_p = trace.top_p,
      .max_tokens = trace.max_tokens,
      .n = trace.n,
      .n_images = trace.n_images,
      .ran = access.ran,
      .n_prompt_tokens = access.n_prompt_tokens,
      .n_cached_tokens = access.n_cached_tokens,
      .n_completion_tokens = access.n_completion_tokens,
      .preprocess = access.timings.preprocess,
      .first_token_ns = trace.first_token_ns ? trace.first_token_ns - call->created_ns : 0,
  };
  snprintf(record.method, sizeof record.method, "%s", access.method);
  snprintf(record.request_id, sizeof record.request_id, "%s", call->request_id);
  add_stages(&record, &trace, access.decode_image);
  ommai_trace_exporter_put(call->server->tracer, &record);
}
