/* What can be chosen of a server. Ranges, defaults and options of the command line are in
 * server_settings.c. */
#pragma once

#include <omma/omma.h>

#include "base/option.h"

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

/* How calls stand in an answer. OBJECTS and SECTIONS are what models write (enum omma_tool_format
 * has their marks); the others are what a grammar holds answers to where a request's tool_choice
 * wants a call. */
enum ommai_tool_format {
  OMMAI_TOOLS_NONE, /* there are none: all text is content */
  OMMAI_TOOLS_OBJECTS,
  OMMAI_TOOLS_SECTIONS,
  OMMAI_TOOLS_LIST, /* [{"name": ..., "parameters": {...}}, ...]: tool_choice "required" */
  /* the whole text is the arguments of one function: tool_choice {"type": "function", ...} */
  OMMAI_TOOLS_NAMED
};

struct ommai_kv_publisher; /* server/publish/kv_publisher.h */

/* Numbers and switches, which all threads read as they were given. */
struct ommai_server_settings {
  bool metrics_without_key; /* /metrics is open to those without a key */

  int64_t limit_images_per_prompt, limit_videos_per_prompt;
  struct omma_image_limits image_limits;
  /* default min/max pixels; a request may have its own, none above this max_pixels */
  struct omma_image_options image_options;
  /* An image's uuid stands for its pixels in the caches: whoever names it first decides what all
   * others see. Else a uuid only distinguishes what is the same. */
  bool trust_media_uuids;
  int64_t media_cpu_ms;       /* processor time for decoding the images of one request */
  int64_t max_document_pages; /* of a request of /v1/ocr */
  int64_t max_page_pixels;

  /* Where it is given, requests without a seed of their own get one that follows from it and from
   * how many such came before; else a random one. */
  struct ommai_optional_integer seed;
  /* structured output in JSON has no blanks and line breaks between tokens, where the request
   * does not set it */
  bool compact_json;
  bool exclude_tools_when_tool_choice_none; /* the prompt has no tools then */
  bool enable_sleep_mode;                   /* /sleep and /wake_up are served */

  /* Open connections. When there are more, the slowest one without a complete request is closed;
   * where all have one, the new one gets 503 from all but the endpoints that report how the server
   * is. */
  int max_connections;
  /* the same for one client address, or one /64 of IPv6; 0: no limit; not given: 3/4 of them */
  struct ommai_optional_integer max_connections_per_address;
  int64_t idle_timeout_ns; /* without traffic, unless the server is at work on it */
  int64_t head_timeout_ns; /* from a head's first byte, or a new connection, to its end */
  int64_t body_timeout_ns; /* from the head to the last byte of the body */
  int64_t min_body_rate;   /* bytes a second of a body, over any body_rate_window_ns; 0: any */
  int64_t body_rate_window_ns;
  int64_t keep_alive_ns; /* a comment line goes out after so much silence in a stream */
  int64_t leave_ns;      /* how long destroy serves new requests, while checks get 503 */
  int64_t drain_ns;      /* how long destroy lets running requests go on */

  /* a line per request when it is over: client, method, path, status, id, tokens, seconds */
  bool log_access;
  /* with log_access: after this time another line for a request whose images are encoded */
  int64_t progress_log_ns;
  /* a line per chat or completion when it is understood: its id and settings */
  bool log_requests;
};

/* Begins as ommai_server_options_default leaves it. All strings are copied. */
struct omma_server_options {
  /* no socket: requests come from server/api/batch_request.h alone; what concerns connections has
   * no meaning */
  bool offline;
  struct ommai_server_settings settings;
  const char *host; /* address or name to listen on */
  int port;         /* 0: any free one */
  /* path of a Unix domain socket to listen on instead; NULL: none. Its file goes with the server */
  const char *uds;

  struct omma_tls_options tls;

  /* the first is used in replies that name none; none: last part of the model's path */
  struct ommai_strings served_model_names;
  /* One of them is asked for as `Authorization: Bearer KEY` on all paths but /health, /ping,
   * /version and the page; none: open. Only hashes are kept. An empty key is refused. */
  const char *const *api_keys;
  size_t n_api_keys;
  struct omma_cross_origin_options cross_origin;
  bool no_page; /* nothing at /. Else the page there is served without a key, and asks for it */
  /* What public addresses have before the paths, such as "/models", behind a proxy that takes it
   * off or leaves it there; NULL: nothing. */
  const char *root_path;

