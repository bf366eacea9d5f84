/* The server's life, and which thread owns what.
 *
 * Threads
 *   IO        libmicrohttpd's: accepts, reads heads and bodies, sends replies and events. Owns
 *             every connection; runs the trivial handlers (models, health, ...). Never waits for
 *             anything but sockets.
 *   workers   take calls from a bounded queue: parse JSON, fetch and decode images, prepare
 *             requests, submit them. Also free finished requests, since freeing takes time.
 *   grammars  compiles what the answers of requests must look like, which workers hand over and go
 *             on with afterwards. Its priority is low.
 *   engine    the engine's own thread, in our callbacks: writes an event into the call's queue and
 *             returns. It never waits for a socket; a reader that falls max_pending_bytes behind is
 *             cancelled.
 *   watcher   epoll for hang-ups (libmicrohttpd does not see those of suspended connections, and
 *             not all others), comment lines in silence, heads and bodies that come too slowly.
 *   caller    create, run, destroy.
 *
 * The trace of a request: IO makes a call at the headers, gathers the body, pushes the job and
 * suspends the connection. A worker prepares and submits. Each token: the engine's thread appends
 * an event and resumes the connection; IO sends it as one chunk in one write and suspends again
 * when the queue is empty. At the end the engine's thread appends the last events (or the whole
 * reply), and a worker frees the request.
 *
 * Locks: list_lock (server) before a call's lock before libmicrohttpd's own. The engine is never
 * called with one of ours held: its thread may be in a callback that waits for the same lock.
 *
 * Sampling, as far as a request does not set it: what omma_model_info recommends
 * (generation_config.json, as vLLM reads it), else temperature 1, top_p 1, all tokens, no penalty,
 * as many tokens as the context leaves; a seed that is random or follows from the server's. */
#include "server/server.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sodium.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "reading/pdf_render.h"
#include "server/core/job_queue.h"
#include "server/http/endpoints.h"
#include "server/http/http_front.h"
#include "server/http/page.h"
#include "server/http/watcher.h"
#include "server/publish/trace_exporter.h"
#include "server/state/server_state.h"

#define DEFAULT_BODIES 8
#define DEFAULT_IMAGE_BYTES (INT64_C(64) << 20)
#define WAITING_DOCUMENTS 8 /* for each that is read */
#define MILLISECOND INT64_C(1000000)

static int64_t or_default(int64_t value, int64_t standard) { return value > 0 ? value : standard; }

static char *copy_string(const struct ommai_server *server, const char *text) {
  return ommai_duplicate(server->config.allocator, text, strlen(text));
}

/* The model's directory without what leads to it and without slashes at its end. */
static char *name_from_directory(const struct ommai_server *server) {
  const char *directory = server->config.info.directory ? server->config.info.directory : "";
  size_t end = strlen(directory);
  while (end && directory[end - 1] == '/') end--;
  size_t start = end;
  while (start && directory[start - 1] != '/') start--;
  if (start == end) return copy_string(server, "model");
  return ommai_duplicate(server->config.allocator, directory + start, end - start);
}

static enum omma_status take_names(struct ommai_server *server, const struct omma_server_options *options,
                                   struct omma_error *error) {
  size_t n_names = options->served_model_names.count;
  if (n_names > OMMAI_MAX_MODEL_NAMES) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "served_model_names",
                            "served_model_names: expected at most %d, found %zu", OMMAI_MAX_MODEL_NAMES, n_names);
  }
  for (size_t i = 0; i < n_names || (n_names == 0 && i == 0); i++) {
    char *name = n_names ? copy_string(server, options->served_model_names.items[i]) : name_from_directory(server);
    if (!name) return ommai_fail_memory(error, "model name", 1);
    server->config.model_names[server->config.n_model_names++] = name;
  }
  server->config.answers_to_path = n_names == 0;
  return OMMA_OK;
}

