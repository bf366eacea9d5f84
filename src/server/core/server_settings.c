/* The settings of a server, each once: its member, range, default and option. */
#include "base/error.h"
#include "server/core/server_options.h"

#define OMMAI_VALUES struct omma_server_options

/* Of members in nanoseconds. */
#define MILLISECOND INT64_C(1000000)
#define SECOND (1000 * MILLISECOND)

const struct ommai_option ommai_server_address_settings[] = {
    OMMAI_STRING("host", host, "ADDRESS", "address or host name to listen on; 0.0.0.0: all addresses of this machine",
                 .initial = "127.0.0.1"),
    OMMAI_INTEGER("port", port, "N", 0, 65535, "port to listen on; 0: any free port", .initial = "8000"),
    OMMAI_STRING("uds", uds, "PATH",
                 "Unix domain socket to listen on instead of --host and --port; the server removes it at the end and replaces "
                 "one that was left over; the umask and the directory decide who may connect"),
    OMMAI_STRING("ssl-certfile", tls.certificate_file, "FILE",
                 "serve HTTPS (TLS 1.2 and 1.3) with this certificate, followed by its intermediate certificates, in PEM"),
    OMMAI_STRING("ssl-keyfile", tls.key_file, "FILE", "private key of --ssl-certfile, in PEM",
                 .otherwise = "in --ssl-certfile"),
    OMMAI_STRING("ssl-ca-certs", tls.authorities_file, "FILE", "certificate authorities of client certificates, in PEM"),
    OMMAI_INTEGER("ssl-cert-reqs", tls.clients, "N", 0, 2,
                  "client certificates: 0 not requested, 1 optional but must be valid, 2 required", .initial = "0"),
    OMMAI_STRING("root-path", root_path, "PATH",
                 "path prefix of a proxy before /v1, such as /models; requests are served with it and without"),
    OMMAI_FLAG("no-page", no_page, "do not serve the web page at /; the page is shown without an API key and asks for one"),
    OMMAI_FLAG("trust-media-uuids", settings.trust_media_uuids,
               "identify an image by the uuid that a client sends instead of by its content: whoever uses a uuid first decides "
               "which image it means"),
    {.name = NULL},
};

const struct ommai_option ommai_server_access_settings[] = {
    OMMAI_FLAG("metrics-without-key", settings.metrics_without_key, "serve /metrics without an API key"),
    OMMAI_FLAG("allow-credentials", cross_origin.credentials, "let these pages send cookies and other credentials (CORS)"),
    {.name = NULL},
};

const struct ommai_option ommai_server_request_settings[] = {
    OMMAI_WORDS("served-model-name", served_model_names, "NAME", "model names that requests may use",
                .otherwise = "the last part of the model's path, and the path itself", .elsewhere = "-a --alias"),
    OMMAI_INTEGER(
        "seed", settings.seed, "N", 0, INT64_MAX,
        "seed of requests that have none, each sampled differently: the same requests in the same order get the same answers",
        .otherwise = "random", .elsewhere = "-s"),
    OMMAI_STRING("reasoning-parser", reasoning_parser, "NAME",
                 "separate the reasoning at the beginning of an answer from the rest, by the marks of vLLM's parser of this "
                 "name; an unknown name lists the known ones",
                 .otherwise = "no separation"),
    OMMAI_STRING("reasoning-config", reasoning_config, "JSON",
                 "vLLM's object: {\"reasoning_end_str\": \"I answer now.</think>\"} is the text that ends the reasoning when "
                 "thinking_token_budget is used up",
                 .otherwise = "the end mark alone"),
    OMMAI_FLAG("enable-auto-tool-choice", enable_auto_tool_choice,
               "let the model decide to call tools (tool_choice \"auto\"); needs --tool-call-parser"),
    OMMAI_STRING("tool-call-parser", tool_call_parser, "NAME",
                 "format of the tool calls that the model writes, by vLLM's names: hermes is <tool_call> around JSON; an "
                 "unknown name lists the known ones",
                 .otherwise = "none"),
    OMMAI_FLAG("exclude-tools-when-tool-choice-none", settings.exclude_tools_when_tool_choice_none,
               "leave tools out of the prompt of a request with tool_choice \"none\""),
    OMMAI_SIZE("max-body-bytes", max_body_bytes, "SIZE", 1024, (int64_t)1 << 40,
               "maximum size of a request body, images included", .initial = "64M"),
    OMMAI_SIZE(
        "max-grammar-bytes", max_grammar_bytes, "SIZE", (int64_t)16 << 20, (int64_t)1 << 40,
        "memory of the compiled forms of answers (JSON Schemas, regular expressions, grammars) of all requests; one that "
        "finds no room is refused",
        .initial = "256M"),
    OMMAI_NUMBER("max-grammar-seconds", max_grammar_ms, "S", 0.001, 3600, "CPU time for compiling one; a harder one is refused",
                 .initial = "0.2", .factor = 1000),
    OMMAI_INTEGER("request-workers", n_workers, "N", 2, 64,
                  "threads that read requests and decode images; one of them is kept for requests without images",
                  .initial = "3"),
    {.name = NULL},
};

