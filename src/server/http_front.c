#include "server/http_front.h"

#include <microhttpd.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/error.h"
#include "server/http_head.h"
#include "server/protocol.h"
#include "server/routes.h"
#include "server/server_state.h"

#define CONNECTION_MEMORY (128 * 1024) /* buffers for headers, body pieces and events, per connection */
#define EVENT_BLOCK (32 * 1024)
#define MAX_DISCARDED_BYTES \
  (64u << 20) /* of a refused body that is read to its end, so that the client gets to read our answer */

static const char *header(struct MHD_Connection *connection, const char *name) {
  return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static bool is_plain_id(const char *text) {
  size_t length = strlen(text);
  if (length == 0 || length >= OMMAI_REQUEST_ID_SIZE) return false;
  for (size_t i = 0; i < length; i++) {
    if (text[i] < 0x21 || text[i] > 0x7e) return false;
  }
  return true;
}

static void set_request_id(struct ommai_exchange *exchange, const char *given) {
  if (given && is_plain_id(given)) {
    memcpy(exchange->request_id, given, strlen(given) + 1);
    exchange->id_given = true;
    return;
  }
  ommai_exchange_make_id(exchange);
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
static uint64_t body_bytes(struct MHD_Connection *connection) {
  const char *length = header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
  if (header(connection, MHD_HTTP_HEADER_TRANSFER_ENCODING)) return UINT64_MAX;
  return length ? strtoull(length, NULL, 10) : 0;
}

/* Refuses and closes the connection at once, with nothing more read from it. */
static bool refuse_now(struct ommai_exchange *exchange) {
  exchange->reply.close = true;
  return false;
}

/* In the header of OpenAI's clients or of Anthropic's. */
static bool has_key(const struct ommai_server *server, struct MHD_Connection *connection) {
  return ommai_api_keys_match(&server->api_keys, header(connection, MHD_HTTP_HEADER_AUTHORIZATION)) ||
         ommai_api_keys_have(&server->api_keys, header(connection, "x-api-key"));
}

/* Who asks, and whether there is room for more than a health check. */
static bool check_access(struct ommai_exchange *exchange, struct MHD_Connection *connection, const char *path,
                         struct ommai_api_error *error) {
  struct ommai_server *server = exchange->server;
  if (server->api_keys.count && ommai_route_needs_key(path, server->metrics_without_key, server->page != NULL) &&
      !has_key(server, connection)) {
    ommai_api_fail(error, 401, NULL, "Unauthorized: a valid API key is needed (Authorization: Bearer KEY, or x-api-key: KEY).");
    return body_bytes(connection) ? refuse_now(exchange) : false;
  }
  exchange->route = ommai_route_find(path, &exchange->path_rest);
  if (exchange->route && !server->page && ommai_route_is_page(exchange->route)) exchange->route = NULL;
  bool costs = !exchange->route || !ommai_route_is_for_checks(exchange->route);
  if (costs && atomic_load(&server->stopping)) {
    ommai_api_fail(error, 503, NULL, "The server is shutting down.");
    return refuse_now(exchange);
  }
  if (costs && !ommai_connection_clock_admit(server, exchange->clock, body_bytes(connection))) {
    ommai_api_fail(error, 503, NULL, "The server is busy: too many connections are open.");
    return refuse_now(exchange);
  }
  return true;
}

/* All that can be said before the body: frame, key, path, method, type, announced length. */
static bool check_head(struct ommai_exchange *exchange, struct MHD_Connection *connection, const char *path, const char *method,
                       struct ommai_api_error *error) {
  struct ommai_server *server = exchange->server;
  if (!check_access(exchange, connection, path, error)) return false;
  if (!exchange->route) {
    ommai_api_fail(error, 404, NULL, "Not Found");
    error->type = "Not Found";
    return false;
  }
  if (!(exchange->route->methods & method_bit(method))) {
    exchange->reply.allow = ommai_route_allow(exchange->route);
    return ommai_api_fail(error, 405, NULL, "Method Not Allowed");
  }
  const char *length = header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
  if (length && strtoull(length, NULL, 10) > server->max_body_bytes) {
    return ommai_api_fail(error, 413, NULL, "The request body is larger than this server's limit of %zu bytes.",
                          server->max_body_bytes);
  }
  if (exchange->route->needs_json && !is_json_type(header(connection, MHD_HTTP_HEADER_CONTENT_TYPE))) {
    return ommai_api_fail_body(error, "body", "Content-Type must be application/json.");
  }
  return true;
}

/* A refusal can go out at once where nothing more shall be read, where the body would be too long to read, or where the client waits
 * for a word before sending it; libmicrohttpd then closes the connection. */
static bool must_answer_now(const struct ommai_exchange *exchange, struct MHD_Connection *connection) {
  const char *length = header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
  return exchange->reply.close || header(connection, MHD_HTTP_HEADER_EXPECT) ||
         (length && strtoull(length, NULL, 10) > MAX_DISCARDED_BYTES);
}

static void add_header(struct MHD_Response *response, const char *name, const char *value) {
  MHD_add_response_header(response, name, value);
}

/* The next event for the socket: one call, one chunk, one write, unless it is longer than EVENT_BLOCK. */
static ssize_t read_stream(void *context, uint64_t position, char *out, size_t capacity) {
  (void)position;
  struct ommai_exchange *exchange = context;
  struct ommai_event *sent = NULL;
  ssize_t result = 0;
  pthread_mutex_lock(&exchange->lock);
  struct ommai_event *event = exchange->head;
  if (exchange->gone) {
    result = MHD_CONTENT_READER_END_WITH_ERROR;
  } else if (event) {
    size_t left = event->size - event->sent;
    size_t size = left < capacity ? left : capacity;
    memcpy(out, event->data + event->sent, size);
    event->sent += size;
    result = (ssize_t)size;
    if (event->sent == event->size) {
      exchange->head = event->next;
      if (!exchange->head) exchange->tail = NULL;
      exchange->pending_bytes -= event->size;
      sent = event;
    }
  } else if (exchange->ended) {
    result = MHD_CONTENT_READER_END_OF_STREAM;
  } else {
    exchange->suspended = true;
    MHD_suspend_connection(exchange->connection);
  }
  pthread_mutex_unlock(&exchange->lock);
  ommai_exchange_free_event(exchange, sent);
  return result;
}

static struct MHD_Response *make_stream_response(struct ommai_exchange *exchange) {
  struct MHD_Response *response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, EVENT_BLOCK, read_stream, exchange, NULL);
  if (!response) return NULL;
  add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream; charset=utf-8");
  add_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
  add_header(response, "X-Accel-Buffering", "no");
  return response;
}

static struct MHD_Response *make_reply_response(struct ommai_exchange *exchange) {
  struct ommai_text *body = &exchange->reply.body;
  struct MHD_Response *response =
      MHD_create_response_from_buffer(body->size, body->size ? body->data : (void *)"", MHD_RESPMEM_MUST_COPY);
  if (!response) return NULL;
  if (body->size) add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, exchange->reply.content_type);
  if (exchange->reply.status == 401) add_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
  if (exchange->reply.status == 503 && exchange->route && exchange->route->needs_json) {
    add_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
  }
  if (exchange->reply.allow) add_header(response, MHD_HTTP_HEADER_ALLOW, exchange->reply.allow);
  for (const struct ommai_header *more = exchange->reply.headers; more && more->name; more++) {
    add_header(response, more->name, more->value);
  }
  if (exchange->reply.close || atomic_load(&exchange->server->leaving))
    add_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  return response;
}

