#include "server/http/http_front.h"

#include <microhttpd.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/error.h"
#include "server/core/job_queue.h"
#include "server/core/protocol.h"
#include "server/http/access.h"
#include "server/http/body_budget.h"
#include "server/http/call_trace.h"
#include "server/http/connection.h"
#include "server/http/http_call.h"
#include "server/http/http_head.h"
#include "server/http/routes.h"
#include "server/http/watcher.h"
#include "server/state/server_state.h"

/* Buffers for headers, body pieces and events, per connection. */
#define CONNECTION_MEMORY (128 * 1024)
#define EVENT_BLOCK (32 * 1024)
#define LARGE_BODY_BYTES ((size_t)64 << 10)
/* Of a refused body that is read to its end, so that the client gets to read our answer. */
#define MAX_DISCARDED_BYTES (64u << 20)

static const char *header(struct MHD_Connection *mhd, const char *name) {
  return MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, name);
}

static bool is_plain_id(const char *text) {
  size_t length = strlen(text);
  if (length == 0 || length >= OMMAI_REQUEST_ID_SIZE) return false;
  for (size_t i = 0; i < length; i++) {
    if (text[i] < 0x21 || text[i] > 0x7e) return false;
  }
  return true;
}

static void set_request_id(struct ommai_http_call *call, const char *given) {
  if (given && is_plain_id(given)) {
    memcpy(call->request_id, given, strlen(given) + 1);
    call->id_given = true;
    return;
  }
  ommai_http_call_make_id(call);
}

static bool is_json_type(const char *type) {
  static const char JSON[] = "application/json";
  if (!type || strncasecmp(type, JSON, sizeof JSON - 1)) return false;
  char next = type[sizeof JSON - 1];
  return next == '\0' || next == ';' || next == ' ';
}

static unsigned method_bit(const char *method) {
  if (!strcmp(method, MHD_HTTP_METHOD_GET) || !strcmp(method, MHD_HTTP_METHOD_HEAD)) return OMMAI_METHOD_GET;
  return !strcmp(method, MHD_HTTP_METHOD_POST) ? OMMAI_METHOD_POST : 0;
}

/* As announced; UINT64_MAX: without an end that is known. */
static uint64_t body_bytes(struct MHD_Connection *mhd) {
  const char *length = header(mhd, MHD_HTTP_HEADER_CONTENT_LENGTH);
  if (header(mhd, MHD_HTTP_HEADER_TRANSFER_ENCODING)) return UINT64_MAX;
  return length ? strtoull(length, NULL, 10) : 0;
}

/* Refuses and closes the connection at once, with nothing more read from it. */
static bool refuse_now(struct ommai_http_call *call) {
  call->reply.close = true;
  return false;
}

/* In the header of OpenAI's clients or of Anthropic's. */
static bool has_key(const struct ommai_server *server, struct MHD_Connection *mhd) {
  return ommai_api_keys_match(&server->api_keys, header(mhd, MHD_HTTP_HEADER_AUTHORIZATION)) ||
         ommai_api_keys_have(&server->api_keys, header(mhd, "x-api-key"));
}

/* Who asks, and whether there is room for more than a health check. */
static bool check_access(struct ommai_http_call *call, struct MHD_Connection *mhd, const char *path,
                         struct ommai_api_error *error) {
  struct ommai_server *server = call->server;
  if (server->api_keys.count &&
      ommai_route_needs_key(path, server->config.settings.metrics_without_key, server->page != NULL) && !has_key(server, mhd)) {
    ommai_api_fail(error, 401, NULL, "Unauthorized: a valid API key is needed (Authorization: Bearer KEY, or x-api-key: KEY).");
    return body_bytes(mhd) ? refuse_now(call) : false;
  }
  call->route = ommai_route_find(path, &call->path_rest);
  if (call->route && !server->page && ommai_route_is_page(call->route)) call->route = NULL;
  bool costs = !call->route || !ommai_route_is_for_checks(call->route);
  if (costs && atomic_load(&server->stopping)) {
    ommai_api_fail(error, 503, NULL, "The server is shutting down.");
    return refuse_now(call);
  }
  if (costs && !ommai_connection_admit(server, call->connection, body_bytes(mhd))) {
    ommai_api_refuse(error, OMMAI_REFUSAL_CONNECTIONS);
    return refuse_now(call);
  }
  return true;
}

