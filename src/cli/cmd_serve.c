/* omma serve: the OpenAI-compatible server. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/diagnostics.h"
#include "cli/interrupt.h"
#include "cli/json_words.h"
#include "cli/serve_keys.h"
#include "cli/show.h"
#include "cli/vllm_flags.h"
#include "server/server.h"

/* What the engine takes as a chunk at most. */
#define MAX_BATCHED_TOKENS 65536
/* Resized pictures of all requests that are made ready or wait. */
#define MAX_RESIZED_BYTES ((int64_t)4 << 30)

struct values {
  struct ommai_common common;
  const char *host;
  int64_t port;
  struct ommai_strings served_names;
  struct ommai_strings api_keys;
  const char *api_key_file;
  bool metrics_without_key;
  const char *allowed_origins, *allowed_methods, *allowed_headers;
  bool allow_credentials;
  int64_t max_num_seqs, max_num_batched_tokens, prefill_percent;
  bool prefix_caching, no_prefix_caching;
  int policy; /* index into `policies` */
  const char *speculative;
  int64_t seed; /* -1: not given */
  const char *limit_mm_per_prompt, *mm_processor_kwargs;
  int64_t encoder_cache_bytes; /* -1: not given */
  struct ommai_strings media_domains;
  bool private_media_addresses;
  const char *local_media_path;
  bool trust_media_uuids;
  int64_t max_body_bytes, max_total_body_bytes, max_image_pixels, max_decode_bytes, max_decode_seconds, request_workers;
  int64_t max_connections, max_connections_per_address;
  int64_t idle_timeout, head_timeout, body_timeout, min_body_rate, shutdown_timeout;
};

/* What the server's options point into. */
struct held {
  struct ommai_serve_keys keys;
  struct ommai_json_words origins, methods, headers;
};

/* Refuses keys of a JSON flag that are not in `known` (ends in NULL). */
static int check_keys(const json_t *object, const char *flag, const char *const *known) {
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value) {
    size_t i = 0;
    while (known[i] && strcmp(known[i], key) != 0) i++;
    if (!known[i]) return ommai_wrong_use("serve: %s: unknown key \"%s\"", flag, key);
  }
  return OMMAI_EXIT_DONE;
}

static int wrong_json(const struct omma_error *error) { return ommai_wrong_use("serve: %s", error->message); }

/* Takes the limit of one kind of media. The server's 0 is its default and a negative number is none. */
static int read_limit(const json_t *root, const char *flag, const char *kind, int64_t *limit) {
  struct omma_error error;
  int64_t count = -1;
  if (ommai_json_integer(root, flag, kind, false, 0, INT32_MAX, &count, &error) != OMMA_OK) return wrong_json(&error);
  if (count >= 0) *limit = count == 0 ? -1 : count;
  return OMMAI_EXIT_DONE;
}

/* {"image": N, "video": N}; audio is a known name, and there is none to limit. */
static int read_media_limits(const char *text, struct omma_server_options *options) {
  static const char flag[] = "--limit-mm-per-prompt";
  static const char *const known[] = {"image", "video", "audio", NULL};
  struct omma_error error;
  json_t *root;
  if (!text) return OMMAI_EXIT_DONE;
  if (ommai_json_load(flag, text, strlen(text), &root, &error) != OMMA_OK) return wrong_json(&error);
  int code = check_keys(root, flag, known);
  if (code == OMMAI_EXIT_DONE) code = read_limit(root, flag, "image", &options->limit_images_per_prompt);
  if (code == OMMAI_EXIT_DONE) code = read_limit(root, flag, "video", &options->limit_videos_per_prompt);
  json_decref(root);
  return code;
}