const struct ommai_option ommai_server_media_settings[] = {
    OMMAI_WORDS("allowed-media-domains", allowed_media_domains, "HOST",
                "hosts, by exact names, that requests may name in http(s) URLs of images",
                .otherwise = "none, nothing is fetched"),
    OMMAI_FLAG("allow-private-media-addresses", allow_private_media_addresses,
               "allow private, loopback and link-local addresses of these hosts"),
    OMMAI_STRING("allowed-local-media-path", allowed_local_media_path, "DIR",
                 "directory of the files that requests may name as file:// URLs", .otherwise = "none"),
    OMMAI_SIZE("max-image-pixels", settings.image_limits.max_pixels, "SIZE", 1, INT32_MAX,
               "maximum number of pixels of an image before it is resized", .initial = "178956970"),
    OMMAI_SIZE("max-decode-bytes", max_media_bytes, "SIZE", 1 << 20, (int64_t)1 << 40,
               "memory for decoding the images of all requests, codecs included; requests wait for their share, and one that "
               "needs more is refused",
               .initial = "1536M"),
    OMMAI_INTEGER("max-decode-seconds", settings.media_cpu_ms, "N", 1, 86400,
                  "CPU time in seconds for decoding the images of one request", .initial = "30", .factor = 1000),
    {.name = NULL},
};

const struct ommai_option ommai_server_limit_settings[] = {
    OMMAI_SIZE(
        "max-total-body-bytes", max_total_body_bytes, "SIZE", 1024, (int64_t)1 << 40,
        "maximum size of all request bodies that are being received or parsed; above it the slowest request gets status 503",
        .otherwise = "8 times --max-body-bytes"),
    OMMAI_INTEGER("max-queued-requests", max_queued_requests, "N", 1, 1 << 30,
                  "maximum number of requests that wait; one more gets status 503", .otherwise = "no limit but memory"),
    OMMAI_INTEGER(
        "max-documents", max_documents, "N", 0, 64,
        "documents of /v1/ocr that are read at once; eight times as many wait, one more gets status 503; 0: none is read",
        .initial = "2"),
    OMMAI_INTEGER("max-document-pages", settings.max_document_pages, "N", 1, 1000000,
                  "maximum number of pages of such a request", .initial = "1000"),
    OMMAI_SIZE("max-page-pixels", settings.max_page_pixels, "SIZE", 1 << 16, 1 << 28, "maximum number of pixels of such a page",
               .initial = "16m"),
    OMMAI_INTEGER("max-connections", settings.max_connections, "N", 1, 1 << 20,
                  "maximum number of open connections; one more closes the slowest without a complete request; health checks "
                  "always get in",
                  .initial = "4096"),
    OMMAI_INTEGER("max-connections-per-address", settings.max_connections_per_address, "N", 0, 1 << 20,
                  "the same per client address; 0: no limit", .otherwise = "three quarters of --max-connections"),
    OMMAI_INTEGER("idle-timeout", settings.idle_timeout_ns, "SECONDS", 1, 1 << 20,
                  "seconds for which an idle connection is kept open", .initial = "120", .factor = SECOND),
    OMMAI_INTEGER("head-timeout", settings.head_timeout_ns, "SECONDS", 1, 1 << 20,
                  "seconds in which the head of a request (its line and headers) must arrive", .initial = "20",
                  .factor = SECOND),
    OMMAI_INTEGER("body-timeout", settings.body_timeout_ns, "SECONDS", 1, 1 << 20,
                  "seconds in which the body of a request must arrive", .initial = "120", .factor = SECOND),
    OMMAI_SIZE("min-body-rate", settings.min_body_rate, "SIZE", 0, (int64_t)1 << 30,
               "minimum bytes per second of a request body, over any 10 seconds; 0: no minimum", .initial = "1K"),
    OMMAI_INTEGER("shutdown-delay", settings.leave_ns, "SECONDS", 0, 1 << 20,
                  "seconds for which new requests are still served after SIGTERM or Ctrl-C, while health checks already get "
                  "503 and load balancers turn to other servers; --shutdown-timeout begins after it",
                  .initial = "0", .factor = SECOND),
    OMMAI_INTEGER("shutdown-timeout", settings.drain_ns, "SECONDS", 0, 1 << 20,
                  "seconds for which running requests may continue after SIGTERM or Ctrl-C; meanwhile health checks and new "
                  "requests get 503; a second signal ends the server at once",
                  .initial = "5", .factor = SECOND),
    OMMAI_FLAG("enable-sleep-mode", settings.enable_sleep_mode,
               "serve POST /sleep, after which requests get 503 and the memory of all caches is the system's, and /wake_up"),
    {.name = NULL},
};

