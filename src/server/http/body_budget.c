#include "server/http/body_budget.h"

#include "server/state/server_state.h"

#include "base/clock.h"
#include "server/http/http_call.h"

static bool take_bytes(struct ommai_server *server, size_t size) {
  size_t before = atomic_fetch_add(&server->body_bytes, size);
  if (before + size <= server->config.max_total_body_bytes) return true;
  atomic_fetch_sub(&server->body_bytes, size);
  return false;
}

/* Bytes a second, with some for nothing: a body that has just begun is not slow. */
static double body_speed(const struct ommai_http_call *call, int64_t now_ns) {
  double seconds = (double)(now_ns - call->created_ns) / 1e9;
  return ((double)call->body.size + 65536) / (seconds + 0.01);
}

/* The slowest of the bodies that are being received and hold memory, which may be this one. */
static struct ommai_http_call *find_slowest_body(struct ommai_server *server, struct ommai_http_call *own) {
  int64_t now_ns = ommai_clock_ns();
  struct ommai_http_call *slowest = own;
  pthread_mutex_lock(&server->list_lock);
  struct ommai_http_call *call;
  LIST_FOREACH(call, &server->calls, listed) {
    if (atomic_load(&call->body_complete) || !call->body_reserved) continue;
    if (body_speed(call, now_ns) < body_speed(slowest, now_ns)) slowest = call;
  }
  pthread_mutex_unlock(&server->list_lock);
  return slowest;
}

bool ommai_body_budget_reserve(struct ommai_http_call *call, size_t size) {
  struct ommai_server *server = call->server;
  while (!take_bytes(server, size)) {
    struct ommai_http_call *slowest = find_slowest_body(server, call);
    if (slowest == call) return false;
    struct ommai_api_error error;
    ommai_api_refuse(&error, OMMAI_REFUSAL_BODIES);
    ommai_http_call_release_body(slowest); /* ours until it is complete: this is the IO thread */
    ommai_http_call_fail(slowest, &error);
  }
  call->body_reserved += size;
  return true;
}