/* Sends what is ready, a whole reply or the beginning of a stream. */
static enum MHD_Result respond(struct ommai_exchange *exchange, struct MHD_Connection *connection, bool streaming) {
  struct MHD_Response *response = streaming ? make_stream_response(exchange) : make_reply_response(exchange);
  if (!response) return MHD_NO;
  add_header(response, "x-request-id", exchange->request_id);
  if (exchange->protocol == &ommai_protocol_messages) add_header(response, "request-id", exchange->request_id);
  ommai_cross_origin_add(&exchange->server->cross_origin, connection, exchange->preflight, response);
  exchange->responded = true;
  enum MHD_Result result = MHD_queue_response(connection, streaming ? MHD_HTTP_OK : (unsigned)exchange->reply.status, response);
  MHD_destroy_response(response);
  return result;
}

/* Answers when there is something to say, else suspends the connection until there is. */
static enum MHD_Result respond_or_wait(struct ommai_exchange *exchange, struct MHD_Connection *connection) {
  pthread_mutex_lock(&exchange->lock);
  bool gone = exchange->gone, streaming = exchange->streaming, ready = exchange->replied || streaming;
  if (!gone && !ready) {
    exchange->suspended = true;
    MHD_suspend_connection(connection);
  }
  pthread_mutex_unlock(&exchange->lock);
  if (gone) return MHD_NO;
  return ready ? respond(exchange, connection, streaming) : MHD_YES;
}

