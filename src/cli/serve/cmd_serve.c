/* omma serve: the OpenAI-compatible server. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/core/commands.h"
#include "cli/core/diagnostics.h"
#include "cli/core/format.h"
#include "cli/core/interrupt.h"
#include "cli/core/json_words.h"
#include "cli/core/log_writer.h"
#include "cli/core/paths.h"
#include "cli/serve/serve_notes.h"
#include "cli/serve/serve_settings.h"
#include "cli/serve/service_manager.h"
#include "cli/serve/serving.h"
#include "server/server.h"

/* Of the log, that are not written yet. */
#define LOG_BYTES ((size_t)256 << 10)

struct values {
  struct ommai_serving serving;
  struct ommai_encoder_node_values encoder;
  struct ommai_strings api_keys;
  const char *api_key_file;
  const char *allowed_origins, *allowed_methods, *allowed_headers;
  bool enable_log_requests, disable_log_requests, disable_access_log;
  int log_level, log_format;
};

/* What the server's options point into. */
struct held {
  struct ommai_serve_keys keys;
  struct ommai_json_words origins, methods, headers;
  json_t *ec_transfer_config;
};

static const char *const log_formats[] = {"text", "json", NULL};
enum { FORMAT_JSON = 1 };

static int read_cross_origin(const struct values *values, struct held *held, struct omma_cross_origin_options *options) {
  const struct {
    const char *flag, *text;
    struct ommai_json_words *list;
  } lists[] = {{"--allowed-origins", values->allowed_origins, &held->origins},
               {"--allowed-methods", values->allowed_methods, &held->methods},
               {"--allowed-headers", values->allowed_headers, &held->headers}};
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
    OMMAI_TRY_CODE(ommai_json_words_read("serve", lists[i].flag, lists[i].text, lists[i].list));
  }
  *options = (struct omma_cross_origin_options){.origins = held->origins.words.items,
                                                .n_origins = held->origins.words.count,
                                                .methods = held->methods.words.items,
                                                .n_methods = held->methods.words.count,
                                                .headers = held->headers.words.items,
                                                .n_headers = held->headers.words.count,
                                                .credentials = options->credentials};
  return OMMAI_EXIT_DONE;
}

static void release_held(struct held *held) {
  ommai_serve_keys_release(&held->keys);
  ommai_json_words_release(&held->origins);
  ommai_json_words_release(&held->methods);
  ommai_json_words_release(&held->headers);
  json_decref(held->ec_transfer_config);
}

static void log_line(void *context, const char *line) { ommai_log_writer_put(context, line); }

/* What requests without sampling fields are sampled by: a file, the flag that goes before it, or
 * both. */
static void note_sampling(const struct ommai_common *common, const struct omma_model *model) {
  static const char name[] = "generation_config.json";
  const char *source = common->generation_config;
  bool own = !source || strcmp(source, "auto") == 0, overrides = common->override_generation_config != NULL;
  struct omma_model_info info;
  char text[320], path[OMMAI_MAX_PATH];
  omma_model_get_info(model, &info);
  if (!ommai_format_sampling(&info, text, sizeof text)[0]) return;
  bool file = ommai_path_join(path, sizeof path, own ? info.directory : source, name) && ommai_file_exists(path) &&
              (own || strcmp(source, "vllm") != 0);
  ommai_note("serve: requests without sampling fields are sampled by %s%s%s: %s%s", file ? (own ? name : path) : "",
             file && overrides ? ", overridden by " : "", overrides ? "--override-generation-config" : "", text,
             file ? " (--generation-config vllm: without the file)" : "");
}

/* The mode of the socket's file decides who may connect. */
static void note_socket(const char *path) {
  struct stat info;
  ommai_note("serving at unix:%s, mode %03o (Ctrl-C ends it)", path, stat(path, &info) ? 0 : (unsigned)info.st_mode & 0777u);
}

static void note_address(const struct values *values, int port) {
  const struct omma_server_options *server = &values->serving.server;
  bool bracket = strchr(server->host, ':') != NULL;
  char address[OMMAI_MAX_PATH];
  snprintf(address, sizeof address, "http%s://%s%s%s:%d", server->tls.certificate_file ? "s" : "", bracket ? "[" : "",
           server->host, bracket ? "]" : "", port);
  bool page = !server->no_page && !values->serving.common.encoder_only;
  ommai_note("serving at %s/v1%s%s%s (Ctrl-C ends it)", address, page ? ", with a page at " : "", page ? address : "",
             page ? "/" : "");
}

static void note_configuration(const struct values *values, const struct omma_server_options *options,
                               const struct ommai_opened *opened) {
  const struct ommai_common *common = &values->serving.common;
  ommai_common_note_cpu(common);
  if (common->encoder_only) {
    ommai_serve_note_encoder(opened->model, &opened->estimate, options, common->threads);
    ommai_serve_note_access(options);
    return;
  }
  ommai_serve_note_model(opened->model, &opened->estimate, common->threads);
  ommai_serve_note_access(options);
  if (opened->kv_publisher) ommai_note("KV events: published %s", ommai_kv_publisher_address(opened->kv_publisher));
  note_sampling(common, opened->model);
  ommai_serve_warn_of_tools(opened->model, options);
}