static int read_processor_options(const struct values *values, struct omma_image_options *limits) {
  static const char flag[] = "--mm-processor-kwargs";
  static const char *const known[] = {"min_pixels", "max_pixels", NULL};
  struct omma_error error;
  json_t *root;
  *limits = ommai_common_image_options(&values->common);
  if (!values->mm_processor_kwargs) return OMMAI_EXIT_DONE;
  if (limits->min_pixels || limits->max_pixels) {
    return ommai_wrong_use("serve: %s: not together with --min-pixels and --max-pixels", flag);
  }
  const char *text = values->mm_processor_kwargs;
  if (ommai_json_load(flag, text, strlen(text), &root, &error) != OMMA_OK) return wrong_json(&error);
  int code = check_keys(root, flag, known);
  if (code == OMMAI_EXIT_DONE &&
      (ommai_json_integer(root, flag, "min_pixels", false, 1, INT64_MAX, &limits->min_pixels, &error) != OMMA_OK ||
       ommai_json_integer(root, flag, "max_pixels", false, 1, INT64_MAX, &limits->max_pixels, &error) != OMMA_OK)) {
    code = wrong_json(&error);
  }
  json_decref(root);
  return code;
}

static const char *const policies[] = {"fcfs", "priority", NULL};

/* {"method": "ngram", "num_speculative_tokens": N, "prompt_lookup_max": N, "prompt_lookup_min": N} */
static int read_speculation(const char *text, struct omma_engine_options *options) {
  static const char flag[] = "--speculative-config";
  static const char *const known[] = {"method", "num_speculative_tokens", "prompt_lookup_max", "prompt_lookup_min", NULL};
  struct omma_error error;
  json_t *root;
  if (!text) return OMMAI_EXIT_DONE;
  if (ommai_json_load(flag, text, strlen(text), &root, &error) != OMMA_OK) return wrong_json(&error);
  const char *method = json_string_value(json_object_get(root, "method"));
  int code = check_keys(root, flag, known);
  if (code == OMMAI_EXIT_DONE && (!method || strcmp(method, "ngram") != 0)) {
    code = ommai_wrong_use("serve: %s: method: expected \"ngram\"; no draft model guesses tokens here", flag);
  }
  if (code == OMMAI_EXIT_DONE &&
      (ommai_json_integer(root, flag, "num_speculative_tokens", true, 1, 15, &options->draft_tokens, &error) != OMMA_OK ||
       ommai_json_integer(root, flag, "prompt_lookup_max", false, 1, 64, &options->lookup_max, &error) != OMMA_OK ||
       ommai_json_integer(root, flag, "prompt_lookup_min", false, 1, 64, &options->lookup_min, &error) != OMMA_OK)) {
    code = wrong_json(&error);
  }
  json_decref(root);
  return code;
}

/* Other keys of generation_config.json mean nothing here, as in vLLM. */
static int check_overrides(const char *text) {
  static const char flag[] = "--override-generation-config";
  static const char *const known[] = {
      "temperature",       "top_p",          "top_k", "min_p", "repetition_penalty", "presence_penalty",
      "frequency_penalty", "max_new_tokens", NULL};
  struct omma_error error;
  json_t *root, *value;
  const char *key;
  if (!text) return OMMAI_EXIT_DONE;
  if (ommai_json_load(flag, text, strlen(text), &root, &error) != OMMA_OK) return wrong_json(&error);
  json_object_foreach(root, key, value) {
    size_t i = 0;
    while (known[i] && strcmp(known[i], key) != 0) i++;
    if (!known[i]) ommai_warn("serve: %s: \"%s\" changes nothing here", flag, key);
  }
  json_decref(root);
  return OMMAI_EXIT_DONE;
}

static void warn_without_effect(const struct values *values) {
  if (values->private_media_addresses && !values->media_domains.count) {
    ommai_warn("serve: --allow-private-media-addresses: nothing is fetched without --allowed-media-domains");
  }
}