  int64_t max_body_bytes; /* of one request */
  /* Of all requests being received or parsed; not given: 8 bodies of full size. Where one does not
   * fit, the slowest of those being received gives up its place and gets 503. */
  struct ommai_optional_integer max_total_body_bytes;
  /* Answers begin with reasoning between the marks that this parser looks for
   * (omma_reasoning_find), which is sent apart; NULL: they are one text. The configuration is
   * vLLM's JSON object: {"reasoning_end_str": TEXT} sets what ends reasoning whose budget is used
   * up. */
  const char *reasoning_parser, *reasoning_config;
  /* Tools that answers may call by themselves (tool_choice "auto"), and how the model writes calls,
   * a name of omma_tool_parser_find. Both or none; other choices need neither. */
  bool enable_auto_tool_choice;
  const char *tool_call_parser; /* NULL: none */
  /* directory whose files may be named as file:// URLs; NULL: none */
  const char *allowed_local_media_path;
  /* hosts, by exact name, whose images are fetched by http(s); none: nothing is */
  struct ommai_strings allowed_media_domains;
  /* those hosts may have private, loopback or link-local addresses */
  bool allow_private_media_addresses;
  int64_t media_timeout_ms; /* of all of a request's fetches together */

  /* Of a model opened with encoder_only, whose embeddings are published: kept for GET
   * /v1/encodings/KEY in that many bytes (0: none) for that long (0: until their place is needed),
   * and left in a directory as files for vLLM's ECExampleConnector (NULL: none), which together
   * take that many bytes (0: as many as there is room for). */
  int64_t encoding_bytes, encoding_ttl_ms;
  const char *encoding_directory;
  int64_t encoding_file_bytes;

  /* memory that images of all requests take while they are decoded, codecs included */
  int64_t max_media_bytes;

  int64_t max_grammar_bytes; /* of all compiled grammars of running requests and those kept */
  int64_t max_grammar_ms;    /* processor time for compiling one */

  /* Documents of /v1/ocr that are read at once, each by a thread of its own; 0: none is. Eight
   * times as many may wait. */
  int max_documents;

  int n_workers; /* threads that parse, decode and prepare, one of them never at images */
  /* Requests that may wait, for a worker or for the engine; one more gets 503. Not given: as many
   * as the engine's queue_bytes allow. */
  struct ommai_optional_integer max_queued_requests;
  /* events a slow reader may leave unread before its request is cancelled */
  int64_t max_pending_bytes;
  /* The same of all. While they are more, a request is cancelled that has more than 64 KiB of them
   * and another event. */
  int64_t max_total_pending_bytes;

  /* Gets lines without their ends, from any thread, and must be quick; NULL: none. One per internal
   * failure (those that a client sees as status 500), and those asked for below. Keys, texts and
   * images are in none; what clients send is escaped. */
  void (*log)(void *context, const char *line);
  void *log_context;
  bool log_json; /* each line is a JSON object, else text */
  /* no access lines of these: paths with commas between; NULL: of all */
  const char *unlogged_paths;

  /* URL of an OpenTelemetry collector that gets a trace of each request; NULL: none does */
  const char *otlp_traces_endpoint;
  const char *trace_service_name; /* of this program there; NULL: none */

  /* whose counts /metrics has; it must live as long as the server. NULL: none */
  const struct ommai_kv_publisher *kv_publisher;

  const struct omma_allocator *allocator; /* NULL: the library's own */
};

/* Everything as server_settings.c has it, nothing where that has no default. */
void ommai_server_options_default(struct omma_server_options *options);

/* Errors: ARGUMENT, where a number is out of its range, by its member. */
enum omma_status ommai_server_options_check(const struct omma_server_options *options, struct omma_error *error);

/* The tables of settings, each with a last entry without a name. */
extern const struct ommai_option ommai_server_address_settings[], ommai_server_access_settings[],
    ommai_server_request_settings[], ommai_server_media_settings[], ommai_server_limit_settings[], ommai_server_log_settings[],
    ommai_server_encoding_settings[];
/* What no command sets, in milliseconds and bytes. */
extern const struct ommai_option ommai_server_inner_settings[];
