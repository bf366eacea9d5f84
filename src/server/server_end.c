/* How a server ends: health checks fail first, then requests are refused while those that run may
 * finish, then the rest is cut off, and what nothing uses any more is freed. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "server/core/job_queue.h"
#include "server/http/connection.h"
#include "server/http/http_call.h"
#include "server/http/http_front.h"
#include "server/http/page.h"
#include "server/http/watcher.h"
#include "server/publish/trace_exporter.h"
#include "server/server.h"
#include "server/state/server_state.h"

#define FLUSH_NS INT64_C(1000000000) /* for the last replies to reach their sockets */
#define MILLISECOND INT64_C(1000000)

/* Under list_lock. Waits for a change of the list, at most until deadline_ns of the monotonic clock
 * (0: without end), which gives false. */
static bool wait_for_change(struct ommai_server *server, int64_t deadline_ns) {
  const struct timespec deadline = ommai_clock_timespec(deadline_ns);
  if (!deadline_ns) return pthread_cond_wait(&server->list_changed, &server->list_lock) == 0;
  return pthread_cond_timedwait(&server->list_changed, &server->list_lock, &deadline) == 0;
}

static void wait_for_zero(struct ommai_server *server, const int64_t *count, int64_t deadline_ns) {
  while (*count && wait_for_change(server, deadline_ns)) continue;
}

static void abort_call(struct ommai_http_call *call) {
  ommai_http_call_abort(call, "shutdown", "The server is shutting down.");
}

/* Load balancers see health checks fail and send their requests elsewhere, before any is refused
 * here. */
static void wait_for_balancers(struct ommai_server *server) {
  atomic_store(&server->leaving, true);
  if (!server->config.settings.leave_ns) return;
  int64_t deadline_ns = ommai_clock_ns() + server->config.settings.leave_ns;
  pthread_mutex_lock(&server->list_lock);
  while (wait_for_change(server, deadline_ns)) continue;
  pthread_mutex_unlock(&server->list_lock);
}

/* Connections are accepted meanwhile, so that clients get an error that states why. */
static void wait_for_answers(struct ommai_server *server) {
  pthread_mutex_lock(&server->list_lock);
  atomic_store(&server->stopping, true);
  int64_t deadline_ns = ommai_clock_ns() + server->config.settings.drain_ns;
  while (atomic_load(&server->n_active) && wait_for_change(server, deadline_ns)) continue;
  pthread_mutex_unlock(&server->list_lock);
}

static void end_requests(struct ommai_server *server) {
  ommai_http_call_for_each(server, abort_call);
  pthread_mutex_lock(&server->list_lock);
  wait_for_zero(server, &server->n_listed, ommai_clock_ns() + FLUSH_NS);
  pthread_mutex_unlock(&server->list_lock);
  ommai_http_call_for_each(server, ommai_http_call_leave);
}

/* libmicrohttpd 0.9 crashes where it is stopped while it refuses a head on its own. */
static void end_connections(struct ommai_server *server) {
  pthread_mutex_lock(&server->list_lock);
  ommai_connection_end_all(server);
  int64_t deadline_ns = ommai_clock_ns() + FLUSH_NS;
  while (!LIST_EMPTY(&server->connections) && wait_for_change(server, deadline_ns)) continue;
  pthread_mutex_unlock(&server->list_lock);
}

void ommai_server_log_end(const struct ommai_server *server) {
  struct ommai_log_line line;
  char note[256], served[64] = "";
  char now[OMMAI_CLOCK_UTC_SIZE];
  const struct ommai_log *log = &server->config.log;
  int64_t seconds = server->config.settings.drain_ns / (1000 * MILLISECOND),
          delay = server->config.settings.leave_ns / (1000 * MILLISECOND);
  if (!log->put) return;
  if (log->json) {
    ommai_log_line_begin(&line, server->config.allocator, true, "info", "stopping");
    ommai_log_line_integer(&line, "delay", delay);
    ommai_log_line_integer(&line, "seconds", seconds);
    ommai_log_line_send(&line, log);
    return;
  }
  if (delay) snprintf(served, sizeof served, "new requests are served for %lld s, then ", (long long)delay);
  ommai_clock_utc(now);
  snprintf(note, sizeof note,
           "%s omma: stopping: %srunning requests may finish for %lld s; a second signal or Ctrl-C ends at once", now, served,
           (long long)seconds);
  log->put(log->context, note);
}

static void free_string(const struct ommai_server *server, char *text) {
  if (text) ommai_release(server->config.allocator, text, strlen(text) + 1, 1);
}

void ommai_server_destroy(struct ommai_server *server) {
  if (!server) return;
  if (server->daemon) {
    wait_for_balancers(server);
    wait_for_answers(server);
    ommai_http_quiesce(server);
    end_requests(server);
    end_connections(server);
    ommai_http_stop(server);
  }
  pthread_mutex_lock(&server->list_lock);
  wait_for_zero(server, &server->n_calls, 0);
  pthread_mutex_unlock(&server->list_lock);
  ommai_trace_exporter_destroy(server->tracer);
  ommai_watcher_destroy(server->watcher);
  ommai_job_queue_destroy(server->readers);
  ommai_job_queue_destroy(server->jobs);
  ommai_socket_file_remove(&server->socket_file);
  if (server->listener >= 0) close(server->listener);
  free_string(server, server->uds);
  for (size_t i = 0; i < server->config.n_model_names; i++) free_string(server, server->config.model_names[i]);
  ommai_tls_free(&server->tls);
  ommai_api_keys_free(&server->api_keys, server->config.allocator);
  ommai_cross_origin_free(&server->config.cross_origin);
  ommai_page_destroy(server->page, server->config.allocator);
  ommai_text_free(&server->openapi);
  ommai_text_free(&server->docs);
  free_string(server, server->config.root_path);
  ommai_media_root_close(&server->config.media_root);
  free_string(server, server->config.unlogged_paths);
  for (size_t i = 0; i < server->config.fetch_rules.n_hosts; i++) free_string(server, server->config.media_hosts[i]);
  if (server->config.fetch_started) ommai_media_fetch_end();
  pthread_cond_destroy(&server->list_changed);
  pthread_mutex_destroy(&server->list_lock);
  ommai_metrics_destroy(&server->metrics);
  ommai_http_metrics_destroy(&server->http_metrics);
  ommai_sleep_destroy(&server->sleep);
  ommai_media_budget_destroy(&server->media_budget);
  ommai_grammar_cache_free(&server->grammars);
  ommai_encoding_memory_free(&server->encodings);
  ommai_encoding_directory_close(&server->encoding_directory);
  ommai_release(server->config.allocator, server, 1, sizeof *server);
}