const struct ommai_option ommai_server_log_settings[] = {
    OMMAI_STRING("disable-access-log-for-endpoints", unlogged_paths, "PATHS",
                 "log no access lines for these paths, separated by commas, such as /health,/metrics"),
    OMMAI_STRING("otlp-traces-endpoint", otlp_traces_endpoint, "URL",
                 "send a trace of each request to this OpenTelemetry collector, by OTLP over HTTP in JSON, such as "
                 "http://127.0.0.1:4318/v1/traces; the header traceparent of a request is honoured",
                 .otherwise = "off"),
    {.name = NULL},
};

const struct ommai_option ommai_server_encoding_settings[] = {
    OMMAI_SIZE("encodings-bytes", encoding_bytes, "SIZE", 0, (int64_t)1 << 40,
               "memory for embeddings at /v1/encodings/UUID; the oldest are evicted; 0: none are kept", .initial = "1G"),
    OMMAI_INTEGER("encodings-ttl", encoding_ttl_ms, "SECONDS", 0, 1 << 30,
                  "seconds for which embeddings are kept there; 0: until their memory is needed", .initial = "600",
                  .factor = 1000),
    OMMAI_SIZE("encodings-files-bytes", encoding_file_bytes, "SIZE", 0, (int64_t)1 << 50,
               "disk for the files of --ec-transfer-config; the oldest are removed; 0: no limit", .initial = "32G"),
    {.name = NULL},
};

const struct ommai_option ommai_server_inner_settings[] = {
    OMMAI_INTEGER("limit-images", settings.limit_images_per_prompt, "N", 0, INT32_MAX, "images of a prompt", .initial = "64"),
    OMMAI_INTEGER("limit-videos", settings.limit_videos_per_prompt, "N", 0, INT32_MAX, "videos of a prompt", .initial = "64"),
    OMMAI_INTEGER("media-timeout-ms", media_timeout_ms, "MS", 1, INT32_MAX, "for fetching the media of a request",
                  .initial = "10000"),
    OMMAI_SIZE("max-pending-bytes", max_pending_bytes, "SIZE", 1, INT64_MAX, "events that one client has not read",
               .initial = "4M"),
    OMMAI_SIZE("max-total-pending-bytes", max_total_pending_bytes, "SIZE", 1, INT64_MAX, "the same of all", .initial = "1G"),
    OMMAI_INTEGER("body-rate-window-ms", settings.body_rate_window_ns, "MS", 1, INT32_MAX, "over which --min-body-rate counts",
                  .initial = "10000", .factor = MILLISECOND),
    OMMAI_INTEGER("keep-alive-ms", settings.keep_alive_ns, "MS", 1, INT32_MAX, "silence of a stream before a comment line",
                  .initial = "5000", .factor = MILLISECOND),
    OMMAI_INTEGER("progress-log-ms", settings.progress_log_ns, "MS", 1, INT32_MAX,
                  "until a request has a line about its encoding", .initial = "5000", .factor = MILLISECOND),
    {.name = NULL},
};

static const struct ommai_option *const tables[] = {
    ommai_server_address_settings, ommai_server_access_settings, ommai_server_request_settings,  ommai_server_media_settings,
    ommai_server_limit_settings,   ommai_server_log_settings,    ommai_server_encoding_settings, ommai_server_inner_settings};
#define N_TABLES (sizeof tables / sizeof tables[0])

void ommai_server_options_default(struct omma_server_options *options) {
  *options = (struct omma_server_options){0};
  for (size_t t = 0; t < N_TABLES; t++) {
    for (const struct ommai_option *option = tables[t]; option->name; option++) ommai_option_set_default(option, options);
  }
}

enum omma_status ommai_server_options_check(const struct omma_server_options *options, struct omma_error *error) {
  for (size_t t = 0; t < N_TABLES; t++) {
    for (const struct ommai_option *option = tables[t]; option->name; option++) {
      OMMAI_TRY(ommai_option_check(option, options, error));
    }
  }
  return OMMA_OK;
}