static int read_cross_origin(const struct values *values, struct held *held, struct omma_cross_origin_options *options) {
  const struct {
    const char *flag, *text;
    struct ommai_json_words *list;
  } lists[] = {{"--allowed-origins", values->allowed_origins, &held->origins},
               {"--allowed-methods", values->allowed_methods, &held->methods},
               {"--allowed-headers", values->allowed_headers, &held->headers}};
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
    int code = ommai_json_words_read("serve", lists[i].flag, lists[i].text, lists[i].list);
    if (code != OMMAI_EXIT_DONE) return code;
  }
  *options = (struct omma_cross_origin_options){.origins = held->origins.words.items,
                                                .n_origins = held->origins.words.count,
                                                .methods = held->methods.words.items,
                                                .n_methods = held->methods.words.count,
                                                .headers = held->headers.words.items,
                                                .n_headers = held->headers.words.count,
                                                .credentials = values->allow_credentials};
  return OMMAI_EXIT_DONE;
}

static void release_held(struct held *held) {
  ommai_serve_keys_release(&held->keys);
  ommai_json_words_release(&held->origins);
  ommai_json_words_release(&held->methods);
  ommai_json_words_release(&held->headers);
}

/* Seconds and counts of the command line, of which 0 is none; the server's 0 is its default and a negative number none. */
static void set_limits(const struct values *values, struct omma_server_options *options) {
  options->max_body_bytes = values->max_body_bytes;
  options->max_total_body_bytes = values->max_total_body_bytes;
  options->max_connections = (int)values->max_connections;
  int64_t per_address = values->max_connections_per_address;
  options->max_connections_per_address = per_address < 0 ? 0 : per_address == 0 ? -1 : (int)per_address;
  options->idle_timeout_seconds = (int)values->idle_timeout;
  options->head_timeout_seconds = (int)values->head_timeout;
  options->body_timeout_seconds = (int)values->body_timeout;
  options->min_body_rate = values->min_body_rate ? values->min_body_rate : -1;
  options->drain_ms = values->shutdown_timeout ? values->shutdown_timeout * 1000 : -1;
}

static void log_line(void *context, const char *line) {
  (void)context;
  ommai_note("serve: %s", line);
}

static void tell_sampling(const struct omma_model *model) {
  struct omma_model_info info;
  char text[320];
  omma_model_get_info(model, &info);
  if (!ommai_show_sampling(&info, text, sizeof text)[0]) return;
  ommai_note(
      "serve: requests that do not say it are sampled as generation_config.json says: %s (--generation-config vllm: not so)",
      text);
}

static int serve(const struct values *values, const struct omma_server_options *options, struct omma_model *model,
                 struct omma_engine *engine) {
  struct ommai_server *server;
  struct omma_error error;
  int code = OMMAI_EXIT_DONE;
  if (ommai_server_create(options, model, engine, &server, &error) != OMMA_OK) return ommai_failed_call(&error);
  tell_sampling(model);
  bool bracket = strchr(values->host, ':') != NULL;
  ommai_note("serving at http://%s%s%s:%d/v1 (Ctrl-C ends it)", bracket ? "[" : "", values->host, bracket ? "]" : "",
             ommai_server_port(server));
  if (!options->n_api_keys && !ommai_server_is_local(server)) {
    ommai_warn(
        "serve: whoever reaches this address may use the server: no API key is asked for (--api-key-file, or OMMA_API_KEY in "
        "the environment)");
  }
  if (ommai_server_run(server, ommai_interrupt_descriptor(), &error) != OMMA_OK) code = ommai_failed_call(&error);
  if (ommai_interrupted()) {
    ommai_note("stopping: running requests may finish for %lld s; a second signal or Ctrl-C ends at once",
               (long long)values->shutdown_timeout);
  }
  ommai_server_destroy(server);
  return code;
}

