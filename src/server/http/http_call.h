/* One request, of HTTP or of a batch, and its reply: where the IO thread, the workers, the watcher
 * and the engine's thread meet.
 *
 * Lifetime: references. libmicrohttpd holds one from the headers until the reply is out or the
 * connection is lost, the job that handles it one, and each request given to the engine one. The
 * IO thread reads the body and sends; everybody else hands over a whole reply (once) or events of
 * a stream. All functions but those marked may be called from any thread. */
#pragma once

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/text_buffer.h"
#include "server/core/api_error.h"
#include "server/core/job_queue.h"
#include "server/http/call_report.h"

struct MHD_Connection;
struct ommai_connection;
struct ommai_protocol;
struct ommai_route;
struct ommai_server;
struct ommai_server_config;

#define OMMAI_MAX_CHOICES 8 /* answers to one request, field `n` */
/* Requests of the engine that one call has at the same time. */
#define OMMAI_MAX_ENGINE_REQUESTS 64
#define OMMAI_REQUEST_ID_SIZE 129

/* A reply's header; the strings live as long as the server. */
struct ommai_header {
  const char *name, *value;
};

/* A piece of a stream; what fits into one block is sent in one write. */
struct ommai_event {
  struct ommai_event *next;
  size_t size, sent;
  char data[];
};

struct ommai_http_call {
  struct ommai_job job; /* first: a job is its call */
  struct ommai_server *server;
  const struct ommai_server_config *config; /* the server's */
  const struct omma_allocator *allocator;
  const struct ommai_route *route;
  /* ommai_route_find; libmicrohttpd's, until the reply is out */
  const char *path_rest;
  /* of its target, as it came; NULL: it is longer. The connection's. IO thread */
  const char *query;
  const struct ommai_protocol *protocol; /* of its path */
  atomic_int references;
  uint64_t number;                     /* never used twice, rising */
  struct ommai_connection *connection; /* valid while the call is listed */
  char request_id[OMMAI_REQUEST_ID_SIZE];
  struct ommai_access access;
  struct ommai_call_trace trace;

  /* In the server's list, under the list's lock. */
  LIST_ENTRY(ommai_http_call) listed;
  int64_t created_ns;
  atomic_bool body_complete;

  /* IO thread until the job is pushed, then the job. */
  struct ommai_text body;
  size_t body_reserved; /* counted against the server's budget */
  size_t body_kept;     /* likewise, for the job that keeps the call */
  size_t discarded;
  bool dispatched, responded, active;
  bool id_given; /* request_id is the client's */
  /* a browser's question about another origin's page; `reply` is the answer to it */
  bool preflight;

  /* Under `lock`. */
  pthread_mutex_t lock;
  struct MHD_Connection *mhd; /* NULL once libmicrohttpd is done with it */
  bool suspended;             /* and nobody has resumed it yet */
  bool gone;                  /* the client left, or must be treated so */
  bool replied;               /* a whole reply is ready */
  bool streaming;             /* a first event exists: the reply is a stream */
  bool ended;                 /* nothing more will come */
  bool working;               /* a request that a step into sleep waits for (state/sleep.h) */
  /* a stream is asked for and the engine is at work: comments may be sent */
  bool waiting;
  struct {
    int status;
    const char *content_type, *allow;
    const struct ommai_header *headers; /* more of them, up to one without a name; NULL: none */
    bool close;
    struct ommai_text body;
  } reply;
  /* Of a call without a connection: called under the lock when there is more to send, or the call
   * is over; for a whole reply, once. NULL: nobody. */
  void (*on_news)(void *context);
  void *on_news_context;
  struct ommai_event *head, *tail;
  size_t pending_bytes;
  int64_t last_event_ns;
  uint64_t engine_ids[OMMAI_MAX_ENGINE_REQUESTS];
  int n_engine_ids;
};

/* A new call with one reference, outside the server's list; NULL when memory is out. */
struct ommai_http_call *ommai_http_call_create(struct ommai_server *server);
/* Gives it a random request_id. */
void ommai_http_call_make_id(struct ommai_http_call *call);
void ommai_http_call_retain(struct ommai_http_call *call);
void ommai_http_call_release(struct ommai_http_call *call);

/* Into the server's list of calls that libmicrohttpd holds, and out of it; IO thread. Adding
 * numbers the call. */
