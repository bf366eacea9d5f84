/* The server's own state, shared by the files of this folder. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "server/access/api_keys.h"
#include "server/access/cross_origin.h"
#include "server/access/listener.h"
#include "server/access/tls.h"
#include "server/core/grammar_cache.h"
#include "server/core/server_options.h"
#include "server/media/media_budget.h"
#include "server/media/media_fetch.h"
#include "server/media/media_root.h"
#include "server/metrics/http_metrics.h"
#include "server/metrics/metrics.h"
#include "server/publish/encoding_directory.h"
#include "server/publish/encoding_memory.h"
#include "server/state/reasoning.h"

struct MHD_Daemon;
struct ommai_connection;
struct ommai_http_call;
struct ommai_job_queue;
struct ommai_page;
struct ommai_trace_exporter;
struct ommai_watcher;

#define OMMAI_MAX_MODEL_NAMES 16
#define OMMAI_MAX_MEDIA_HOSTS 256
/* Connections besides max_connections, for health checks and for refusals. */
#define OMMAI_CHECK_CONNECTIONS 32

/* Of documents (/v1/ocr). */
struct ommai_document_limits {
  int64_t max_pages;                     /* of a request */
  int64_t max_pixels, max_process_bytes; /* of a page; of a process that renders one */
  int seconds;                           /* of such a process */
};

struct ommai_server {
  /* Set at creation, read by every thread. */
  const struct omma_allocator *allocator;
  const struct omma_model *model;
  struct omma_engine *engine;
  struct omma_model_info info;
  char *model_names[OMMAI_MAX_MODEL_NAMES];
  size_t n_model_names;
  /* no name was given, so that the path as given, vLLM's default, is a name too */
  bool answers_to_path;
  struct ommai_api_keys api_keys;
  struct ommai_tls tls;
  bool metrics_without_key;
  struct ommai_cross_origin cross_origin;
  struct ommai_page *page;         /* NULL: none is served */
  struct ommai_text openapi, docs; /* the interface's description, as JSON and for people */
  char *root_path;                 /* of the public addresses; NULL: none */
  struct ommai_media_root media_root;
  bool trust_media_uuids;
  char *media_hosts[OMMAI_MAX_MEDIA_HOSTS];
  struct ommai_fetch_rules fetch_rules;
  bool fetch_started;
  size_t max_body_bytes, max_total_body_bytes, max_pending_bytes, max_total_pending_bytes;
  int64_t limit_images, limit_videos;
  struct omma_image_limits image_limits;
  struct omma_image_options image_options;
  int64_t media_cpu_ms; /* processor time for the images of one request */
  bool seeded;
  uint64_t seed;
  bool compact_json; /* answers in JSON have no blanks, where the request does not set it */
  struct ommai_reasoning reasoning;
  /* how models write the calls that they choose themselves; NONE: requests may not ask for
   * it */
  enum ommai_tool_format auto_tools;
  bool exclude_unused_tools; /* tool_choice "none" leaves the tools out of the prompt */
  struct ommai_grammar_cache grammars;
  int64_t idle_timeout_ns, head_timeout_ns, body_timeout_ns, keep_alive_ns, leave_ns, drain_ns;
  int64_t min_body_rate, body_rate_window_ns; /* 0: any rate */
  int64_t max_connections, max_connections_per_address;
  int64_t created; /* seconds of the calendar */
  void (*log)(void *context, const char *line);
  void *log_context;
  bool log_json, log_access, log_requests;
  int64_t progress_log_ns;
  char *unlogged_paths; /* with commas between, or NULL */
  int listener, port;
  char *uds; /* the listener's path; NULL: it has a port */
  struct ommai_socket_file socket_file;
  struct MHD_Daemon *daemon;
  struct ommai_job_queue *jobs;
  struct ommai_job_queue *readers; /* a document is a job; NULL: none is read */
  bool reads_pdf;                  /* poppler's programs were there when the server started */
  struct ommai_document_limits documents;
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

  /* Under list_lock, which is never taken by a thread that holds a call's lock. */
  pthread_mutex_t list_lock;
  pthread_cond_t list_changed;
  LIST_HEAD(, ommai_http_call) calls;        /* those that libmicrohttpd holds, the newest first */
  LIST_HEAD(, ommai_connection) connections; /* one per open connection */
  int64_t n_connections;                     /* of them, those that are not shut down */
  int64_t n_listed, n_calls;
  uint64_t next_number;
};

/* True when `name` is one of the served names. */
bool ommai_server_has_model(const struct ommai_server *server, const char *name);

/* Logs a failure that clients see as status 500. */
void ommai_server_log(struct ommai_server *server, const char *what, const struct omma_error *error);
