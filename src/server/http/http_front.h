/* The side of the server that libmicrohttpd calls: requests in, replies and events out. All on the
 * IO thread. */
#pragma once

#include <omma/status.h>

struct ommai_server;

/* Starts libmicrohttpd's thread on server->listener. Errors: INTERNAL. */
enum omma_status ommai_http_start(struct ommai_server *server, struct omma_error *error);

/* Accepts no connection any more. The listening socket refuses, but stays open until after
 * ommai_http_stop, since libmicrohttpd's thread may still be using its number. */
void ommai_http_quiesce(struct ommai_server *server);

/* Joins the thread and closes all connections; none may be suspended. */
void ommai_http_stop(struct ommai_server *server);
