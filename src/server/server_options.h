/* What can be chosen of a server. */
#pragma once

#include <omma/omma.h>

/* Which pages of other origins browsers let in, as in Starlette's CORSMiddleware: "*" in a list is
 * all. No origins: none. */
struct omma_cross_origin_options {
  const char *const *origins, *const *methods, *const *headers;
  size_t n_origins, n_methods, n_headers;
  bool credentials;
};

/* Whether clients show certificates: not at all; those who do must show a good one; all must. */
enum omma_client_certificates {
  OMMA_CLIENT_CERTIFICATES_NONE = 0,
  OMMA_CLIENT_CERTIFICATES_OPTIONAL = 1,
  OMMA_CLIENT_CERTIFICATES_REQUIRED = 2
};

/* Files in PEM, read once. */
struct omma_tls_options {
  /* the server's, and those between it and its authority; NULL: no TLS */
  const char *certificate_file;
  const char *key_file;         /* NULL: it is in the certificate's file */
  const char *authorities_file; /* of clients' certificates */
  enum omma_client_certificates clients;
};

struct ommai_kv_publisher; /* server/kv_publisher.h */

/* Zero-initialised: the defaults. All strings are copied. */
struct omma_server_options {
  /* no socket: requests come from server/batch_request.h alone; what concerns connections has no
   * meaning */
  bool offline;
  const char *host; /* address or name to listen on; NULL: 127.0.0.1 */
  int port;         /* 0: any free one */
  /* path of a Unix domain socket to listen on instead; NULL: none. Its file goes with the server */
  const char *uds;

  struct omma_tls_options tls;

  /* the first is used in replies that name none; none: last part of the model's path */
  const char *const *served_model_names;
  size_t n_served_model_names;
  /* One of them is asked for as `Authorization: Bearer KEY` on all paths but /health, /ping,
   * /version and the page; none: open. Only hashes are kept. An empty key is refused. */
  const char *const *api_keys;
  size_t n_api_keys;
  bool metrics_without_key; /* nor on /metrics */
  struct omma_cross_origin_options cross_origin;
  bool no_page; /* nothing at /. Else the page there is served without a key, and asks for it */
  /* What public addresses have before the paths, such as "/models", behind a proxy that takes it
   * off or leaves it there; NULL: nothing. */
  const char *root_path;

  int64_t max_body_bytes; /* of one request; 0: 64 MiB */
  /* Of all requests being received or parsed; 0: 8 bodies of full size. Where one does not fit, the
   * slowest of those being received gives up its place and gets 503. */
  int64_t max_total_body_bytes;
  int64_t limit_images_per_prompt; /* 0: 64; negative: no images */
  int64_t limit_videos_per_prompt; /* the same of videos */
  struct omma_image_limits image_limits;
  /* default min/max pixels; a request may have its own, none above this max_pixels */
  struct omma_image_options image_options;
  /* With `seeded`, requests without a seed of their own get one that follows from `seed` and from
   * how many such came before; else a random one. */
  bool seeded;
  uint64_t seed;
  /* structured answers in JSON have no blanks and line breaks between tokens, where the request
   * does not set it */
  bool compact_json;
  /* Answers begin with a thought between the marks that this parser looks for
   * (omma_reasoning_find), which is sent apart; NULL: they are one text. The configuration is
   * vLLM's JSON object: {"reasoning_end_str": TEXT} sets what ends a thought whose budget is used
   * up. */
  const char *reasoning_parser, *reasoning_config;
  /* Tools that answers may call by themselves (tool_choice "auto"), and how the model writes calls,
   * a name of omma_tool_parser_find. Both or none; other choices need neither. */
  bool enable_auto_tool_choice;
  const char *tool_call_parser;             /* NULL: none */
  bool exclude_tools_when_tool_choice_none; /* the prompt has no tools then */
  /* directory whose files may be named as file:// URLs; NULL: none */
  const char *allowed_local_media_path;
  /* hosts, by exact name, whose images are fetched by http(s); none: nothing is */
  const char *const *allowed_media_domains;
  size_t n_allowed_media_domains;
  /* those hosts may have private, loopback or link-local addresses */
  bool allow_private_media_addresses;
  int64_t media_timeout_ms; /* of all of a request's fetches together; 0: 10,000 */

