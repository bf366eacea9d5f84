/* What the watcher knows of each open connection: whose it is, how far its request has come and how
 * fast, and whether the client has hung up. Connections that are too slow, or too many, are closed
 * by what is known here.
 *
 * libmicrohttpd alone does not do: its idle timeout begins anew with every byte, so a client could
 * hold a connection for ever by sending its head byte by byte; it does not look at suspended
 * connections; with its edge-triggered epoll it overlooks a hang-up that arrives together with the
 * last bytes read, until the idle timeout; and at its limit of connections it accepts none, so
 * that those who only hold theirs lock all others out. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define OMMAI_CLIENT_ADDRESS_SIZE 16
#define OMMAI_QUERY_SIZE 128

struct MHD_Connection;
struct ommai_http_call;
struct ommai_server;

enum ommai_connection_stage {
  OMMAI_STAGE_IDLE, /* between requests: nothing of the next one has come */
  OMMAI_STAGE_HEAD, /* new, or part of a head is there */
  OMMAI_STAGE_BODY,
  OMMAI_STAGE_ANSWER /* the request is complete */
};

/* One open connection; in the server's list and, but for the constants, under its lock. */
struct ommai_connection {
  LIST_ENTRY(ommai_connection) listed;
  uint64_t number; /* names it to the watcher; never used twice */
  int descriptor;
  /* nothing can be written into it from outside libmicrohttpd */
  bool encrypted;
  /* of the client: IPv4 in its IPv6 form; of IPv6 the first 64 bits */
  unsigned char address[OMMAI_CLIENT_ADDRESS_SIZE];
  enum ommai_connection_stage stage;
  int64_t since_ns;          /* when the stage began */
  int64_t request_ns;        /* when the request began, or the waiting for it */
  uint64_t request_received; /* bytes received by then, in all of the connection's life */
  int64_t window_ns;         /* of a body or an answer: since when its rate is measured, */
  uint64_t window_received;  /* and bytes received, or taken by the client, by then */
  int64_t hung_up_ns;        /* 0: not */
  bool answering;            /* a request for a worker is complete, its reply not out */
  bool is_shut_down;         /* shut down; libmicrohttpd will close it */
  bool admitted;             /* has had a request for which there was room */
  bool target_fits;          /* of the latest request's line; IO thread */
  /* libmicrohttpd's, while it reads a head; NULL from its handing over to its reply's end; IO
   * thread */
  struct MHD_Connection *reading;
  /* the latest request's body is more than comes at once with its head */
  bool large;
  /* what is after "?" in the latest request's target, as it came, where it fits; IO thread */
  bool query_fits;
  char query[OMMAI_QUERY_SIZE];
};

/* From libmicrohttpd's notifications: a connection was opened (NULL when memory is out), is about
 * to be closed. Opening one drops the slowest where there would not be room for health checks. */
struct ommai_connection *ommai_connection_open(struct ommai_server *server, struct MHD_Connection *mhd);
void ommai_connection_close(struct ommai_server *server, struct ommai_connection *connection);

/* What is kept of libmicrohttpd's connection, or NULL. IO thread. */
struct ommai_connection *ommai_connection_of(struct MHD_Connection *mhd);

/* A number that the connections of one client have in common. */
uint64_t ommai_connection_client(const struct ommai_connection *connection);

/* Whether there is room for the request whose head is complete. Where there are too many
 * connections, of all or of one client, the slowest of those without a complete request is dropped
 * for it; false when all have one, are too young to judge, or have sent what is not read yet. A
 * request with a small body takes the place of a large one of the same client however young.
 * body_bytes: as announced, UINT64_MAX where that is not known. */
bool ommai_connection_admit(struct ommai_server *server, struct ommai_connection *connection, uint64_t body_bytes);

/* The stage before it is over: a head is complete, a request is, a reply is out. */
void ommai_connection_enter(struct ommai_server *server, struct ommai_connection *connection,
                            enum ommai_connection_stage stage);

/* A complete request goes to a worker. True when the client has hung up already. */
bool ommai_connection_answer(struct ommai_server *server, struct ommai_connection *connection);

/* libmicrohttpd has complained of something. Where that was of a head that has come to its end, but
 * was not handed over, it is about to refuse it: the reply is sent here, and nothing of what
 * libmicrohttpd will send gets out. IO thread, which alone changes the list. */
void ommai_connection_refuse_head(struct ommai_server *server);

/* The client of that number has hung up. Returns the call that is being answered, with a reference
 * for the caller, or NULL. */
struct ommai_http_call *ommai_connection_hang_up(struct ommai_server *server, uint64_t number);

/* Shuts all down. list_lock is held; list_changed is signalled whenever one is closed. */
void ommai_connection_end_all(struct ommai_server *server);

/* Shuts down connections that have waited too long for a request or for the rest of one, whose
 * client reads an answer too slowly, or has hung up before its request was complete: libmicrohttpd
 * then sees the end and closes them. list_lock is held. */
void ommai_connection_expire(struct ommai_server *server, int64_t now_ns);
