#include "server/http/connection.h"

#include <linux/sockios.h>
#include <linux/tcp.h> /* glibc's own has no tcpi_bytes_received */
#include <microhttpd.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/clock.h"
#include "server/http/http_call.h"
#include "server/state/server_state.h"

#define SECOND_NS INT64_C(1000000000)
/* for what was sent before the hang-up, and a short reply to it */
#define HANG_UP_GRACE_NS SECOND_NS
/* in which a request may be on its way, and a connection has nothing to prove */
#define YOUNG_NS (SECOND_NS / 4)
#define SMALL_BODY_BYTES (64 << 10) /* comes at once with its head */
/* counted besides what came, so that a new connection is not the slowest */
#define NEW_BYTES 4096
/* connections that are looked at to find a slow one, those opened last */
#define MAX_COMPARED 512
/* and for which room is made in one round */
#define MAX_ROOMS 64

/* The address without what one client can choose freely. */
static void take_address(struct ommai_connection *connection, const struct sockaddr *address) {
  if (address && address->sa_family == AF_INET) {
    struct sockaddr_in in;
    memcpy(&in, address, sizeof in);
    connection->address[10] = connection->address[11] = 0xff;
    memcpy(connection->address + 12, &in.sin_addr, 4);
  } else if (address && address->sa_family == AF_INET6) {
    struct sockaddr_in6 in6;
    memcpy(&in6, address, sizeof in6);
    memcpy(connection->address, &in6.sin6_addr, IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr) ? 16 : 8);
  }
}

/* Of the connection's counters, a 64-bit one, 0 before Linux 4.1; false where it is none of TCP. */
static bool read_counter(const struct ommai_connection *connection, size_t place, uint64_t *bytes) {
  struct tcp_info info = {0};
  socklen_t size = sizeof info;
  if (getsockopt(connection->descriptor, IPPROTO_TCP, TCP_INFO, &info, &size)) return false;
  memcpy(bytes, (const char *)&info + place, sizeof *bytes);
  return true;
}

/* Bytes that have come from the client so far; 0 where that is not known. */
static uint64_t received(const struct ommai_connection *connection) {
  uint64_t bytes = 0;
  return read_counter(connection, offsetof(struct tcp_info, tcpi_bytes_received), &bytes) ? bytes : 0;
}

static void enter(struct ommai_connection *connection, enum ommai_connection_stage stage) {
  connection->stage = stage;
  connection->since_ns = connection->window_ns = ommai_clock_ns();
  if (stage == OMMAI_STAGE_ANSWER) return;
  connection->window_received = received(connection);
  if (stage == OMMAI_STAGE_BODY) return;
  connection->request_ns = connection->since_ns;
  connection->request_received = stage == OMMAI_STAGE_HEAD ? 0 : connection->window_received;
}

/* A reply of its own making, for where libmicrohttpd has none on its way. Returns its size. */
static size_t write_refusal(char *out, size_t capacity, int status, const char *reason, const char *message) {
  struct ommai_api_error error = {.status = status, .type = reason};
  struct ommai_text body;
  char memory[256];
  snprintf(error.message, sizeof error.message, "%s", message);
  ommai_text_lend(&body, memory, sizeof memory);
  ommai_api_error_write(&error, &body);
  return (size_t)snprintf(out, capacity,
                          "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Type: application/json\r\n"
                          "Content-Length: %zu\r\n\r\n%.*s",
                          status, reason, body.size, (int)body.size, memory);
}

