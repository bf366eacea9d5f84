#include "server/connection_clock.h"

#include <microhttpd.h>
#include <sys/socket.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "server/server_state.h"

struct ommai_connection_clock *ommai_connection_clock_open(struct ommai_server *server, struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  struct ommai_connection_clock *clock = info ? ommai_allocate(server->allocator, 1, sizeof *clock) : NULL;
  if (!clock) return NULL;
  clock->descriptor = info->connect_fd;
  clock->idle_since_ns = ommai_clock_ns();
  pthread_mutex_lock(&server->list_lock);
  clock->next = server->clocks;
  if (clock->next) clock->next->previous = clock;
  server->clocks = clock;
  pthread_mutex_unlock(&server->list_lock);
  return clock;
}

void ommai_connection_clock_close(struct ommai_server *server, struct ommai_connection_clock *clock) {
  if (!clock) return;
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

static void set_idle_since(struct ommai_server *server, struct MHD_Connection *connection, int64_t time_ns) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  struct ommai_connection_clock *clock = info ? info->socket_context : NULL;
  if (!clock) return;
  pthread_mutex_lock(&server->list_lock);
  clock->idle_since_ns = time_ns;
  pthread_mutex_unlock(&server->list_lock);
}

void ommai_connection_clock_stop(struct ommai_server *server, struct MHD_Connection *connection) {
  set_idle_since(server, connection, 0);
}

void ommai_connection_clock_start(struct ommai_server *server, struct MHD_Connection *connection) {
  set_idle_since(server, connection, ommai_clock_ns());
}

void ommai_connection_clock_expire(struct ommai_server *server, int64_t before_ns) {
  for (const struct ommai_connection_clock *clock = server->clocks; clock; clock = clock->next) {
    if (clock->idle_since_ns && clock->idle_since_ns < before_ns) shutdown(clock->descriptor, SHUT_RDWR);
  }
}