/* The body is complete: handle the request here when it is trivial, else on a worker. */
static void dispatch(struct ommai_exchange *exchange) {
  struct ommai_server *server = exchange->server;
  struct ommai_api_error error;
  exchange->dispatched = true;
  atomic_store(&exchange->body_complete, true);
  ommai_connection_clock_body(server, exchange->clock);
  if (ommai_exchange_has_reply(exchange)) return;
  if (!exchange->route->needs_json) {
    exchange->route->handle(exchange);
    return;
  }
  if (atomic_load(&server->stopping)) {
    ommai_api_fail(&error, 503, NULL, "The server is shutting down.");
    ommai_exchange_fail(exchange, &error);
    return;
  }
  /* Only here: a hang-up behind a short request must not take away the reply that is given at once. */
  if (ommai_connection_clock_answer(server, exchange->clock)) {
    ommai_exchange_leave(exchange);
    return;
  }
  atomic_fetch_add(&server->n_active, 1);
  exchange->active = true;
  exchange->job.run = ommai_route_run;
  ommai_exchange_retain(exchange);
  if (ommai_job_queue_push(server->jobs, &exchange->job)) return;
  ommai_exchange_release(exchange);
  ommai_api_fail(&error, 503, NULL, "The server is busy: too many requests wait.");
  ommai_exchange_fail(exchange, &error);
}

/* A piece of the body. Refused bodies are read and dropped up to a limit. */
static enum MHD_Result receive(struct ommai_exchange *exchange, const char *data, size_t size) {
  struct ommai_server *server = exchange->server;
  struct ommai_api_error error;
  if (exchange->route && exchange->route->needs_json && !ommai_exchange_has_reply(exchange)) {
    if (size > server->max_body_bytes - exchange->body.size) {
      ommai_api_fail(&error, 413, NULL, "The request body is larger than this server's limit of %zu bytes.",
                     server->max_body_bytes);
    } else if (ommai_server_reserve_body(exchange, size) && ommai_text_reserve(&exchange->body, size)) {
      ommai_text_append(&exchange->body, data, size);
      return MHD_YES;
    } else {
      ommai_api_fail(&error, 503, NULL, "The server is busy: it holds too many request bodies.");
    }
    ommai_server_release_body(exchange);
    ommai_exchange_fail(exchange, &error);
  }
  exchange->discarded += size;
  return exchange->discarded <= MAX_DISCARDED_BYTES ? MHD_YES : MHD_NO;
}

static void answer_preflight(struct ommai_exchange *exchange, struct MHD_Connection *connection) {
  struct ommai_text text;
  ommai_text_init(&text, exchange->allocator);
  exchange->preflight = true;
  int status = ommai_cross_origin_preflight(&exchange->server->cross_origin, connection, &text);
  ommai_exchange_reply(exchange, status, "text/plain; charset=utf-8", &text);
}

/* Answers before the body is read; libmicrohttpd then closes the connection. */
static enum MHD_Result respond_now(struct ommai_exchange *exchange, struct MHD_Connection *connection) {
  ommai_connection_clock_body(exchange->server, exchange->clock);
  return respond(exchange, connection, false);
}

/* The headers are there. */
static enum MHD_Result begin(struct ommai_server *server, struct MHD_Connection *connection, const char *target,
                             const char *method, const char *version, void **context) {
  struct ommai_api_error error;
  struct ommai_connection_clock *clock = ommai_connection_clock_of(connection);
  struct ommai_exchange *exchange = clock ? ommai_exchange_create(server) : NULL;
  if (!exchange) return MHD_NO;
  const char *path = ommai_http_head_below(ommai_http_head_path(target), server->root_path);
  exchange->connection = connection;
  exchange->protocol = ommai_protocol_of(path);
  exchange->clock = clock;
  ommai_connection_clock_head(server, clock);
  ommai_access_begin(exchange, connection, path, method, version);
  set_request_id(exchange, header(connection, "x-request-id"));
  ommai_server_enlist(server, exchange);
  *context = exchange;
  if (!ommai_http_head_check(connection, version, &error)) {
    refuse_now(exchange);
  } else if (ommai_cross_origin_is_preflight(&server->cross_origin, connection, method)) {
    answer_preflight(exchange, connection);
    return body_bytes(connection) ? respond_now(exchange, connection) : MHD_YES;
  } else if (check_head(exchange, connection, path, method, &error)) {
    return MHD_YES;
  }
  ommai_exchange_fail(exchange, &error);
  return must_answer_now(exchange, connection) ? respond_now(exchange, connection) : MHD_YES;
}