/* It is the request that libmicrohttpd waits for. */
static void send_too_late(int descriptor) {
  char reply[512];
  size_t size = write_refusal(reply, sizeof reply, 408, "Request Timeout",
                              "The request came too slowly, or there were too many and it was the slowest.");
  send(descriptor, reply, size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void ommai_connection_refuse_head(struct ommai_server *server) {
  char reply[512];
  size_t size = write_refusal(reply, sizeof reply, 400, "Bad Request",
                              "The request's head contradicts itself, or its Content-Length is no number below 2^64.");
  struct ommai_connection *connection;
  LIST_FOREACH(connection, &server->connections, listed) {
    struct MHD_Connection *mhd = connection->reading;
    if (!mhd || !MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)) continue;
    connection->reading = NULL;
    if (!connection->encrypted) send(connection->descriptor, reply, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (connection->encrypted) ommai_tls_send(mhd, reply, size);
    shutdown(connection->descriptor, SHUT_WR);
  }
}

/* Closes a connection; a client that has begun a request that is not complete gets the reason. */
static void shut_down(struct ommai_server *server, struct ommai_connection *connection) {
  bool waits = connection->stage == OMMAI_STAGE_HEAD || connection->stage == OMMAI_STAGE_BODY;
  if (!connection->encrypted && waits && received(connection) > 0) send_too_late(connection->descriptor);
  shutdown(connection->descriptor, SHUT_RDWR);
  connection->is_shut_down = true;
  server->n_connections--;
}

static double speed_of(const struct ommai_connection *connection, int64_t now_ns) {
  double seconds = (double)(now_ns - connection->request_ns) / (double)SECOND_NS;
  return ((double)(received(connection) - connection->request_received) + NEW_BYTES) / (seconds + 0.01);
}

/* Bytes have come that this server has not looked at: a whole head may be among them. */
static bool waits_for_us(const struct ommai_connection *connection) {
  int unread = 0;
  if (connection->stage != OMMAI_STAGE_IDLE && connection->stage != OMMAI_STAGE_HEAD) return false;
  return !ioctl(connection->descriptor, FIONREAD, &unread) && unread > 0;
}

/* Which connections may be shut down for another one: those that have no complete request and are
 * not too young to judge. */
struct closable {
  const unsigned char *client; /* its alone, or NULL */
  int64_t min_age_ns;
  bool large;  /* only with a large body on its way */
  bool unread; /* even if it is this server that is late */
};

static bool may_shut_down(const struct ommai_connection *connection, const struct closable *which, int64_t now_ns) {
  if (connection->is_shut_down || connection->stage == OMMAI_STAGE_ANSWER ||
      now_ns - connection->request_ns < which->min_age_ns)
    return false;
  if (which->large && !(connection->large && connection->stage == OMMAI_STAGE_BODY)) return false;
  return !which->client || !memcmp(which->client, connection->address, sizeof connection->address);
}

/* Drops the slowest of these. False when there is none. */
static bool shut_down_slowest(struct ommai_server *server, const struct ommai_connection *own, const struct closable *which) {
  int64_t now_ns = ommai_clock_ns();
  struct ommai_connection *slowest = NULL, *connection;
  double slowest_speed = 0;
  int n_compared = 0;
  LIST_FOREACH(connection, &server->connections, listed) {
    if (n_compared == MAX_COMPARED) break;
    if (connection == own || !may_shut_down(connection, which, now_ns)) continue;
    n_compared++;
    double speed = speed_of(connection, now_ns);
    if (slowest && speed >= slowest_speed) continue;
    if (!which->unread && waits_for_us(connection)) continue;
    slowest = connection;
    slowest_speed = speed;
  }
  if (slowest) shut_down(server, slowest);
  return slowest != NULL;
}

/* Makes room for a connection where there are more than the limits. False when it is one too many
 * and nobody can be dropped for it. Others that are too young to judge neither count nor are
 * dropped. list_lock is held and the connection listed. */
static bool make_room(struct ommai_server *server, const struct ommai_connection *own) {
  int64_t n_open = 0, n_of_client = 0, now_ns = ommai_clock_ns();
  const struct ommai_connection *connection;
  if (server->n_connections <=
      ommai_min_i64(server->config.settings.max_connections, server->config.settings.max_connections_per_address.value))
    return true;
  LIST_FOREACH(connection, &server->connections, listed) {
    bool young = !connection->admitted && now_ns - connection->request_ns < YOUNG_NS;
    if (connection->is_shut_down || (young && connection != own)) continue;
    n_open++;
    n_of_client += !memcmp(connection->address, own->address, sizeof own->address);
  }
  if (n_of_client > server->config.settings.max_connections_per_address.value) {
    return shut_down_slowest(server, own, &(struct closable){.client = own->address, .min_age_ns = YOUNG_NS});
  }
  return n_open <= server->config.settings.max_connections ||
         shut_down_slowest(server, own, &(struct closable){.min_age_ns = YOUNG_NS});
}

/* Makes room for one that is new, so that there is always some for health checks: at the expense of
 * anybody, but the limits themselves wait for a request. */
static void keep_spare_room(struct ommai_server *server, const struct ommai_connection *own) {
  if (server->n_connections > server->config.settings.max_connections + OMMAI_CHECK_CONNECTIONS / 2) {
    if (!shut_down_slowest(server, own, &(struct closable){0}))
      shut_down_slowest(server, own, &(struct closable){.unread = true});
  }
}

uint64_t ommai_connection_client(const struct ommai_connection *connection) {
  uint64_t halves[2];
  memcpy(halves, connection->address, sizeof halves);
  return halves[0] * 0x9E3779B97F4A7C15u ^ halves[1];
}

bool ommai_connection_admit(struct ommai_server *server, struct ommai_connection *connection, uint64_t body_bytes) {
  pthread_mutex_lock(&server->list_lock);
  connection->large = body_bytes > SMALL_BODY_BYTES;
  if (!connection->admitted) connection->admitted = make_room(server, connection);
  if (!connection->admitted && !connection->large) {
    connection->admitted =
        shut_down_slowest(server, connection, &(struct closable){.client = connection->address, .large = true});
  }
  bool admitted = connection->admitted;
  pthread_mutex_unlock(&server->list_lock);
  return admitted;
}

struct ommai_connection *ommai_connection_open(struct ommai_server *server, struct MHD_Connection *mhd) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
  struct ommai_connection *connection = info ? ommai_allocate(server->config.allocator, 1, sizeof *connection) : NULL;
  if (!connection) return NULL;
  connection->descriptor = info->connect_fd;
  connection->encrypted = server->tls.certificate != NULL;
  connection->reading = mhd;
  info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  take_address(connection, info ? info->client_addr : NULL);
  enter(connection, OMMAI_STAGE_HEAD);
  pthread_mutex_lock(&server->list_lock);
  connection->number = server->next_number++;
  LIST_INSERT_HEAD(&server->connections, connection, listed);
  server->n_connections++;
  keep_spare_room(server, connection);
  pthread_mutex_unlock(&server->list_lock);
  return connection;
}

void ommai_connection_close(struct ommai_server *server, struct ommai_connection *connection) {
  if (!connection) return;
  pthread_mutex_lock(&server->list_lock);
  LIST_REMOVE(connection, listed);
  server->n_connections -= !connection->is_shut_down;
  pthread_cond_broadcast(&server->list_changed);
  pthread_mutex_unlock(&server->list_lock);
  ommai_release(server->config.allocator, connection, 1, sizeof *connection);
}

struct ommai_connection *ommai_connection_of(struct MHD_Connection *mhd) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info ? info->socket_context : NULL;
}