/* All that can be checked before the body: frame, key, path, method, type, announced length. */
static bool check_head(struct ommai_http_call *call, struct MHD_Connection *mhd, const char *path, const char *method,
                       struct ommai_api_error *error) {
  struct ommai_server *server = call->server;
  if (!check_access(call, mhd, path, error)) return false;
  ommai_call_trace_begin(call, mhd);
  if (!call->route) {
    ommai_api_fail(error, 404, NULL,
                   "Not Found: no endpoint has this path (GET /docs lists them; /v1/chat/completions is one).");
    error->type = "Not Found";
    return false;
  }
  if (!(call->route->methods & method_bit(method))) {
    call->reply.allow = ommai_route_allow(call->route);
    return ommai_api_fail(error, 405, NULL, "Method Not Allowed: this endpoint takes %s.", call->reply.allow);
  }
  const char *length = header(mhd, MHD_HTTP_HEADER_CONTENT_LENGTH);
  if (length && strtoull(length, NULL, 10) > server->config.max_body_bytes) {
    return ommai_api_fail(error, 413, NULL, "The request body is larger than this server's limit of %zu bytes.",
                          server->config.max_body_bytes);
  }
  if (call->route->answer && !is_json_type(header(mhd, MHD_HTTP_HEADER_CONTENT_TYPE))) {
    return ommai_api_fail_body(error, "body", "Content-Type must be application/json.");
  }
  return !call->route->answer || !atomic_load(&server->sleep.refuses) || ommai_api_refuse(error, OMMAI_REFUSAL_ASLEEP);
}

/* A refusal can go out at once where nothing more shall be read, where the body would be too long
 * to read, or where the client waits for a word before sending it; libmicrohttpd then closes the
 * connection. */
static bool must_answer_now(const struct ommai_http_call *call, struct MHD_Connection *mhd) {
  const char *length = header(mhd, MHD_HTTP_HEADER_CONTENT_LENGTH);
  return call->reply.close || header(mhd, MHD_HTTP_HEADER_EXPECT) ||
         (length && strtoull(length, NULL, 10) > MAX_DISCARDED_BYTES);
}

static void add_header(struct MHD_Response *response, const char *name, const char *value) {
  MHD_add_response_header(response, name, value);
}

/* The next event for the socket: one call, one chunk, one write, unless it is longer than
 * EVENT_BLOCK. */
static ssize_t read_stream(void *context, uint64_t position, char *out, size_t capacity) {
  (void)position;
  struct ommai_http_call *call = context;
  struct ommai_event *sent = NULL;
  ssize_t result = 0;
  pthread_mutex_lock(&call->lock);
  struct ommai_event *event = call->head;
  if (call->gone) {
    result = MHD_CONTENT_READER_END_WITH_ERROR;
  } else if (event) {
    size_t left = event->size - event->sent;
    size_t size = left < capacity ? left : capacity;
    memcpy(out, event->data + event->sent, size);
    event->sent += size;
    result = (ssize_t)size;
    if (event->sent == event->size) {
      call->head = event->next;
      if (!call->head) call->tail = NULL;
      call->pending_bytes -= event->size;
      atomic_fetch_sub(&call->server->pending_bytes, event->size);
      sent = event;
    }
  } else if (call->ended) {
    result = MHD_CONTENT_READER_END_OF_STREAM;
  } else {
    call->suspended = true;
    MHD_suspend_connection(call->mhd);
  }
  pthread_mutex_unlock(&call->lock);
  ommai_http_call_free_event(call, sent);
  return result;
}

static struct MHD_Response *make_stream_response(struct ommai_http_call *call) {
  struct MHD_Response *response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, EVENT_BLOCK, read_stream, call, NULL);
  if (!response) return NULL;
  add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream; charset=utf-8");
  add_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
  add_header(response, "X-Accel-Buffering", "no");
  return response;
}