static int start(const struct values *values, const struct ommai_common *common, const struct omma_server_options *options) {
  struct omma_model *model;
  struct omma_engine *engine;
  struct omma_error error;
  struct omma_engine_options engine_options = {.kv_cache_bytes = common->kv_cache_bytes,
                                               .prefill_chunk = values->max_num_batched_tokens,
                                               .max_sequences = values->max_num_seqs,
                                               .slice_percent = values->prefill_percent,
                                               .no_prefix_cache = values->no_prefix_caching,
                                               .by_priority = values->policy == 1};
  /* The engine takes 0 for its default and -1 for none. */
  if (values->encoder_cache_bytes >= 0) {
    engine_options.encoder_cache_bytes = values->encoder_cache_bytes ? values->encoder_cache_bytes : -1;
  }
  int code = read_speculation(values->speculative, &engine_options);
  if (code == OMMAI_EXIT_DONE) code = ommai_open_model(common, false, &model);
  if (code != OMMAI_EXIT_DONE) return code;
  if (omma_engine_create(model, &engine_options, &engine, &error) == OMMA_OK) {
    ommai_interrupt_defer();
    code = serve(values, options, model, engine);
    ommai_interrupt_resume();
    omma_engine_destroy(engine);
  } else {
    code = ommai_failed_call(&error);
  }
  omma_model_close(model);
  return code;
}

static int serve_with(const struct values *values, const struct ommai_strings *arguments, struct held *held) {
  struct ommai_common common = values->common;
  common.max_resized_bytes = MAX_RESIZED_BYTES;
  if (arguments->count && common.model)
    return ommai_wrong_use("serve: %s: the model is given by --model already", arguments->items[0]);
  if (arguments->count) common.model = arguments->items[0];
  struct omma_server_options options = {.host = values->host,
                                        .port = (int)values->port,
                                        .served_model_names = values->served_names.items,
                                        .n_served_model_names = values->served_names.count,
                                        .api_keys = held->keys.keys.items,
                                        .n_api_keys = held->keys.keys.count,
                                        .metrics_without_key = values->metrics_without_key,
                                        .trust_media_uuids = values->trust_media_uuids,
                                        .seeded = values->seed >= 0,
                                        .seed = (uint64_t)values->seed,
                                        .image_limits = {.max_pixels = values->max_image_pixels},
                                        .max_media_bytes = values->max_decode_bytes,
                                        .media_cpu_ms = values->max_decode_seconds * 1000,
                                        .n_workers = (int)values->request_workers,
                                        .allowed_local_media_path = values->local_media_path,
                                        .allowed_media_domains = values->media_domains.items,
                                        .n_allowed_media_domains = values->media_domains.count,
                                        .allow_private_media_addresses = values->private_media_addresses,
                                        .log = log_line};
  int code = read_media_limits(values->limit_mm_per_prompt, &options);
  if (code == OMMAI_EXIT_DONE) code = read_processor_options(values, &options.image_options);
  if (code == OMMAI_EXIT_DONE) code = read_cross_origin(values, held, &options.cross_origin);
  if (code == OMMAI_EXIT_DONE) code = check_overrides(common.override_generation_config);
  if (code != OMMAI_EXIT_DONE) return code;
  set_limits(values, &options);
  warn_without_effect(values);
  /* A client that hangs up must not end the program. */
  signal(SIGPIPE, SIG_IGN);
  return start(values, &common, &options);
}

static int run_serve(const void *given, const struct ommai_strings *arguments) {
  const struct values *values = given;
  struct held held = {0};
  int code = ommai_serve_keys_collect(&values->api_keys, values->api_key_file, &held.keys); /* first, since it wipes argv */
  if (code == OMMAI_EXIT_DONE) code = serve_with(values, arguments, &held);
  release_held(&held);
  return code;
}

#define AT(field) offsetof(struct values, field)