void ommai_http_call_list(struct ommai_http_call *call);
void ommai_http_call_unlist(struct ommai_http_call *call);

/* Writes the access line and the trace of a call of which nothing changes any more. */
void ommai_http_call_report(struct ommai_http_call *call);

/* Frees the body and gives its bytes back to the server's budget. */
void ommai_http_call_release_body(struct ommai_http_call *call);

/* Counts bytes that are kept for the call's reply, until it ends, among what clients have not read.
 * False, and nothing is counted, where that is too much of all and the call's part is not small. */
bool ommai_http_call_hold(struct ommai_http_call *call, size_t size);

/* Gives the reply, or 503 where clients leave too much unread for a large one; takes over the
 * content of `body`, which is empty afterwards. The first reply wins and none follows a stream.
 * content_type is a constant string. */
void ommai_http_call_reply(struct ommai_http_call *call, int status, const char *content_type, struct ommai_text *body);

/* The same of JSON, with status 200. Takes `document` over, which is NULL where there was no memory
 * for it. */
void ommai_http_call_reply_json(struct ommai_http_call *call, json_t *document);

/* For the job that goes on with it: it stays, with its body's share of the server's budget for
 * bodies, until it is let go. The JSON is as large as the body. */
void ommai_http_call_keep(struct ommai_http_call *call);
void ommai_http_call_let_go(struct ommai_http_call *call);

/* From now on it is worked on, until it has ended or its client is gone. */
void ommai_http_call_begin_work(struct ommai_http_call *call);
bool ommai_http_call_is_working(struct ommai_http_call *call);
/* libmicrohttpd is done with it. IO thread. */
void ommai_http_call_completed(struct ommai_http_call *call);

/* Gives an error: as the reply, or where a stream has begun as its last event. */
void ommai_http_call_fail(struct ommai_http_call *call, const struct ommai_api_error *error);
/* The same of one of the library's, of the step `what`; as ommai_server_fail. */
void ommai_http_call_fail_from(struct ommai_http_call *call, const char *what, const struct omma_error *cause);

/* Appends `data: ...` or any other text as one event of a stream. False when nobody will read it:
 * the client is gone, the stream has ended, it is too far behind, or memory is out. */
bool ommai_http_call_push(struct ommai_http_call *call, const char *data, size_t size);

/* Appends the last event of streams of this protocol and ends the stream. */
void ommai_http_call_end(struct ommai_http_call *call);

/* Frees an event that was taken out of the queue; NULL is allowed. */
void ommai_http_call_free_event(struct ommai_http_call *call, struct ommai_event *event);

/* From now on comment lines fill the silence. */
void ommai_http_call_expect_stream(struct ommai_http_call *call);

/* Sends a comment line when a stream has been silent since `before_ns`. */
void ommai_http_call_keep_alive(struct ommai_http_call *call, int64_t before_ns);

/* Remembers a request of the engine, to be cancelled when the client goes; cancels it at once when
 * that has happened. */
void ommai_http_call_add_engine_id(struct ommai_http_call *call, uint64_t id);
/* Forgets one of these that is over, which makes room for another. */
void ommai_http_call_drop_engine_id(struct ommai_http_call *call, uint64_t id);

/* Cancels all requests of the engine that belong to it. */
void ommai_http_call_cancel_engine(struct ommai_http_call *call);

/* True when a whole reply is there. */
bool ommai_http_call_has_reply(struct ommai_http_call *call);

/* True when nothing more is to be sent: the reply is there, the stream has ended, or the client
 * left. */
bool ommai_http_call_is_over(struct ommai_http_call *call);

/* True when the reply would reach nobody. */
bool ommai_http_call_is_gone(struct ommai_http_call *call);

/* The client left: nothing is sent any more, the engine's requests are cancelled, the connection
 * closes. */
void ommai_http_call_leave(struct ommai_http_call *call);

/* Ends it with status 503 for that reason, and cancels the engine's requests. */
void ommai_http_call_abort(struct ommai_http_call *call, const char *cause, const char *message);

/* Calls `act` for every listed call, without the list's lock. */
void ommai_http_call_for_each(struct ommai_server *server, void (*act)(struct ommai_http_call *));

/* Of a call without a connection: drops the reference of whoever began it. on_news is not called
 * any more, and what is not over is cancelled. */
void ommai_http_call_abandon(struct ommai_http_call *call);