static struct MHD_Response *make_reply_response(struct ommai_http_call *call) {
  struct ommai_text *body = &call->reply.body;
  struct MHD_Response *response =
      MHD_create_response_from_buffer(body->size, body->size ? body->data : (void *)"", MHD_RESPMEM_MUST_COPY);
  if (!response) return NULL;
  bool has_body = body->size > 0;
  ommai_text_free(body);
  if (has_body) add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, call->reply.content_type);
  if (call->reply.status == 401) add_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
  if (call->reply.status == 503 && call->route && call->route->answer) {
    add_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
  }
  if (call->reply.allow) add_header(response, MHD_HTTP_HEADER_ALLOW, call->reply.allow);
  for (const struct ommai_header *more = call->reply.headers; more && more->name; more++) {
    add_header(response, more->name, more->value);
  }
  if (call->reply.close || atomic_load(&call->server->leaving)) add_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  return response;
}

/* Sends what is ready, a whole reply or the beginning of a stream. */
static enum MHD_Result respond(struct ommai_http_call *call, struct MHD_Connection *mhd, bool streaming) {
  struct MHD_Response *response = streaming ? make_stream_response(call) : make_reply_response(call);
  if (!response) return MHD_NO;
  add_header(response, "x-request-id", call->request_id);
  if (call->protocol == &ommai_protocol_messages) add_header(response, "request-id", call->request_id);
  ommai_cross_origin_add(&call->server->config.cross_origin, mhd, call->preflight, response);
  call->responded = true;
  enum MHD_Result result = MHD_queue_response(mhd, streaming ? MHD_HTTP_OK : (unsigned)call->reply.status, response);
  MHD_destroy_response(response);
  return result;
}

/* Answers when there is something to send, else suspends the connection until there is. */
static enum MHD_Result respond_or_wait(struct ommai_http_call *call, struct MHD_Connection *mhd) {
  pthread_mutex_lock(&call->lock);
  bool gone = call->gone, streaming = call->streaming, ready = call->replied || streaming;
  if (!gone && !ready) {
    call->suspended = true;
    MHD_suspend_connection(mhd);
  }
  pthread_mutex_unlock(&call->lock);
  if (gone) return MHD_NO;
  return ready ? respond(call, mhd, streaming) : MHD_YES;
}

/* The body is complete: handle the request here when it is trivial, else on a worker. */
static void dispatch(struct ommai_http_call *call) {
  struct ommai_server *server = call->server;
  struct omma_engine_stats stats;
  struct ommai_api_error error;
  call->dispatched = true;
  atomic_store(&call->body_complete, true);
  ommai_connection_enter(server, call->connection, OMMAI_STAGE_ANSWER);
  if (ommai_http_call_has_reply(call)) return;
  if (!call->route->answer) {
    call->route->handle(call);
    return;
  }
  if (atomic_load(&server->stopping)) {
    ommai_api_fail(&error, 503, NULL, "The server is shutting down.");
    ommai_http_call_fail(call, &error);
    return;
  }
  if (atomic_load(&server->sleep.refuses)) {
    ommai_api_refuse(&error, OMMAI_REFUSAL_ASLEEP);
    ommai_http_call_fail(call, &error);
    return;
  }
  /* Only here: a hang-up after a short request must not take away the reply that is given at
   * once. */
  if (ommai_connection_answer(server, call->connection)) {
    ommai_http_call_leave(call);
    return;
  }
  atomic_fetch_add(&server->n_active, 1);
  call->active = true;
  ommai_http_call_begin_work(call);
  call->job.run = ommai_route_run;
  call->job.client = ommai_connection_client(call->connection);
  call->job.large = call->body.size > LARGE_BODY_BYTES;
  ommai_http_call_retain(call);
  omma_engine_get_stats(server->engine, &stats);
  if (ommai_job_queue_push(server->jobs, &call->job, stats.n_waiting)) return;
  ommai_http_call_release(call);
  ommai_api_refuse(&error, OMMAI_REFUSAL_QUEUED_REQUESTS);
  ommai_http_call_fail(call, &error);
}

/* A piece of the body. Refused bodies are read and dropped up to a limit. */
static enum MHD_Result receive(struct ommai_http_call *call, const char *data, size_t size) {
  struct ommai_server *server = call->server;
  struct ommai_api_error error;
  if (call->route && call->route->answer && !ommai_http_call_has_reply(call)) {
    if (size > server->config.max_body_bytes - call->body.size) {
      ommai_api_fail(&error, 413, NULL, "The request body is larger than this server's limit of %zu bytes.",
                     server->config.max_body_bytes);
    } else if (ommai_body_budget_reserve(call, size) && ommai_text_reserve(&call->body, size)) {
      ommai_text_append(&call->body, data, size);
      return MHD_YES;
    } else {
      ommai_api_refuse(&error, OMMAI_REFUSAL_BODIES);
    }
    ommai_http_call_release_body(call);
    ommai_http_call_fail(call, &error);
  }
  call->discarded += size;
  return call->discarded <= MAX_DISCARDED_BYTES ? MHD_YES : MHD_NO;
}

