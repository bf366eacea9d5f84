/* The whole server over the scripted engine, on a connection. An input that begins with "/" is a
 * path, the end of the line, and the body that is posted there: its reply is whole and not of
 * status 500, and what it holds as JSON is JSON. Any other input is sent as it is, and then the
 * client's end. */
#include <arpa/inet.h>
#include <jansson.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz_input.h"
#include "server/server.h"

enum { MAX_HEAD = 512, MAX_REPLY = 1 << 22, ANSWER_MS = 2, SILENCE_MS = 20 };

static struct omma_model *model;
static struct omma_engine *engine;
static struct ommai_server *server;
static char *reply;

static void stop_server(void) {
  ommai_server_destroy(server);
  omma_engine_destroy(engine);
  omma_model_close(model);
  free(reply);
}

static void start_server(void) {
  const struct omma_engine_options engine_options = {.queue_limit = 0};
  struct omma_server_options options;
  ommai_server_options_default(&options);
  options.port = 0;
  options.max_body_bytes = 1 << 20;
  options.settings.image_limits = (struct omma_image_limits){.max_bytes = 1 << 20, .max_side = 4000, .max_pixels = 1 << 16};
  options.reasoning_parser = "angles";
  options.enable_auto_tool_choice = true;
  options.tool_call_parser = "hermes";
  options.settings.drain_ns = 0;
  FUZZ_CHECK(omma_model_open("m", NULL, &model, NULL) == OMMA_OK);
  FUZZ_CHECK(omma_engine_create(model, &engine_options, &engine, NULL) == OMMA_OK);
  FUZZ_CHECK(ommai_server_create(&options, model, engine, &server, NULL) == OMMA_OK);
  reply = malloc(MAX_REPLY + 1);
  FUZZ_CHECK(reply);
  atexit(stop_server);
}

static void send_all(int connection, const void *bytes, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t now = send(connection, (const char *)bytes + done, size - done, MSG_NOSIGNAL);
    if (now <= 0) return; /* refused early */
    done += (size_t)now;
  }
}

static int open_connection(void) {
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)ommai_server_port(server)), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  FUZZ_CHECK(connection >= 0 && connect(connection, (struct sockaddr *)&address, sizeof address) == 0);
  return connection;
}

/* Something to read, or the server's end. */
static bool is_readable(int connection, int wait_ms) {
  struct pollfd wanted = {.fd = connection, .events = POLLIN};
  return poll(&wanted, 1, wait_ms) != 0;
}

/* Reads to the server's end, or until it is silent for that long; -1: for ever. */
static size_t receive(int connection, int silence_ms) {
  size_t size = 0;
  while (size < MAX_REPLY && is_readable(connection, silence_ms)) {
    ssize_t now = recv(connection, reply + size, MAX_REPLY - size, 0);
    if (now <= 0) break;
    size += (size_t)now;
  }
  reply[size] = 0;
  return size;
}

static size_t ask(const void *head, size_t head_size, const void *body, size_t body_size) {
  int connection = open_connection();
  send_all(connection, head, head_size);
  send_all(connection, body, body_size);
  size_t size = receive(connection, -1);
  close(connection);
  return size;
}

/* Bytes of any kind. An end that comes with them in one event is seen by libmicrohttpd only at the
 * connection's timeout, a second later: so it comes once they are answered, or not at once; and
 * where nothing follows it, the connection is reset. */
static size_t send_and_leave(const void *bytes, size_t size) {
  const struct linger reset = {.l_onoff = 1};
  int connection = open_connection();
  send_all(connection, bytes, size);
  is_readable(connection, ANSWER_MS);
  shutdown(connection, SHUT_WR);
  size_t received = receive(connection, SILENCE_MS);
  setsockopt(connection, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  close(connection);
  return received;
}

/* The bytes of a chunked body, put together in place. */
static size_t join_chunks(char *body, size_t size) {
  size_t from = 0, to = 0;
  for (;;) {
    char *end;
    unsigned long chunk = strtoul(body + from, &end, 16);
    FUZZ_CHECK(end > body + from && end[0] == '\r' && end[1] == '\n');
    from = (size_t)(end - body) + 2;
    FUZZ_CHECK(chunk + 2 <= size - from);
    memmove(body + to, body + from, chunk);
    from += chunk;
    FUZZ_CHECK(body[from] == '\r' && body[from + 1] == '\n');
    from += 2;
    to += chunk;
    if (chunk == 0) return to;
  }
}

static void check_json(const char *text, size_t size) {
  json_t *value = json_loadb(text, size, JSON_ALLOW_NUL, NULL);
  FUZZ_CHECK(value);
  json_decref(value);
}

static void check_events(char *text, size_t size) {
  text[size] = 0;
  for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
    if (strncmp(line, "data: {", 7) == 0) check_json(line + 6, (size_t)(end - line) - 6);
  }
}

/* The one reply to a request of ours. */
static void check_reply(size_t size) {
  char *body = strstr(reply, "\r\n\r\n");
  if (size == 0) return; /* out of memory, or too slow */
  FUZZ_CHECK(body);
  body += 4;
  size -= (size_t)(body - reply);
  body[-1] = 0;
  if (strcasestr(reply, "\r\nTransfer-Encoding: chunked\r\n")) size = join_chunks(body, size);
  if (strcasestr(reply, "\r\nContent-Type: application/json")) check_json(body, size);
  if (strcasestr(reply, "\r\nContent-Type: text/event-stream")) check_events(body, size);
}

static void check_status(size_t size) {
  FUZZ_CHECK(size == 0 || (size > 12 && memcmp(reply, "HTTP/1.", 7) == 0));
  FUZZ_CHECK(size == 0 || memcmp(reply + 9, "500", 3) != 0);
}

/* Whether the body has one of the marks by which a test makes the scripted engine fail. */
static bool makes_engine_fail(const uint8_t *body, size_t size) {
  const char *marks[] = {"[[error_at=", "[[die="};
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
    if (memmem(body, size, marks[i], strlen(marks[i]))) return true;
  }
  return false;
}

/* Posts `body` to the path before it. Blanks and control characters would end the line before its
 * time. */
static void post(const uint8_t *path, size_t path_size, const uint8_t *body, size_t body_size) {
  char head[MAX_HEAD];
  for (size_t i = 0; i < path_size; i++) {
    if (path[i] <= ' ') return;
  }
  int size = snprintf(head, sizeof head,
                      "POST %.*s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
                      "Content-Length: %zu\r\n\r\n",
                      (int)path_size, (const char *)path, body_size);
  if (size >= MAX_HEAD || makes_engine_fail(body, body_size)) return;
  size_t reply_size = ask(head, (size_t)size, body, body_size);
  check_status(reply_size);
  check_reply(reply_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  if (!server) start_server();
  const uint8_t *end = size > 0 && bytes[0] == '/' ? memchr(bytes, '\n', size) : NULL;
  if (end) {
    post(bytes, (size_t)(end - bytes), end + 1, size - (size_t)(end + 1 - bytes));
  } else {
    check_status(send_and_leave(bytes, size));
  }
  return 0;
}
