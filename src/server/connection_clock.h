/* How long connections stay without a request, counting also those whose head never gets complete: libmicrohttpd's own idle timeout
 * begins anew with every byte, so a client could hold a connection for ever by sending its head byte by byte. */
#ifndef OMMAI_SERVER_CONNECTION_CLOCK_H
#define OMMAI_SERVER_CONNECTION_CLOCK_H

#include <stdint.h>

struct MHD_Connection;
struct ommai_server;

/* One open connection, in the server's list. */
struct ommai_connection_clock {
  struct ommai_connection_clock *next, *previous;
  int descriptor;
  int64_t idle_since_ns; /* 0 while a request is being served */
};

/* From libmicrohttpd's notification: a connection was opened. NULL when memory is out; then it is not watched. */
struct ommai_connection_clock *ommai_connection_clock_open(struct ommai_server *server, struct MHD_Connection *connection);
/* The connection is about to be closed. NULL is allowed. */
void ommai_connection_clock_close(struct ommai_server *server, struct ommai_connection_clock *clock);

/* A head is complete, or a reply is out. */
void ommai_connection_clock_stop(struct ommai_server *server, struct MHD_Connection *connection);
void ommai_connection_clock_start(struct ommai_server *server, struct MHD_Connection *connection);

/* Shuts down the connections that have been idle since before before_ns. list_lock is held. */
void ommai_connection_clock_expire(struct ommai_server *server, int64_t before_ns);

#endif
