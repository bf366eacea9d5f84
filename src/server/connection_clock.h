/* What the watcher knows of each open connection: how long it has been without a request, and whether the client has hung up.
 *
 * libmicrohttpd alone does not do: its idle timeout begins anew with every byte, so a client could hold a connection for ever by
 * sending its head byte by byte; it does not look at suspended connections; and with its edge-triggered epoll it overlooks a
 * hang-up that arrives together with the last bytes read, until the idle timeout. */
#ifndef OMMAI_SERVER_CONNECTION_CLOCK_H
#define OMMAI_SERVER_CONNECTION_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct MHD_Connection;
struct ommai_exchange;
struct ommai_server;

/* One open connection; in the server's list and, but for the constants, under its lock. */
struct ommai_connection_clock {
  struct ommai_connection_clock *next, *previous;
  uint64_t number; /* names it to the watcher; never used twice */
  int descriptor;
  int64_t idle_since_ns; /* 0 while a request is being received or served */
  int64_t hung_up_ns;    /* 0: not */
  bool answering;        /* a request for a worker is complete, its reply not out */
};

/* From libmicrohttpd's notifications: a connection was opened (NULL when memory is out), is about to be closed. */
struct ommai_connection_clock *ommai_connection_clock_open(struct ommai_server *server, struct MHD_Connection *connection);
void ommai_connection_clock_close(struct ommai_server *server, struct ommai_connection_clock *clock);

/* The clock of a connection, or NULL. IO thread. */
struct ommai_connection_clock *ommai_connection_clock_of(struct MHD_Connection *connection);

/* A head is complete; a reply is out. */
void ommai_connection_clock_stop(struct ommai_server *server, struct ommai_connection_clock *clock);
void ommai_connection_clock_start(struct ommai_server *server, struct ommai_connection_clock *clock);

/* A request is complete. True when the client has hung up already. */
bool ommai_connection_clock_answer(struct ommai_server *server, struct ommai_connection_clock *clock);

/* The client of that number has hung up. Returns the exchange that is being answered, with a reference for the caller, or NULL. */
struct ommai_exchange *ommai_connection_clock_hang_up(struct ommai_server *server, uint64_t number);

/* Shuts down connections that have waited too long for a request, or whose client has hung up before its request was complete:
 * libmicrohttpd then sees the end and closes them. list_lock is held. */
void ommai_connection_clock_expire(struct ommai_server *server, int64_t now_ns);

#endif