void ommai_connection_enter(struct ommai_server *server, struct ommai_connection *connection,
                            enum ommai_connection_stage stage) {
  pthread_mutex_lock(&server->list_lock);
  enter(connection, stage);
  connection->answering = false;
  pthread_mutex_unlock(&server->list_lock);
}

bool ommai_connection_answer(struct ommai_server *server, struct ommai_connection *connection) {
  pthread_mutex_lock(&server->list_lock);
  connection->answering = true;
  bool hung_up = connection->hung_up_ns != 0;
  pthread_mutex_unlock(&server->list_lock);
  return hung_up;
}

static struct ommai_connection *find_connection(struct ommai_server *server, uint64_t number) {
  struct ommai_connection *connection = LIST_FIRST(&server->connections);
  while (connection && connection->number != number) connection = LIST_NEXT(connection, listed);
  return connection;
}

struct ommai_http_call *ommai_connection_hang_up(struct ommai_server *server, uint64_t number) {
  struct ommai_http_call *call = NULL;
  pthread_mutex_lock(&server->list_lock);
  struct ommai_connection *connection = find_connection(server, number);
  if (connection) connection->hung_up_ns = ommai_clock_ns();
  if (connection && connection->answering) call = LIST_FIRST(&server->calls);
  while (call && call->connection != connection) call = LIST_NEXT(call, listed);
  if (call) ommai_http_call_retain(call);
  pthread_mutex_unlock(&server->list_lock);
  return call;
}

