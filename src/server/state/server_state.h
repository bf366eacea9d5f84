/* The server's own state, which its rooms share. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "server/access/api_keys.h"
#include "server/access/listener.h"
#include "server/access/tls.h"
#include "server/core/grammar_cache.h"
#include "server/media/media_budget.h"
#include "server/metrics/http_metrics.h"
#include "server/metrics/metrics.h"
#include "server/publish/encoding_directory.h"
#include "server/publish/encoding_memory.h"
#include "server/state/server_config.h"
#include "server/state/sleep.h"

struct MHD_Daemon;
struct ommai_connection;
struct ommai_http_call;
struct ommai_job_queue;
struct ommai_page;
struct ommai_trace_exporter;
struct ommai_watcher;

/* Connections besides max_connections, for health checks and for refusals. */
#define OMMAI_CHECK_CONNECTIONS 32

struct ommai_server {
  struct ommai_server_config config;

  /* Made at creation; each has locks of its own, or changes no more. */
  struct omma_engine *engine;
  struct ommai_api_keys api_keys;
  struct ommai_tls tls;
  struct ommai_page *page;         /* NULL: none is served */
  struct ommai_text openapi, docs; /* the interface's description, as JSON and for people */
  struct ommai_grammar_cache grammars;
  int listener, port;
  char *uds; /* the listener's path; NULL: it has a port */
  struct ommai_socket_file socket_file;
  struct MHD_Daemon *daemon;
  struct ommai_job_queue *jobs;
  struct ommai_job_queue *readers; /* a document is a job; NULL: none is read */
  struct ommai_watcher *watcher;
  struct ommai_metrics metrics;
  struct ommai_http_metrics http_metrics;
  struct ommai_media_budget media_budget;
  const struct ommai_kv_publisher *kv_publisher; /* NULL: none */
  struct ommai_trace_exporter *tracer;           /* NULL: no traces */
  /* Of a server that only encodes. */
  struct ommai_encoding_memory encodings;
  struct ommai_encoding_directory encoding_directory;

  atomic_size_t body_bytes;      /* bodies being received or parsed */
  atomic_size_t pending_bytes;   /* events that clients have not read */
  atomic_uint_least64_t n_seeds; /* handed out to requests that gave none */
  /* requests handed to a worker and not answered yet; list_changed is signalled when there are
   * less */
  atomic_int_least64_t n_active;
  atomic_bool leaving;  /* health checks get 503, and replies close their connections */
  atomic_bool stopping; /* new requests get 503, too */

  struct ommai_sleep sleep;

  /* Under list_lock, which is never taken by a thread that holds a call's lock. */
  pthread_mutex_t list_lock;
  pthread_cond_t list_changed;
  LIST_HEAD(, ommai_http_call) calls;        /* those that libmicrohttpd holds, the newest first */
  LIST_HEAD(, ommai_connection) connections; /* one per open connection */
  int64_t n_connections;                     /* of them, those that are not shut down */
  int64_t n_listed, n_calls;
  uint64_t next_number;
};