static enum MHD_Result handle_access(void *server, struct MHD_Connection *connection, const char *target, const char *method,
                                     const char *version, const char *data, size_t *size, void **context) {
  struct ommai_exchange *exchange = *context;
  if (!exchange) return begin(server, connection, target, method, version, context);
  if (*size) {
    enum MHD_Result result = receive(exchange, data, *size);
    *size = 0;
    return result;
  }
  if (exchange->responded) return MHD_YES;
  if (!exchange->dispatched) dispatch(exchange);
  return respond_or_wait(exchange, connection);
}

/* The reply is out, or the connection broke. */
static void handle_completed(void *context, struct MHD_Connection *connection, void **exchange_context,
                             enum MHD_RequestTerminationCode code) {
  struct ommai_server *server = context;
  struct ommai_exchange *exchange = *exchange_context;
  /* A connection that breaks in the midst of a reply is closed only as it is looked at again, which can be at its timeout (0.9.75). */
  if (code != MHD_REQUEST_TERMINATED_COMPLETED_OK) MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, 1u);
  if (!exchange) return;
  *exchange_context = NULL;
  if (exchange->active) atomic_fetch_sub(&server->n_active, 1);
  ommai_access_end(exchange, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
  pthread_mutex_lock(&exchange->lock);
  exchange->connection = NULL;
  exchange->gone = true;
  bool unfinished = !exchange->ended;
  pthread_mutex_unlock(&exchange->lock);
  if (unfinished) ommai_exchange_cancel_engine(exchange);
  ommai_connection_clock_reply(server, exchange->clock);
  ommai_server_delist(server, exchange);
  ommai_exchange_release(exchange);
}

static void handle_connection(void *server, struct MHD_Connection *connection, void **context,
                              enum MHD_ConnectionNotificationCode code) {
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    ommai_tls_open(&((struct ommai_server *)server)->tls, connection);
    *context = ommai_connection_clock_open(server, connection);
  } else {
    ommai_connection_clock_close(server, *context);
    *context = NULL;
  }
}

/* Cuts the query off before libmicrohttpd takes it apart. No route has a use for it, and its arguments would use up the connection's
 * memory, to the point where there is none left to refuse in. The target lies in the connection's own buffer. */
static void *drop_query(void *context, const char *target, struct MHD_Connection *connection) {
  (void)context, (void)connection;
  char *query = target ? strchr(target, '?') : NULL;
  if (query) query[1] = '\0';
  return NULL;
}

enum { MAX_TLS_OPTIONS = 4 };

/* What libmicrohttpd needs for TLS; the texts are the server's. */
static void list_tls_options(struct ommai_server *server, struct MHD_OptionItem list[MAX_TLS_OPTIONS + 1]) {
  struct MHD_OptionItem *end = list;
  const struct ommai_tls *tls = &server->tls;
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
  struct MHD_OptionItem tls_options[MAX_TLS_OPTIONS + 1];
  unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | (server->tls.certificate ? MHD_USE_TLS : 0);
  list_tls_options(server, tls_options);
  int64_t room = server->max_connections + OMMAI_CHECK_CONNECTIONS;
  unsigned max_connections = room < INT32_MAX ? (unsigned)room : INT32_MAX;
  unsigned idle_timeout = (unsigned)(server->idle_timeout_ns / 1000000000);
  server->daemon = MHD_start_daemon(
      flags, 0, NULL, NULL, handle_access, server, MHD_OPTION_LISTEN_SOCKET, server->listener, MHD_OPTION_CONNECTION_LIMIT,
      max_connections, MHD_OPTION_CONNECTION_TIMEOUT, idle_timeout, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
      (size_t)CONNECTION_MEMORY, MHD_OPTION_NOTIFY_COMPLETED, handle_completed, server, MHD_OPTION_NOTIFY_CONNECTION,
      handle_connection, server, MHD_OPTION_URI_LOG_CALLBACK, drop_query, NULL, MHD_OPTION_ARRAY, tls_options, MHD_OPTION_END);
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
