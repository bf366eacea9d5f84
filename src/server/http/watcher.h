/* A thread that notices what libmicrohttpd does not report: clients that went away. It also sends
 * the comment lines that fill silence, and ends connections whose head or body takes too long. */
#pragma once

#include <omma/status.h>
#include <stdint.h>

struct ommai_server;
struct ommai_watcher;

enum omma_status ommai_watcher_create(struct ommai_server *server, struct ommai_watcher **watcher, struct omma_error *error);
void ommai_watcher_destroy(struct ommai_watcher *watcher);

/* From now until unwatch, a hang-up of `descriptor` makes the call on the connection of that number
 * leave. A client that only closes its sending side counts as gone, too. The caller keeps the
 * descriptor open in between. Any thread. */
void ommai_watcher_watch(struct ommai_watcher *watcher, int descriptor, uint64_t number);
void ommai_watcher_unwatch(struct ommai_watcher *watcher, int descriptor);
