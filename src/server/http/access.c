#include "server/http/access.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "server/core/log_line.h"
#include "server/http/call_trace.h"
#include "server/http/routes.h"
#include "server/state/server_state.h"

static void set_client(struct MHD_Connection *mhd, char *out, size_t size) {
  char address[INET6_ADDRSTRLEN] = "";
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  const struct sockaddr *client = info ? info->client_addr : NULL;
  snprintf(out, size, client && client->sa_family == AF_UNIX ? "unix" : "unknown");
  if (client && client->sa_family == AF_INET) {
    const struct sockaddr_in *v4 = (const void *)client;
    inet_ntop(AF_INET, &v4->sin_addr, address, sizeof address);
    snprintf(out, size, "%s:%u", address, (unsigned)ntohs(v4->sin_port));
  } else if (client && client->sa_family == AF_INET6) {
    const struct sockaddr_in6 *v6 = (const void *)client;
    inet_ntop(AF_INET6, &v6->sin6_addr, address, sizeof address);
    snprintf(out, size, "[%s]:%u", address, (unsigned)ntohs(v6->sin6_port));
  }
}

void ommai_access_begin(struct ommai_http_call *call, struct MHD_Connection *mhd, const char *path, const char *method,
                        const char *version) {
  struct ommai_access *access = &call->access;
  set_client(mhd, access->client, sizeof access->client);
  snprintf(access->method, sizeof access->method, "%s", method);
  snprintf(access->path, sizeof access->path, "%s", path);
  snprintf(access->version, sizeof access->version, "%s", version);
}

void ommai_access_set_decode(struct ommai_http_call *call, double seconds) {
  ommai_call_trace_images(call);
  pthread_mutex_lock(&call->lock);
  call->access.decode_image = seconds;
  pthread_mutex_unlock(&call->lock);
}

void ommai_access_add(struct ommai_http_call *call, const struct omma_result *result, bool first, double first_token) {
  struct ommai_access *access = &call->access;
  double seconds = (double)(ommai_clock_ns() - call->created_ns) * 1e-9;
  const struct omma_timings *more = &result->timings;
  ommai_call_trace_finish(call, more);
  pthread_mutex_lock(&call->lock);
  if (!access->ran) access->timings.queue = more->queue;
  access->ran = true;
  double decode_image = first ? access->decode_image : 0;
  if (first) access->n_prompt_tokens += result->n_prompt_tokens;
  if (first) access->n_cached_tokens += result->n_cached_tokens;
  access->n_completion_tokens += result->n_completion_tokens;
  access->timings.preprocess += more->preprocess;
  access->timings.encode += more->encode;
  access->timings.prefill += more->prefill;
  access->timings.decode += more->decode;
  pthread_mutex_unlock(&call->lock);
  ommai_metrics_finish(&call->server->metrics, result, decode_image, seconds, first_token);
}

/* Under the lock. What was sent, or would have been; a request that was cancelled because its
 * client left has a reply too, that nobody gets. */
static int status_of(const struct ommai_http_call *call) {
  if (!call->responded && (call->gone || !call->replied)) return OMMAI_ACCESS_CLOSED;
  return call->streaming ? 200 : call->reply.status;
}

void ommai_access_end(struct ommai_http_call *call, bool complete) {
  struct ommai_access *access = &call->access;
  pthread_mutex_lock(&call->lock);
  bool left = !complete || !call->ended;
  if (left && !access->cause) access->cause = "client_left";
  access->aborted = access->cause != NULL;
  access->status = status_of(call);
  access->seconds = (double)(ommai_clock_ns() - call->created_ns) * 1e-9;
  pthread_mutex_unlock(&call->lock);
  /* What probes and scrapers ask for is not counted, as in vLLM. */
  if (!call->route || !ommai_route_is_for_checks(call->route)) {
    size_t handler = call->route ? ommai_route_index(call->route) : OMMAI_N_ROUTES;
    ommai_http_metrics_observe(&call->server->http_metrics, handler, access->method, access->status, access->seconds);
  }
  if (!access->aborted) ommai_http_call_report(call);
}

const char *ommai_stage_name(enum omma_stage stage) {
  switch (stage) {
    case OMMA_STAGE_QUEUED: return "queue";
    case OMMA_STAGE_ENCODE: return "encode";
    case OMMA_STAGE_PREFILL: return "prefill";
    default: return "decode";
  }
}

void ommai_access_log_progress(struct ommai_http_call *call, enum omma_stage stage, int64_t done, int64_t total,
                               int64_t n_images) {
  const struct ommai_server *server = call->server;
  struct ommai_access *access = &call->access;
  struct ommai_log_line line;
  ommai_call_trace_progress(call, stage);
  int64_t now_ns = ommai_clock_ns();
  pthread_mutex_lock(&call->lock); /* several engines may work on a request */
  bool begun = !access->logged_ns || stage != access->logged_stage;
  bool due = !begun && done < total && now_ns - access->logged_ns >= server->config.settings.progress_log_ns;
  if (begun || due) {
    access->logged_stage = stage;
    access->logged_ns = now_ns;
  }
  pthread_mutex_unlock(&call->lock);
  if (!due || !server->config.log.put || !server->config.settings.log_access) return;
  ommai_log_line_begin(&line, call->allocator, server->config.log.json, "info", "progress");
  ommai_log_line_string(&line, "request_id", call->request_id);
  ommai_log_line_string(&line, "stage", ommai_stage_name(stage));
  ommai_log_line_integer(&line, "images", n_images);
  ommai_log_line_integer(&line, "percent", total > 0 ? done * 100 / total : 0);
  ommai_log_line_seconds(&line, "total", (double)(now_ns - call->created_ns) * 1e-9);
  ommai_log_line_send(&line, &server->config.log);
}