  /* An image's uuid stands for its pixels in the caches: whoever names it first decides what all
   * others see. Else a uuid only distinguishes what is the same. */
  bool trust_media_uuids;

  /* Of a model opened with encoder_only, whose embeddings are published: kept for GET
   * /v1/encodings/KEY in that many bytes (0: 1 GiB; negative: none) for that long (0: 10 minutes;
   * negative: until their place is needed), and left in a directory as files for vLLM's
   * ECExampleConnector (NULL: none), which together take that many bytes (0: 32 GiB; negative: as
   * many as there is room for). */
  int64_t encoding_bytes, encoding_ttl_ms;
  const char *encoding_directory;
  int64_t encoding_file_bytes;

  /* memory that images of all requests take while they are decoded, codecs included; 0: 1.5 GiB */
  int64_t max_media_bytes;
  int64_t media_cpu_ms; /* processor time for decoding the images of one request; 0: 30,000 */

  /* memory of all compiled grammars of running requests and those kept; 0: 256 MiB */
  int64_t max_grammar_bytes;
  int64_t max_grammar_ms; /* processor time for compiling one; 0: 200 */

  /* Documents of /v1/ocr that are read at once, each by a thread of its own; 0: 2; negative: none
   * is. Eight times as many may wait. */
  int max_documents;
  int64_t max_document_pages; /* of a request; 0: 1,000 */
  int64_t max_page_pixels;    /* 0: 16 million */

  /* threads that parse, decode and prepare, one of them never at images; at least 2; 0: 3 */
  int n_workers;
  /* Requests that may wait, for a worker or for the engine; one more gets 503. 0: as many as the
   * engine's queue_bytes allow. */
  int64_t max_queued_requests;
  /* Open connections; 0: 4,096. When there are more, the slowest one without a complete request is
   * closed; where all have one, the new one gets 503 from all but the endpoints that report how the
   * server is. */
  int max_connections;
  /* the same for one client address, or one /64 of IPv6; 0: 3/4 of them; negative: no limit */
  int max_connections_per_address;
  /* events a slow reader may leave unread before its request is cancelled; 0: 4 MiB */
  int64_t max_pending_bytes;
  /* The same of all; 0: 1 GiB. While they are more, a request is cancelled that has more than 64
   * KiB of them and another event. */
  int64_t max_total_pending_bytes;
  /* connection without traffic, unless the server is at work on it; 0: 120 */
  int idle_timeout_seconds;
  /* from a head's first byte, or a new connection, to its last byte; 0: 20 */
  int head_timeout_seconds;
  int body_timeout_seconds; /* from the head to the last byte of the body; 0: 120 */
  /* bytes a second of a body, over any body_rate_window_ms; 0: 1,024; negative: any */
  int64_t min_body_rate;
  int64_t body_rate_window_ms; /* 0: 10,000 */
  /* a comment line goes out after so much silence in a stream; 0: 5,000 */
  int64_t keep_alive_ms;
  /* how long destroy serves new requests while health checks already get 503 */
  int64_t leave_ms;
  /* how long destroy lets running requests go on; 0: 5,000; negative: not at all */
  int64_t drain_ms;

  /* Gets lines without their ends, from any thread, and must be quick; NULL: none. One per internal
   * failure (those that a client sees as status 500), and those asked for below. Keys, texts and
   * images are in none; what clients send is escaped. */
  void (*log)(void *context, const char *line);
  void *log_context;
  bool log_json; /* each line is a JSON object, else text */
  /* a line per request when it is over: client, method, path, status, id, tokens, seconds */
  bool log_access;
  const char *unlogged_paths; /* not of these: paths with commas between; NULL: of all */
  /* with log_access: after this time another line for a request whose images are encoded; 0:
   * 5,000 */
  int64_t progress_log_ms;
  /* a line per chat or completion when it is understood: its id and settings */
  bool log_requests;

  /* whose counts /metrics has; it must live as long as the server. NULL: none */
  const struct ommai_kv_publisher *kv_publisher;

  const struct omma_allocator *allocator; /* NULL: the library's own */
};
