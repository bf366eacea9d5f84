#include "server/connection_clock.h"

#include <microhttpd.h>
#include <sys/socket.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "server/server_state.h"
#include "server/watcher.h"

#define HANG_UP_GRACE_NS INT64_C(1000000000) /* for what was sent before the hang-up, and a short reply to it */

struct ommai_connection_clock *ommai_connection_clock_open(struct ommai_server *server, struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  struct ommai_connection_clock *clock = info ? ommai_allocate(server->allocator, 1, sizeof *clock) : NULL;
  if (!clock) return NULL;
  clock->descriptor = info->connect_fd;
  clock->idle_since_ns = ommai_clock_ns();
  pthread_mutex_lock(&server->list_lock);
  clock->number = server->next_number++;
  clock->next = server->clocks;
  if (clock->next) clock->next->previous = clock;
  server->clocks = clock;
  pthread_mutex_unlock(&server->list_lock);
  ommai_watcher_watch(server->watcher, clock->descriptor, clock->number);
  return clock;
}

void ommai_connection_clock_close(struct ommai_server *server, struct ommai_connection_clock *clock) {
  if (!clock) return;
  ommai_watcher_unwatch(server->watcher, clock->descriptor);
  pthread_mutex_lock(&server->list_lock);
  if (clock->next) clock->next->previous = clock->previous;
  if (clock->previous) {
    clock->previous->next = clock->next;
  } else {
    server->clocks = clock->next;
  }
  pthread_mutex_unlock(&server->list_lock);
  ommai_release(server->allocator, clock, 1, sizeof *clock);
}

struct ommai_connection_clock *ommai_connection_clock_of(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info ? info->socket_context : NULL;
}

void ommai_connection_clock_stop(struct ommai_server *server, struct ommai_connection_clock *clock) {
  pthread_mutex_lock(&server->list_lock);
  clock->idle_since_ns = 0;
  pthread_mutex_unlock(&server->list_lock);
}

void ommai_connection_clock_start(struct ommai_server *server, struct ommai_connection_clock *clock) {
  pthread_mutex_lock(&server->list_lock);
  clock->idle_since_ns = ommai_clock_ns();
  clock->answering = false;
  pthread_mutex_unlock(&server->list_lock);
}

bool ommai_connection_clock_answer(struct ommai_server *server, struct ommai_connection_clock *clock) {
  pthread_mutex_lock(&server->list_lock);
  clock->answering = true;
  bool hung_up = clock->hung_up_ns != 0;
  pthread_mutex_unlock(&server->list_lock);
  return hung_up;
}

static struct ommai_connection_clock *find_clock(struct ommai_server *server, uint64_t number) {
  struct ommai_connection_clock *clock = server->clocks;
  while (clock && clock->number != number) clock = clock->next;
  return clock;
}

struct ommai_exchange *ommai_connection_clock_hang_up(struct ommai_server *server, uint64_t number) {
  struct ommai_exchange *exchange = NULL;
  pthread_mutex_lock(&server->list_lock);
  struct ommai_connection_clock *clock = find_clock(server, number);
  if (clock) clock->hung_up_ns = ommai_clock_ns();
  if (clock && clock->answering) exchange = server->exchanges;
  while (exchange && exchange->clock != clock) exchange = exchange->next;
  if (exchange) ommai_exchange_retain(exchange);
  pthread_mutex_unlock(&server->list_lock);
  return exchange;
}

void ommai_connection_clock_expire(struct ommai_server *server, int64_t now_ns) {
  int64_t limit_ns = server->idle_timeout_ns + server->body_timeout_ns;
  for (const struct ommai_connection_clock *clock = server->clocks; clock; clock = clock->next) {
    bool late = clock->idle_since_ns && now_ns - clock->idle_since_ns > limit_ns;
    bool left = clock->hung_up_ns && !clock->answering && now_ns - clock->hung_up_ns > HANG_UP_GRACE_NS;
    if (late || left) shutdown(clock->descriptor, SHUT_RDWR);
  }
}