/* A body must come at the minimum rate in each window. */
static bool body_stalls(const struct ommai_server *server, struct ommai_connection *connection, int64_t now_ns) {
  int64_t window_ns = now_ns - connection->window_ns;
  if (window_ns < server->config.settings.body_rate_window_ns) return false;
  uint64_t so_far = received(connection), came = so_far - connection->window_received;
  connection->window_ns = now_ns;
  connection->window_received = so_far;
  return so_far && (double)came < (double)server->config.settings.min_body_rate * (double)window_ns / (double)SECOND_NS;
}

/* The client reads, but all the while there is more for it than it takes: as long as an idle
 * connection may last, at less than the rate of bodies. */
static bool answer_stalls(const struct ommai_server *server, struct ommai_connection *connection, int64_t now_ns) {
  int waiting = 0;
  uint64_t taken;
  if (!read_counter(connection, offsetof(struct tcp_info, tcpi_bytes_acked), &taken)) return false;
  double enough =
      (double)server->config.settings.min_body_rate * (double)server->config.settings.idle_timeout_ns / (double)SECOND_NS;
  if (ioctl(connection->descriptor, SIOCOUTQ, &waiting) || waiting == 0 ||
      (double)(taken - connection->window_received) >= enough) {
    connection->window_ns = now_ns;
    connection->window_received = taken;
  }
  return now_ns - connection->window_ns > server->config.settings.idle_timeout_ns;
}

static bool is_late(const struct ommai_server *server, struct ommai_connection *connection, int64_t now_ns) {
  int64_t waited_ns = now_ns - connection->since_ns;
  switch (connection->stage) {
    case OMMAI_STAGE_IDLE: return waited_ns > server->config.settings.idle_timeout_ns;
    case OMMAI_STAGE_HEAD: return waited_ns > server->config.settings.head_timeout_ns;
    case OMMAI_STAGE_BODY:
      return waited_ns > server->config.settings.body_timeout_ns || body_stalls(server, connection, now_ns);
    case OMMAI_STAGE_ANSWER: return answer_stalls(server, connection, now_ns);
  }
  return false;
}

void ommai_connection_expire(struct ommai_server *server, int64_t now_ns) {
  struct ommai_connection *connection;
  int n_rooms = 0;
  LIST_FOREACH(connection, &server->connections, listed) {
    if (connection->stage == OMMAI_STAGE_IDLE && received(connection) > connection->request_received) {
      connection->stage = OMMAI_STAGE_HEAD;
      connection->since_ns = connection->request_ns = now_ns;
    }
    bool left = connection->hung_up_ns && !connection->answering && now_ns - connection->hung_up_ns > HANG_UP_GRACE_NS;
    if (left) shutdown(connection->descriptor, SHUT_RDWR);
    if (!connection->is_shut_down && is_late(server, connection, now_ns)) shut_down(server, connection);
    bool waits = !connection->admitted && !connection->is_shut_down && connection->stage == OMMAI_STAGE_HEAD;
    if (!waits || now_ns - connection->request_ns <= 4 * YOUNG_NS || n_rooms++ >= MAX_ROOMS) continue;
    if (!make_room(server, connection)) shut_down(server, connection);
  }
}

void ommai_connection_end_all(struct ommai_server *server) {
  struct ommai_connection *connection;
  LIST_FOREACH(connection, &server->connections, listed) shutdown(connection->descriptor, SHUT_RDWR);
}