static void beat(void) { ommai_service_notify("WATCHDOG=1"); }

static int serve(const struct values *values, const struct omma_server_options *options, const struct ommai_opened *opened) {
  struct ommai_server *server;
  struct omma_error error;
  int code = OMMAI_EXIT_DONE;
  const struct omma_server_beat watchdog = {ommai_service_watchdog_ms(), beat};
  if (ommai_server_create(options, opened->model, opened->engine, &server, &error) != OMMA_OK) return ommai_failed_call(&error);
  ommai_serve_note_names(opened->model, server);
  note_configuration(values, options, opened);
  if (options->uds) {
    note_socket(options->uds);
  } else {
    note_address(values, ommai_server_port(server));
  }
  /* after its own address, which scripts look for */
  if (options->otlp_traces_endpoint) ommai_note("traces are sent to %s", options->otlp_traces_endpoint);
  ommai_service_notify("READY=1\nSTATUS=serving");
  if (!options->n_api_keys && !ommai_server_is_local(server)) {
    ommai_warn(
        "serve: whoever reaches this address may use the server: no API key is asked for (--api-key-file, or OMMA_API_KEY in "
        "the environment)");
  }
  if (ommai_server_run(server, ommai_interrupt_descriptor(), watchdog.milliseconds ? &watchdog : NULL, &error) != OMMA_OK) {
    code = ommai_failed_call(&error);
  }
  ommai_service_notify("STOPPING=1\nSTATUS=finishing running requests, for %lld s at most",
                       (long long)options->settings.drain_ns / 1000000000);
  if (ommai_interrupted()) ommai_server_log_end(server);
  ommai_server_destroy(server);
  return code;
}

/* Fills the server's options, which point into the values and `held`; the log is not there yet.
 * Returns an exit code. */
static int read_options(struct values *values, struct held *held, struct omma_server_options *options) {
  *options = values->serving.server;
  options->api_keys = held->keys.keys.items;
  options->n_api_keys = held->keys.keys.count;
  options->trace_service_name = ommai_service_name();
  options->log = log_line;
  options->log_json = values->log_format == FORMAT_JSON;
  options->settings.log_access = values->log_level >= OMMAI_LOG_LEVEL_INFO && !values->disable_access_log;
  options->settings.log_requests = values->enable_log_requests && !values->disable_log_requests;
  int code = ommai_open_files_make_room("serve", &options->settings.max_connections);
  if (code == OMMAI_EXIT_DONE) code = read_cross_origin(values, held, &options->cross_origin);
  if (code == OMMAI_EXIT_DONE) {
    code = ommai_encoder_node_read("serve", &values->encoder, &values->serving.common, options, &held->ec_transfer_config);
  }
  return code == OMMAI_EXIT_DONE ? ommai_serving_read("serve", &values->serving, options) : code;
}

static int serve_with(struct values *values, const struct ommai_strings *arguments, struct held *held) {
  struct omma_server_options options;
  struct ommai_opened opened;
  int64_t reported_ns = 0;
  OMMAI_TRY_CODE(read_options(values, held, &options));
  /* A client that hangs up must not end the program. */
  signal(SIGPIPE, SIG_IGN);
  ommai_show_times();
  struct ommai_log_writer *log = ommai_log_writer_create(STDERR_FILENO, LOG_BYTES);
  if (!log) return ommai_failed("serve: out of memory: the log");
  options.log_context = log;
  struct ommai_debug_log debug_log = {log_line, log, options.log_json};
  values->serving.common.debug_log = &debug_log;
  int code = ommai_serving_open("serve", &values->serving, &options, arguments, ommai_service_loading, &reported_ns, &opened);
  if (code == OMMAI_EXIT_DONE) {
    options.kv_publisher = opened.kv_publisher;
    ommai_interrupt_defer();
    code = serve(values, &options, &opened);
    ommai_interrupt_resume();
    ommai_serving_close(&opened);
  }
  ommai_log_writer_destroy(log);
  return code;
}

static int run_serve(const void *given, const struct ommai_strings *arguments) {
  struct values values = *(const struct values *)given;
  struct held held = {0};
  /* first, since it wipes argv */
  int code = ommai_serve_keys_collect(&values.api_keys, values.api_key_file, &held.keys);
  if (code == OMMAI_EXIT_DONE) code = serve_with(&values, arguments, &held);
  release_held(&held);
  return code;
}

#define OMMAI_VALUES struct values

static const struct ommai_option_group options = OMMAI_SERVER_GROUP("Server", ommai_server_address_settings);