static void answer_preflight(struct ommai_http_call *call, struct MHD_Connection *mhd) {
  struct ommai_text text = ommai_text_of(call->allocator);
  call->preflight = true;
  int status = ommai_cross_origin_preflight(&call->server->config.cross_origin, mhd, &text);
  ommai_http_call_reply(call, status, "text/plain; charset=utf-8", &text);
}

/* Answers before the body is read; libmicrohttpd then closes the connection. */
static enum MHD_Result respond_now(struct ommai_http_call *call, struct MHD_Connection *mhd) {
  ommai_connection_enter(call->server, call->connection, OMMAI_STAGE_ANSWER);
  return respond(call, mhd, false);
}

/* The headers are there. */
static enum MHD_Result begin(struct ommai_server *server, struct MHD_Connection *mhd, const char *target, const char *method,
                             const char *version, void **context) {
  struct ommai_api_error error;
  struct ommai_connection *connection = ommai_connection_of(mhd);
  struct ommai_http_call *call = connection ? ommai_http_call_create(server) : NULL;
  if (!call) return MHD_NO;
  const char *path = ommai_http_head_below(ommai_http_head_path(target), server->config.root_path);
  call->mhd = mhd;
  call->protocol = ommai_protocol_of(path);
  call->connection = connection;
  call->query = connection->query_fits ? connection->query : NULL;
  connection->reading = NULL;
  ommai_connection_enter(server, connection, OMMAI_STAGE_BODY);
  ommai_access_begin(call, mhd, path, method, version);
  set_request_id(call, header(mhd, "x-request-id"));
  ommai_http_call_list(call);
  *context = call;
  const struct ommai_request_line line = {method, version, connection->target_fits};
  if (!ommai_http_head_check(mhd, &line, &error)) {
    refuse_now(call);
  } else if (ommai_cross_origin_is_preflight(&server->config.cross_origin, mhd, method)) {
    answer_preflight(call, mhd);
    return body_bytes(mhd) ? respond_now(call, mhd) : MHD_YES;
  } else if (check_head(call, mhd, path, method, &error)) {
    return MHD_YES;
  }
  ommai_http_call_fail(call, &error);
  return must_answer_now(call, mhd) ? respond_now(call, mhd) : MHD_YES;
}

static enum MHD_Result handle_access(void *server, struct MHD_Connection *mhd, const char *target, const char *method,
                                     const char *version, const char *data, size_t *size, void **context) {
  struct ommai_http_call *call = *context;
  if (!call) return begin(server, mhd, target, method, version, context);
  if (*size) {
    enum MHD_Result result = receive(call, data, *size);
    *size = 0;
    return result;
  }
  if (call->responded) return MHD_YES;
  if (!call->dispatched) dispatch(call);
  return respond_or_wait(call, mhd);
}

/* The reply is out, or the connection broke. */
static void handle_completed(void *context, struct MHD_Connection *mhd, void **call_context,
                             enum MHD_RequestTerminationCode code) {
  struct ommai_server *server = context;
  struct ommai_http_call *call = *call_context;
  /* A connection that breaks in the midst of a reply is closed only as it is looked at again, which
   * can be at its timeout (0.9.75). */
  if (code != MHD_REQUEST_TERMINATED_COMPLETED_OK) MHD_set_connection_option(mhd, MHD_CONNECTION_OPTION_TIMEOUT, 1u);
  if (!call) return;
  *call_context = NULL;
  if (call->active) atomic_fetch_sub(&server->n_active, 1);
  ommai_access_end(call, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
  ommai_http_call_completed(call);
  if (code == MHD_REQUEST_TERMINATED_COMPLETED_OK) call->connection->reading = mhd;
  ommai_connection_enter(server, call->connection, OMMAI_STAGE_IDLE);
  ommai_http_call_unlist(call);
  ommai_http_call_release(call);
}

static void handle_connection(void *context_of_server, struct MHD_Connection *mhd, void **context,
                              enum MHD_ConnectionNotificationCode code) {
  struct ommai_server *server = context_of_server;
  struct ommai_connection *connection = *context;
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    ommai_tls_open(&server->tls, mhd);
    *context = connection = ommai_connection_open(server, mhd);
    if (connection) ommai_watcher_watch(server->watcher, connection->descriptor, connection->number);
  } else {
    if (connection) ommai_watcher_unwatch(server->watcher, connection->descriptor);
    ommai_connection_close(server, connection);
    *context = NULL;
  }
}

