#include "server/http/watcher.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "base/error.h"
#include "server/http/connection.h"
#include "server/http/http_call.h"
#include "server/state/server_state.h"

#define TICK_NS INT64_C(500000000)
#define EVENTS_PER_WAIT 64
#define WAKE_NUMBER UINT64_MAX

struct ommai_watcher {
  struct ommai_server *server;
  int epoll, wake;
  pthread_t thread;
  bool started;
};

/* Comment lines; heads and bodies that take too long: shutting the socket down makes
 * libmicrohttpd's next read fail. The descriptor is open while it is listed. */
static void tick(struct ommai_server *server) {
  int64_t now = ommai_clock_ns();
  pthread_mutex_lock(&server->list_lock);
  struct ommai_http_call *call;
  LIST_FOREACH(call, &server->calls, listed) {
    if (atomic_load(&call->body_complete)) ommai_http_call_keep_alive(call, now - server->config.settings.keep_alive_ns);
  }
  ommai_connection_expire(server, now);
  pthread_mutex_unlock(&server->list_lock);
  ommai_grammar_cache_tidy(&server->grammars);
}

static void hang_up(struct ommai_server *server, uint64_t number) {
  struct ommai_http_call *call = ommai_connection_hang_up(server, number);
  if (!call) return;
  ommai_http_call_leave(call);
  ommai_http_call_release(call);
}

static void *watch(void *context) {
  pthread_setname_np(pthread_self(), "omma-watcher");
  struct ommai_watcher *watcher = context;
  struct epoll_event events[EVENTS_PER_WAIT];
  int64_t tick_ns = watcher->server->config.settings.keep_alive_ns / 2 < TICK_NS
                        ? watcher->server->config.settings.keep_alive_ns / 2
                        : TICK_NS;
  int64_t last_tick = ommai_clock_ns();
  for (;;) {
    int n_events = epoll_wait(watcher->epoll, events, EVENTS_PER_WAIT, (int)(tick_ns / 1000000) + 1);
    for (int i = 0; i < n_events; i++) {
      if (events[i].data.u64 == WAKE_NUMBER) return NULL;
      hang_up(watcher->server, events[i].data.u64);
    }
    if (ommai_clock_ns() - last_tick < tick_ns) continue;
    tick(watcher->server);
    last_tick = ommai_clock_ns();
  }
}

enum omma_status ommai_watcher_create(struct ommai_server *server, struct ommai_watcher **watcher, struct omma_error *error) {
  enum omma_status status;
  struct ommai_watcher *made = ommai_allocate(server->config.allocator, 1, sizeof *made);
  if (!made) return ommai_fail_memory(error, "watcher", sizeof *made);
  made->server = server;
  made->epoll = epoll_create1(EPOLL_CLOEXEC);
  made->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = WAKE_NUMBER}};
  if (made->epoll < 0 || made->wake < 0 || epoll_ctl(made->epoll, EPOLL_CTL_ADD, made->wake, &event)) {
    status = ommai_fail(error, OMMA_ERROR_INTERNAL, "watcher: epoll: %s", strerror(errno));
    goto failed;
  }
  int reason = pthread_create(&made->thread, NULL, watch, made);
  if (reason) {
    status = ommai_fail(error, OMMA_ERROR_INTERNAL, "watcher thread cannot be made: %s", strerror(reason));
    goto failed;
  }
  made->started = true;
  *watcher = made;
  return OMMA_OK;
failed:
  ommai_watcher_destroy(made);
  return status;
}

void ommai_watcher_destroy(struct ommai_watcher *watcher) {
  if (!watcher) return;
  if (watcher->started) {
    eventfd_write(watcher->wake, 1);
    pthread_join(watcher->thread, NULL);
  }
  if (watcher->wake >= 0) close(watcher->wake);
  if (watcher->epoll >= 0) close(watcher->epoll);
  ommai_release(watcher->server->config.allocator, watcher, 1, sizeof *watcher);
}

void ommai_watcher_watch(struct ommai_watcher *watcher, int descriptor, uint64_t number) {
  struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data = {.u64 = number}};
  epoll_ctl(watcher->epoll, EPOLL_CTL_ADD, descriptor, &event);
}

void ommai_watcher_unwatch(struct ommai_watcher *watcher, int descriptor) {
  epoll_ctl(watcher->epoll, EPOLL_CTL_DEL, descriptor, NULL);
}