static const struct ommai_option encoder_table[] = {
    OMMAI_FLAG(
        "mm-encoder-only", encoder.mm_encoder_only,
        "load only the vision tower and encode the images of /v1/chat/completions for other engines, which get the embeddings "
        "at /v1/encodings/UUID: no text is generated, and neither language weights nor a KV cache take memory",
        .negatable = true),
    OMMAI_STRING(
        "ec-transfer-config", encoder.ec_transfer_config, "JSON",
        "the same, and write embeddings to files for vLLM's ECExampleConnector: {\"ec_connector\": \"ECExampleConnector\", "
        "\"ec_role\": \"ec_producer\", \"ec_connector_extra_config\": {\"shared_storage_path\": DIR}}"),
};
static const struct ommai_option_group server_encodings = OMMAI_SERVER_GROUP("Encoder node", ommai_server_encoding_settings);
static const struct ommai_option_group encoder_options = OMMAI_OPTION_GROUP("Encoder node", encoder_table);

static const struct ommai_option access_table[] = {
    OMMAI_WORDS("api-key", api_keys, "KEY",
                "API keys: clients must send one of them on all paths but /health, /ping, /version and the page at /; a file "
                "or the environment is safer, since the list of processes never shows them",
                .otherwise = "no key is required", .environment = ommai_serve_key_variables),
    OMMAI_STRING("api-key-file", api_key_file, "FILE",
                 "file with API keys, one per line; lines that begin with # are comments"),
    OMMAI_STRING("allowed-origins", allowed_origins, "JSON",
                 "origins (CORS) whose web pages may use the server, such as [\"https://example.org\"]; []: none",
                 .initial = "[\"*\"]"),
    OMMAI_STRING("allowed-methods", allowed_methods, "JSON", "HTTP methods (CORS) that these pages may use",
                 .initial = "[\"*\"]"),
    OMMAI_STRING("allowed-headers", allowed_headers, "JSON", "HTTP headers (CORS) that these pages may send",
                 .initial = "[\"*\"]"),
};
static const struct ommai_option_group server_access = OMMAI_SERVER_GROUP("Access", ommai_server_access_settings);
static const struct ommai_option_group access_options = OMMAI_OPTION_GROUP("Access", access_table);

static const struct ommai_option limit_table[] = {
    OMMAI_SIZE("max-queued-bytes", serving.max_queued_bytes, "SIZE", 1024, (int64_t)1 << 40,
               "memory for requests that wait, besides the pixels of their images; above it new requests get status 503",
               .otherwise = "1 GiB", .errors = "queue_bytes"),
};
static const struct ommai_option_group server_limits = OMMAI_SERVER_GROUP("Limits", ommai_server_limit_settings);
static const struct ommai_option_group limit_options = OMMAI_OPTION_GROUP("Limits", limit_table);

static const struct ommai_option log_table[] = {
    OMMAI_CHOICE("log-format", log_format, "FORMAT", log_formats,
                 "format of the log on stderr: text, or one JSON object per line", .initial = "text"),
    OMMAI_CHOICE("uvicorn-log-level", log_level, "LEVEL", ommai_log_levels,
                 "log level; access lines have level info: warning, error and critical leave them out", .initial = "info"),
    OMMAI_FLAG("disable-uvicorn-access-log", disable_access_log, "log no access lines", .negatable = true),
    OMMAI_FLAG("enable-log-requests", enable_log_requests,
               "log id and settings of each request when it arrives, without its text and images", .negatable = true),
    OMMAI_FLAG("disable-log-requests", disable_log_requests, "undo --enable-log-requests", .negatable = true),
};
static const struct ommai_option_group server_log = OMMAI_SERVER_GROUP("Log", ommai_server_log_settings);
static const struct ommai_option_group log_options = OMMAI_OPTION_GROUP("Log", log_table);

const struct ommai_command ommai_command_serve = {
    .name = "serve",
    .summary = "OpenAI-compatible HTTP server",
    .arguments = "[DIR]",
    .details =
        "Serves a model over HTTP with the endpoints of OpenAI's API (/v1/chat/completions, /v1/completions, /v1/responses and "
        "others) "
        "and Anthropic's /v1/messages, and a page at / to ask about images from a browser. DIR is the model, as "
        "--model. Ctrl-C ends the server after running requests. Flags of `vllm serve` that change "
        "no answer (scheduling, devices, logs, caches) are accepted with a warning each, those that would change one are "
        "refused "
        "with the reason.",
    .examples = {"omma serve models/my-model --port 8000 --max-model-len 8192",
                 "omma serve models/my-model -q int8 --kv-cache-bytes 4G --max-num-seqs 16",
                 "omma serve models/my-model --host 0.0.0.0 --api-key-file keys.txt"},
    .groups = {&options, &ommai_config_options, OMMAI_SERVING_GROUPS, &access_options, &server_access, &limit_options,
               &server_limits, &log_options, &server_log, &encoder_options, &server_encodings, &ommai_machine_options},
    .ignored = ommai_vllm_flags,
    .ignored_of = "vLLM",
    .values_size = sizeof(struct values),
    .begin = ommai_serving_begin,
    .max_arguments = 1,
    .run = run_serve,
};