static enum omma_status take_media_hosts(struct ommai_server *server, const struct omma_server_options *options,
                                         struct omma_error *error) {
  size_t n_hosts = options->allowed_media_domains.count;
  server->config.fetch_rules = (struct ommai_fetch_rules){
      .hosts = server->config.media_hosts,
      .private_addresses = options->allow_private_media_addresses,
      .timeout_ms = options->media_timeout_ms,
      .max_bytes = (size_t)or_default(options->settings.image_limits.max_bytes, DEFAULT_IMAGE_BYTES)};
  if (!n_hosts) return OMMA_OK;
  if (n_hosts > OMMAI_MAX_MEDIA_HOSTS) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "allowed_media_domains",
                            "allowed_media_domains: expected at most %d, found %zu", OMMAI_MAX_MEDIA_HOSTS, n_hosts);
  }
  OMMAI_TRY(ommai_media_fetch_start(error));
  server->config.fetch_started = true;
  for (size_t i = 0; i < n_hosts; i++) {
    server->config.media_hosts[i] = copy_string(server, options->allowed_media_domains.items[i]);
    if (!server->config.media_hosts[i]) return ommai_fail_memory(error, "media host", 1);
    server->config.fetch_rules.n_hosts++;
  }
  return OMMA_OK;
}

static void take_numbers(struct ommai_server *server, const struct omma_server_options *options) {
  struct ommai_server_settings *settings = &server->config.settings;
  *settings = options->settings;
  int64_t share = ((int64_t)settings->max_connections * 3 + 3) / 4;
  int64_t per_address = ommai_integer_or(settings->max_connections_per_address, share);
  settings->max_connections_per_address.value = per_address ? per_address : INT64_MAX;
  server->config.max_body_bytes = (size_t)options->max_body_bytes;
  server->config.max_total_body_bytes = (size_t)options->max_total_body_bytes.value;
  if (!options->max_total_body_bytes.given &&
      !ommai_mul_size(server->config.max_body_bytes, DEFAULT_BODIES, &server->config.max_total_body_bytes)) {
    server->config.max_total_body_bytes = SIZE_MAX;
  }
  server->config.max_pending_bytes = (size_t)options->max_pending_bytes;
  server->config.max_total_pending_bytes = (size_t)options->max_total_pending_bytes;
  server->kv_publisher = options->kv_publisher;
  server->config.log = (struct ommai_log){options->log, options->log_context, options->log_json};
  server->config.created = (int64_t)time(NULL);
}

static enum omma_status take_tools(struct ommai_server *server, const struct omma_server_options *options,
                                   struct omma_error *error) {
  enum omma_tool_format format = OMMA_TOOLS_OBJECTS;
  if (options->tool_call_parser) OMMAI_TRY(omma_tool_parser_find(options->tool_call_parser, &format, error));
  if (options->enable_auto_tool_choice && !options->tool_call_parser) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "tool_call_parser", "tool call parser: auto tool choice needs one");
  }
  if (options->enable_auto_tool_choice) {
    server->config.auto_tools = format == OMMA_TOOLS_OBJECTS ? OMMAI_TOOLS_OBJECTS : OMMAI_TOOLS_SECTIONS;
  }
  return OMMA_OK;
}

/* Slashes at its end are taken off. */
static enum omma_status take_root_path(struct ommai_server *server, const char *path, struct omma_error *error) {
  size_t length = path ? strlen(path) : 0;
  if (length && path[0] != '/') {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "root_path", "root_path: expected a path that begins with /, found %s",
                            path);
  }
  while (length && path[length - 1] == '/') length--;
  if (length == 0) return OMMA_OK;
  server->config.root_path = ommai_duplicate(server->config.allocator, path, length);
  return server->config.root_path ? OMMA_OK : ommai_fail_memory(error, "root path", length);
}