static const struct ommai_option table[] = {
    {.name = "host",
     .type = OMMAI_OPTION_STRING,
     .offset = AT(host),
     .value = "ADDRESS",
     .initial = "127.0.0.1",
     .help = "address or name to listen on; 0.0.0.0 for all of this machine's"},
    {.name = "port",
     .type = OMMAI_OPTION_INTEGER,
     .offset = AT(port),
     .value = "N",
     .low = 0,
     .high = 65535,
     .initial = "8000",
     .help = "port to listen on; 0: any free one"},
    {.name = "served-model-name",
     .type = OMMAI_OPTION_WORDS,
     .offset = AT(served_names),
     .value = "NAME",
     .help = "names that clients use",
     .otherwise = "the last part of the model's path, and the path itself"},
    {.name = "max-num-seqs",
     .type = OMMAI_OPTION_INTEGER,
     .offset = AT(max_num_seqs),
     .value = "N",
     .low = 1,
     .high = 1024,
     .help = "requests that are worked on at the same time; each costs memory, see omma plan",
     .otherwise = "8"},
    {.name = "max-num-batched-tokens",
     .type = OMMAI_OPTION_SIZE,
     .offset = AT(max_num_batched_tokens),
     .value = "N",
     .low = 1,
     .high = MAX_BATCHED_TOKENS,
     .help = "prompt tokens that are computed together, in whole pages of 64",
     .otherwise = "512"},
    {.name = "prefill-percent",
     .type = OMMAI_OPTION_INTEGER,
     .offset = AT(prefill_percent),
     .value = "N",
     .low = 1,
     .high = 90,
     .help = "share of the time that images and prompts get while answers are being written; 50 at most doubles the time "
             "between two "
             "tokens",
     .otherwise = "50"},
    {.name = "enable-prefix-caching",
     .type = OMMAI_OPTION_FLAG,
     .offset = AT(prefix_caching),
     .help = "keep keys and values of prompts for later ones that begin alike (the default)"},
    {.name = "no-enable-prefix-caching", .type = OMMAI_OPTION_FLAG, .offset = AT(no_prefix_caching), .help = "keep none"},
    {.name = "scheduling-policy",
     .type = OMMAI_OPTION_CHOICE,
     .offset = AT(policy),
     .value = "POLICY",
     .initial = "fcfs",
     .choices = policies,
     .help = "who goes first: the oldest request (fcfs), or the one with the lowest field priority (priority)"},
    {.name = "speculative-config",
     .type = OMMAI_OPTION_STRING,
     .offset = AT(speculative),
     .value = "JSON",
     .help = "guess tokens from what prompt and answer have said before, such as {\"method\": \"ngram\", "
             "\"num_speculative_tokens\": 4, "
             "\"prompt_lookup_max\": 4}; no answer changes",
     .otherwise = "no guesses"},
    {.name = "seed",
     .type = OMMAI_OPTION_INTEGER,
     .offset = AT(seed),
     .value = "N",
     .unset = -1,
     .low = 0,
     .high = INT64_MAX,
     .help = "what requests without a seed of their own draw by, each differently: the same requests in the same order get the "
             "same answers",
     .otherwise = "random"},
    {.name = "limit-mm-per-prompt",
     .type = OMMAI_OPTION_STRING,
     .offset = AT(limit_mm_per_prompt),
     .value = "JSON",
     .help = "pictures and videos per prompt, such as {\"image\": 4, \"video\": 1}",
     .otherwise = "64 of each"},
    {.name = "mm-processor-kwargs",
     .type = OMMAI_OPTION_STRING,
     .offset = AT(mm_processor_kwargs),
     .value = "JSON",
     .help = "such as {\"max_pixels\": 1000000}; a request's own win"},
    {.name = "generation-config",
     .type = OMMAI_OPTION_STRING,
     .offset = AT(common.generation_config),
     .value = "DIR",
     .help =
         "whose generation_config.json says how requests are sampled that do not say it: auto is the model's, vllm is none, or "
         "a directory, whose max_new_tokens bounds every answer",
     .otherwise = "auto"},
    {.name = "override-generation-config",
     .type = OMMAI_OPTION_STRING,
     .offset = AT(common.override_generation_config),
     .value = "JSON",
     .help = "values in place of that file's, such as {\"temperature\": 0.5}; max_new_tokens bounds every answer",
     .otherwise = "none"},
    {.name = "encoder-cache-bytes",
     .type = OMMAI_OPTION_SIZE,
     .offset = AT(encoder_cache_bytes),
     .value = "SIZE",
     .unset = -1,
     .low = 0,
     .high = INT64_MAX,
     .help = "memory for encoded pictures, so that one seen before needs no encoder; 0 keeps none",
     .otherwise = "512 MiB"},
    {.name = "allowed-media-domains",
     .type = OMMAI_OPTION_WORDS,
     .offset = AT(media_domains),
     .value = "HOST",
     .help = "hosts, by exact names, whose pictures requests may name as http(s) URLs",
     .otherwise = "nothing is fetched"},
    {.name = "allow-private-media-addresses",
     .type = OMMAI_OPTION_FLAG,
     .offset = AT(private_media_addresses),
     .help = "let these hosts have private, loopback and link-local addresses"},
    {.name = "allowed-local-media-path",
     .type = OMMAI_OPTION_STRING,
     .offset = AT(local_media_path),
     .value = "DIR",
     .help = "directory whose files requests may name as file:// URLs",
     .otherwise = "none"},
    {.name = "trust-media-uuids",
     .type = OMMAI_OPTION_FLAG,
     .offset = AT(trust_media_uuids),
     .help = "take the uuid of a picture for its content, whoever sends it: who names it first decides what it shows"},
};
static const struct ommai_option_group options = {"Server", table, sizeof table / sizeof *table};