static void keep_query(struct ommai_connection *connection, const char *query) {
  size_t length = strlen(query);
  connection->query_fits = length < sizeof connection->query;
  if (connection->query_fits) memcpy(connection->query, query, length + 1);
}

/* Looks at the target as it came, and cuts the query off before libmicrohttpd takes it apart: its
 * arguments would use up the connection's memory, to the point where there is none left to refuse
 * in. The few routes with a use for it get a short one as it came. The target lies in the
 * connection's own buffer. */
static void *look_at_target(void *context, const char *target, struct MHD_Connection *mhd) {
  (void)context;
  struct ommai_connection *connection = ommai_connection_of(mhd);
  char *query = target ? strchr(target, '?') : NULL;
  if (connection) {
    connection->target_fits = target && ommai_http_head_target_fits(target);
    keep_query(connection, query ? query + 1 : "");
  }
  if (query) query[1] = '\0';
  return NULL;
}

/* A line of libmicrohttpd's log: the only sign it gives of what it refuses by itself. Its replies
 * are in HTML, and 0.9 writes the head of this one twice. Other lines are about connections that
 * it closes without a reply, as where memory ran out. */
static void look_at_complaint(void *server, const char *format, va_list arguments) {
  (void)arguments;
  if (strstr(format, "Content-Length")) ommai_connection_refuse_head(server);
}

enum { MAX_OPTIONS = 5 };

/* What not every server has; the texts are the server's. */
static void list_options(struct ommai_server *server, struct MHD_OptionItem list[MAX_OPTIONS + 1]) {
  struct MHD_OptionItem *end = list;
  const struct ommai_tls *tls = &server->tls;
  /* 0.9 would refuse in HTML what is refused here, and nothing more */
  if (!ommai_http_head_is_checked()) *end++ = (struct MHD_OptionItem){MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL};
  if (tls->certificate) {
    static char priorities[] = OMMAI_TLS_PRIORITIES;
    *end++ = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, tls->key};
    *end++ = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, tls->certificate};
    *end++ = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, priorities};
  }
  if (tls->authorities) *end++ = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_TRUST, 0, tls->authorities};
  *end = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
}

enum omma_status ommai_http_start(struct ommai_server *server, struct omma_error *error) {
  struct MHD_OptionItem options[MAX_OPTIONS + 1];
  unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                   (server->tls.certificate ? MHD_USE_TLS : 0);
  list_options(server, options);
  unsigned max_connections = (unsigned)server->config.settings.max_connections + OMMAI_CHECK_CONNECTIONS;
  unsigned idle_timeout = (unsigned)(server->config.settings.idle_timeout_ns / 1000000000);
  server->daemon = MHD_start_daemon(
      flags, 0, NULL, NULL, handle_access, server, MHD_OPTION_EXTERNAL_LOGGER, look_at_complaint, server,
      MHD_OPTION_LISTEN_SOCKET, server->listener, MHD_OPTION_CONNECTION_LIMIT, max_connections, MHD_OPTION_CONNECTION_TIMEOUT,
      idle_timeout, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_NOTIFY_COMPLETED,
      handle_completed, server, MHD_OPTION_NOTIFY_CONNECTION, handle_connection, server, MHD_OPTION_URI_LOG_CALLBACK,
      look_at_target, NULL, MHD_OPTION_ARRAY, options, MHD_OPTION_END);
  if (!server->daemon) return ommai_fail(error, OMMA_ERROR_INTERNAL, "the HTTP library cannot start its thread");
  return OMMA_OK;
}

void ommai_http_quiesce(struct ommai_server *server) {
  MHD_quiesce_daemon(server->daemon);
  shutdown(server->listener, SHUT_RDWR);
}

void ommai_http_stop(struct ommai_server *server) {
  if (server->daemon) MHD_stop_daemon(server->daemon);
  server->daemon = NULL;
}