static enum omma_status listen_at(struct ommai_server *server, const struct omma_server_options *options,
                                  struct omma_error *error) {
  if (!options->uds) return ommai_listener_open(options->host, options->port, &server->listener, &server->port, error);
  server->uds = copy_string(server, options->uds);
  if (!server->uds) return ommai_fail_memory(error, "uds", strlen(options->uds));
  /* All clients have the same address: none. */
  server->config.settings.max_connections_per_address.value = INT64_MAX;
  return ommai_listener_open_unix(server->uds, &server->listener, &server->socket_file, error);
}

static enum omma_status take_encodings(struct ommai_server *server, const struct omma_server_options *options,
                                       struct omma_error *error) {
  ommai_encoding_memory_init(&server->encodings, (size_t)options->encoding_bytes, options->encoding_ttl_ms * MILLISECOND,
                             server->config.allocator);
  if (!options->encoding_directory) return OMMA_OK;
  return ommai_encoding_directory_open(options->encoding_directory, options->encoding_file_bytes, server->config.allocator,
                                       &server->encoding_directory, error);
}

static enum omma_status start_traces(struct ommai_server *server, const struct omma_server_options *options,
                                     struct omma_error *error) {
  const struct ommai_trace_settings settings = {options->otlp_traces_endpoint, options->trace_service_name, server->config.log};
  return ommai_trace_exporter_create(&settings, server->config.allocator, &server->tracer, error);
}

static enum omma_status take_options(struct ommai_server *server, const struct omma_server_options *options,
                                     struct omma_error *error) {
  take_numbers(server, options);
  OMMAI_TRY(take_names(server, options, error));
  if (!options->offline) OMMAI_TRY(ommai_tls_load(&options->tls, server->config.allocator, &server->tls, error));
  OMMAI_TRY(ommai_api_keys_take(options->api_keys, options->n_api_keys, server->config.allocator, &server->api_keys, error));
  OMMAI_TRY(ommai_cross_origin_take(&options->cross_origin, server->config.allocator, &server->config.cross_origin, error));
  OMMAI_TRY(take_root_path(server, options->root_path, error));
  OMMAI_TRY(ommai_reasoning_take(options->reasoning_parser, options->reasoning_config, &server->config.reasoning, error));
  OMMAI_TRY(take_tools(server, options, error));
  if (!options->no_page && !options->offline) OMMAI_TRY(ommai_page_create(server->config.allocator, &server->page, error));
  if (options->allowed_local_media_path) {
    OMMAI_TRY(ommai_media_root_open(options->allowed_local_media_path, &server->config.media_root, error));
  }
  if (options->unlogged_paths) {
    server->config.unlogged_paths = copy_string(server, options->unlogged_paths);
    if (!server->config.unlogged_paths) return ommai_fail_memory(error, "unlogged paths", 1);
  }
  OMMAI_TRY(take_encodings(server, options, error));
  return take_media_hosts(server, options, error);
}

static enum omma_status start_readers(struct ommai_server *server, int n, struct omma_error *error) {
  if (!n) return OMMA_OK;
  server->config.reads_pdf = ommai_pdf_is_installed();
  return ommai_job_queue_create(n, (int64_t)n * WAITING_DOCUMENTS, server->config.allocator, &server->readers, error);
}

static void init_locks(struct ommai_server *server) {
  pthread_mutex_init(&server->list_lock, NULL);
  ommai_clock_condition_init(&server->list_changed);
  ommai_http_metrics_init(&server->http_metrics);
  ommai_sleep_init(&server->sleep, server->engine);
}