static const struct ommai_option access_table[] = {
    {.name = "api-key",
     .type = OMMAI_OPTION_WORDS,
     .offset = AT(api_keys),
     .value = "KEY",
     .help = "keys of which clients must send one, on all paths but /health, /ping and /version; better in a file or the "
             "environment, where no list of processes shows them for a moment",
     .otherwise = "OMMA_API_KEY and VLLM_API_KEY of the environment; without these none is asked for"},
    {.name = "api-key-file",
     .type = OMMAI_OPTION_STRING,
     .offset = AT(api_key_file),
     .value = "FILE",
     .help = "file with such keys, one a line"},
    {.name = "metrics-without-key",
     .type = OMMAI_OPTION_FLAG,
     .offset = AT(metrics_without_key),
     .help = "let /metrics be read without a key"},
    {.name = "allowed-origins",
     .type = OMMAI_OPTION_STRING,
     .offset = AT(allowed_origins),
     .value = "JSON",
     .initial = "[\"*\"]",
     .help = "origins whose pages browsers let in (CORS), such as [\"https://example.org\"]; [] lets none in"},
    {.name = "allowed-methods",
     .type = OMMAI_OPTION_STRING,
     .offset = AT(allowed_methods),
     .value = "JSON",
     .initial = "[\"*\"]",
     .help = "methods that these pages may use"},
    {.name = "allowed-headers",
     .type = OMMAI_OPTION_STRING,
     .offset = AT(allowed_headers),
     .value = "JSON",
     .initial = "[\"*\"]",
     .help = "headers that these pages may send"},
    {.name = "allow-credentials",
     .type = OMMAI_OPTION_FLAG,
     .offset = AT(allow_credentials),
     .help = "let these pages send cookies and the like"},
};
static const struct ommai_option_group access_options = {"Access", access_table, sizeof access_table / sizeof *access_table};

static const struct ommai_option limit_table[] = {
    {.name = "max-body-bytes",
     .type = OMMAI_OPTION_SIZE,
     .offset = AT(max_body_bytes),
     .value = "SIZE",
     .low = 1024,
     .high = (int64_t)1 << 40,
     .help = "largest request body, pictures included",
     .otherwise = "64 MiB"},
    {.name = "max-image-pixels",
     .type = OMMAI_OPTION_SIZE,
     .offset = AT(max_image_pixels),
     .value = "N",
     .low = 1,
     .high = INT32_MAX,
     .help = "largest image as it is sent, before it is resized",
     .otherwise = "178956970"},
    {.name = "max-decode-bytes",
     .type = OMMAI_OPTION_SIZE,
     .offset = AT(max_decode_bytes),
     .value = "SIZE",
     .low = 1 << 20,
     .high = (int64_t)1 << 40,
     .help = "memory for images of all requests while they are decoded, codecs included; requests wait for their share, and "
             "one that "
             "needs more is refused",
     .otherwise = "1.5 GiB"},
    {.name = "max-decode-seconds",
     .type = OMMAI_OPTION_INTEGER,
     .offset = AT(max_decode_seconds),
     .value = "N",
     .low = 1,
     .high = 86400,
     .help = "processor time for decoding the images of one request",
     .otherwise = "30"},
    {.name = "request-workers",
     .type = OMMAI_OPTION_INTEGER,
     .offset = AT(request_workers),
     .value = "N",
     .low = 2,
     .high = 64,
     .help = "threads that read requests and decode images; one of them is kept for requests without images",
     .otherwise = "3"},
    {.name = "max-total-body-bytes",
     .type = OMMAI_OPTION_SIZE,
     .offset = AT(max_total_body_bytes),
     .value = "SIZE",
     .low = 1024,
     .high = (int64_t)1 << 40,
     .help = "of all bodies that are being received or read; the slowest gives way with status 503",
     .otherwise = "8 of the largest"},
    {.name = "max-connections",
     .type = OMMAI_OPTION_INTEGER,
     .offset = AT(max_connections),
     .value = "N",
     .low = 1,
     .high = 1 << 20,
     .initial = "512",
     .help = "open connections; one more closes the slowest without a complete request, and health checks always get in"},
    {.name = "max-connections-per-address",
     .type = OMMAI_OPTION_INTEGER,
     .offset = AT(max_connections_per_address),
     .value = "N",
     .unset = -1,
     .low = 0,
     .high = 1 << 20,
     .help = "the same for one client address; 0: no such limit",
     .otherwise = "three quarters of all"},
    {.name = "idle-timeout",
     .type = OMMAI_OPTION_INTEGER,
     .offset = AT(idle_timeout),
     .value = "SECONDS",
     .low = 1,
     .high = 1 << 20,
     .initial = "120",
     .help = "how long a connection is kept for a next request"},
    {.name = "head-timeout",
     .type = OMMAI_OPTION_INTEGER,
     .offset = AT(head_timeout),
     .value = "SECONDS",
     .low = 1,
     .high = 1 << 20,
     .initial = "20",
     .help = "how long a request's head may take"},
    {.name = "body-timeout",
     .type = OMMAI_OPTION_INTEGER,
     .offset = AT(body_timeout),
     .value = "SECONDS",
     .low = 1,
     .high = 1 << 20,
     .initial = "120",
     .help = "how long a request's body may take"},
    {.name = "min-body-rate",
     .type = OMMAI_OPTION_SIZE,
     .offset = AT(min_body_rate),
     .value = "SIZE",
     .low = 0,
     .high = (int64_t)1 << 30,
     .initial = "1K",
     .help = "bytes a second that a body must bring, over any 10 seconds; 0: any"},
    {.name = "shutdown-timeout",
     .type = OMMAI_OPTION_INTEGER,
     .offset = AT(shutdown_timeout),
     .value = "SECONDS",
     .low = 0,
     .high = 1 << 20,
     .initial = "5",
     .help =
         "how long running requests may go on after SIGTERM or Ctrl-C; health checks and new requests get 503 meanwhile, and "
         "a second signal ends at once"},
};
static const struct ommai_option_group limit_options = {"Limits", limit_table, sizeof limit_table / sizeof *limit_table};

const struct ommai_command ommai_command_serve = {
    .name = "serve",
    .summary = "OpenAI-compatible HTTP server",
    .arguments = "[DIR]",
    .details =
        "Serves a model over HTTP with the endpoints of OpenAI's API (/v1/chat/completions and others). DIR is the model, as "
        "--model. Ctrl-C ends the server after running requests. Flags of `vllm serve` that change "
        "no answer (scheduling, devices, logs, caches) are accepted with a warning each, those that would change one are "
        "refused "
        "with the reason.",
    .example = "omma serve models/my-model --port 8000 --max-model-len 8192",
    .groups = {&options, &access_options, &limit_options, &ommai_picture_options, &ommai_model_options, &ommai_weight_options,
               &ommai_engine_options, &ommai_template_options, &ommai_machine_options},
    .ignored = ommai_vllm_flags,
    .ignored_of = "vLLM",
    .values_size = sizeof(struct values),
    .max_arguments = 1,
    .run = run_serve,
};