enum omma_status ommai_server_create(const struct omma_server_options *options, const struct omma_model *model,
                                     struct omma_engine *engine, struct ommai_server **server, struct omma_error *error) {
  OMMAI_TRY(ommai_server_options_check(options, error));
  const struct omma_allocator *allocator = options->allocator ? options->allocator : &ommai_default_allocator;
  if (sodium_init() < 0) return ommai_fail(error, OMMA_ERROR_INTERNAL, "libsodium cannot be initialised");
  enum omma_status status;
  struct ommai_server *made = ommai_allocate(allocator, 1, sizeof *made);
  if (!made) return ommai_fail_memory(error, "server", sizeof *made);
  made->config.allocator = allocator;
  made->config.model = model;
  made->engine = engine;
  made->listener = -1;
  omma_model_get_info(model, &made->config.info);
  made->config.info.max_model_len = omma_engine_max_model_len(engine);
  init_locks(made);
  ommai_grammar_cache_init(&made->grammars, (size_t)options->max_grammar_bytes, options->max_grammar_ms, allocator);
  ommai_media_budget_init(&made->media_budget, options->max_media_bytes);
  OMMAI_TRY_GOTO(ommai_metrics_init(&made->metrics, omma_engine_count(engine), allocator, error), failed);
  OMMAI_TRY_GOTO(take_options(made, options, error), failed);
  if (!options->offline) {
    OMMAI_TRY_GOTO(ommai_openapi_create(made, error), failed);
    OMMAI_TRY_GOTO(start_traces(made, options, error), failed);
    OMMAI_TRY_GOTO(listen_at(made, options, error), failed);
  }
  OMMAI_TRY_GOTO(ommai_job_queue_create(options->n_workers, options->max_queued_requests.value, allocator, &made->jobs, error),
                 failed);
  made->sleep.jobs = made->jobs;
  if (!options->offline) {
    OMMAI_TRY_GOTO(start_readers(made, options->max_documents, error), failed);
    OMMAI_TRY_GOTO(ommai_watcher_create(made, &made->watcher, error), failed);
    OMMAI_TRY_GOTO(ommai_http_start(made, error), failed);
  }
  *server = made;
  return OMMA_OK;
failed:
  ommai_server_destroy(made);
  return status;
}

enum omma_status ommai_server_check(const struct omma_server_options *options, struct omma_error *error) {
  struct ommai_reasoning reasoning;
  struct ommai_tls tls;
  OMMAI_TRY(ommai_api_keys_check(options->api_keys, options->n_api_keys, error));
  OMMAI_TRY(ommai_reasoning_take(options->reasoning_parser, options->reasoning_config, &reasoning, error));
  if (options->allowed_media_domains.count) {
    OMMAI_TRY(ommai_media_fetch_start(error));
    ommai_media_fetch_end();
  }
  if (options->offline) return OMMA_OK;
  enum omma_status status = ommai_tls_load(&options->tls, &ommai_default_allocator, &tls, error);
  ommai_tls_free(&tls);
  if (status == OMMA_OK && options->uds) status = ommai_listener_check_unix(options->uds, error);
  if (status == OMMA_OK && !options->uds) status = ommai_listener_check(options->host, options->port, error);
  return status == OMMA_OK ? ommai_trace_endpoint_check(options->otlp_traces_endpoint, error) : status;
}

int ommai_server_port(const struct ommai_server *server) { return server->port; }

const char *const *ommai_server_model_names(const struct ommai_server *server, size_t *n) {
  *n = server->config.n_model_names;
  return (const char *const *)server->config.model_names;
}

bool ommai_server_is_local(const struct ommai_server *server) { return ommai_listener_is_local(server->listener); }

enum omma_status ommai_server_run(struct ommai_server *server, int stop_descriptor, const struct omma_server_beat *beat,
                                  struct omma_error *error) {
  struct pollfd poller = {.fd = stop_descriptor, .events = POLLIN};
  int wait_ms = beat && beat->milliseconds < INT_MAX ? (int)beat->milliseconds : -1;
  for (;;) {
    struct omma_engine_stats stats;
    int ready = poll(&poller, 1, wait_ms);
    if (ready > 0) return OMMA_OK;
    if (ready < 0 && errno != EINTR) return ommai_fail(error, OMMA_ERROR_IO, "waiting for the end: %s", strerror(errno));
    if (ready < 0) continue;
    omma_engine_get_stats(server->engine, &stats);
    if (stats.alive) beat->call();
  }
}
