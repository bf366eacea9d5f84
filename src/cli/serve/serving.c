#include "cli/serve/serving.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "cli/core/diagnostics.h"
#include "cli/core/interrupt.h"
#include "cli/model/room.h"
#include "cli/serve/serve_notes.h"
#include "cli/serve/serving_json.h"

/* What the engine takes as a chunk at most. */
#define MAX_BATCHED_TOKENS 65536
/* Resized images of all requests that are prepared or wait. */
#define MAX_RESIZED_BYTES ((int64_t)4 << 30)
#define GIB ((double)(1 << 30))
/* Requests that are prepared while as many as the engines take run. */
#define MAX_PREPARED 32

static const char *const policies[] = {"fcfs", "priority", NULL};
/* In the order of enum omma_scheduling. */
static const char *const scheduling_goals[] = {"auto", "latency", "throughput", NULL};

/* Seen here, so that what is wrong does not wait for the model. */
static int check_server(const char *command, const struct omma_server_options *options) {
  struct omma_error error;
  if (ommai_server_check(options, &error) == OMMA_OK) return OMMAI_EXIT_DONE;
  if (!strcmp(error.field, "reasoning_parser") || !strcmp(error.field, "reasoning_config")) {
    return ommai_usage_error("%s: --reasoning-%s: %s", command, error.field + strlen("reasoning_"), error.message);
  }
  return strcmp(error.field, "api_key") ? ommai_failed_call(&error) : ommai_usage_error("%s: %s", command, error.message);
}

static void warn_without_effect(const char *command, const struct omma_server_options *options) {
  if (options->allow_private_media_addresses && !options->allowed_media_domains.count) {
    ommai_warn("%s: --allow-private-media-addresses: nothing is fetched without --allowed-media-domains", command);
  }
}

static int check_tools(const char *command, const struct omma_server_options *options) {
  if (options->enable_auto_tool_choice && !options->tool_call_parser) {
    return ommai_usage_error("%s: --enable-auto-tool-choice requires --tool-call-parser", command);
  }
  enum omma_tool_format format;
  struct omma_error error;
  if (options->tool_call_parser && omma_tool_parser_find(options->tool_call_parser, &format, &error) != OMMA_OK) {
    return ommai_usage_error("%s: --tool-call-parser: %s", command, error.message);
  }
  return OMMAI_EXIT_DONE;
}

void ommai_serving_begin(void *values) { ommai_server_options_default(&((struct ommai_serving *)values)->server); }

static enum omma_status read_json(const char *command, const struct ommai_serving *serving, struct omma_server_options *options,
                                  struct omma_error *error) {
  struct ommai_server_settings *settings = &options->settings;
  OMMAI_TRY(ommai_serving_read_media_limits(serving->limit_mm_per_prompt, options, error));
  OMMAI_TRY(ommai_serving_read_processor(serving->mm_processor_kwargs, &serving->common, &settings->image_options, error));
  OMMAI_TRY(ommai_serving_read_structured_outputs(serving->structured_outputs, options->reasoning_parser,
                                                  &settings->compact_json, error));
  return ommai_serving_check_overrides(command, serving->common.override_generation_config, error);
}

int ommai_serving_read(const char *command, const struct ommai_serving *serving, struct omma_server_options *options) {
  struct omma_error error;
  int n_engines;
  if (read_json(command, serving, options, &error) != OMMA_OK) return ommai_usage_error("%s: %s", command, error.message);
  int code = check_tools(command, options);
  if (code == OMMAI_EXIT_DONE) code = ommai_common_read_engines(command, serving->data_parallel, &n_engines);
  if (code == OMMAI_EXIT_DONE) code = check_server(command, options);
  if (code == OMMAI_EXIT_DONE) warn_without_effect(command, options);
  return code;
}

static struct omma_engine_options engine_options(const struct ommai_serving *serving) {
  struct omma_engine_options options = {.kv_cache_bytes = serving->common.kv_cache_bytes,
                                        .prefill_chunk = serving->max_num_batched_tokens,
                                        .max_sequences = serving->max_num_seqs,
                                        .slice_percent = serving->prefill_percent,
                                        .scheduling = (enum omma_scheduling)serving->scheduling,
                                        .max_wait_ms = serving->max_wait_ms,
                                        .queue_bytes = serving->max_queued_bytes,
                                        .no_prefix_cache = !serving->prefix_caching,
                                        .by_priority = serving->policy == 1,
                                        .stuck_ms = serving->stuck_ms};
  /* The engine takes 0 for its default and -1 for none. */
  int64_t encoder_bytes = serving->encoder_cache_bytes.value;
  if (serving->encoder_cache_bytes.given) options.encoder_cache_bytes = encoder_bytes ? encoder_bytes : -1;
  return options;
}

/* What an engine is made with. */
struct opening {
  const struct omma_image_options *image_options;
  struct omma_engine_options engine;
  struct omma_memory_estimate *estimate;
  bool encoder_only;
};

/* Reports what fits before time goes into packing weights; the engine gets that much. */
static enum omma_status check_room(void *context, const struct omma_model *model, struct omma_error *error) {
  struct opening *opening = context;
  struct omma_memory_estimate *estimate = opening->estimate;
  OMMAI_TRY(ommai_check_image_options(model, opening->image_options, error));
  OMMAI_TRY(omma_estimate_memory(model, &opening->engine, 0, estimate, error));
  if (!opening->encoder_only) ommai_room_note(model, estimate);
  ommai_serve_note_memory(estimate, opening->encoder_only);
  if (opening->encoder_only) return ommai_room_check_total(model, estimate, OMMAI_ROOM_OPTIONS_OF_ENCODING, error);
  struct omma_model_info info;
  omma_model_get_info(model, &info);
  /* the option is each one's */
  opening->engine.kv_cache_bytes = estimate->kv_cache_bytes / info.n_engines;
  OMMAI_TRY(ommai_room_check_total(model, estimate, OMMAI_ROOM_OPTIONS_OF_SERVING, error));
  ommai_room_warn_of_largest(model, estimate, opening->image_options);
  return OMMA_OK;
}

static int open_store(const struct ommai_serving *serving, struct ommai_opened *opened) {
  struct omma_error error;
  if (!serving->encoder_cache_url) return OMMAI_EXIT_DONE;
  if (ommai_encoding_store_create(serving->encoder_cache_url, &opened->log, &ommai_default_allocator, &opened->store, &error) ==
      OMMA_OK) {
    return OMMAI_EXIT_DONE;
  }
  return ommai_failed_call(&error);
}

static int open_kv_publisher(const char *command, const struct ommai_serving *serving, struct ommai_kv_publisher **publisher) {
  struct omma_error error;
  if (!serving->kv_events) return OMMAI_EXIT_DONE;
  if (!serving->prefix_caching || serving->common.encoder_only) {
    return ommai_usage_error("%s: --kv-events-config: no keys and values are kept with %s", command,
                             serving->prefix_caching ? "--mm-encoder-only" : "--no-enable-prefix-caching");
  }
  if (ommai_kv_publisher_create(serving->kv_events, &ommai_default_allocator, publisher, &error) == OMMA_OK) {
    return OMMAI_EXIT_DONE;
  }
  bool wrong = error.status == OMMA_ERROR_ARGUMENT || error.status == OMMA_ERROR_FORMAT;
  return wrong ? ommai_usage_error("%s: %s", command, error.message) : ommai_failed_call(&error);
}

/* What vLLM's options and those of its older versions say of the model's use, in the order of what
 * they mean. */
enum runner { RUNNER_AUTO, RUNNER_GENERATE, RUNNER_POOLING };
enum convert { CONVERT_AUTO, CONVERT_NONE, CONVERT_EMBED, CONVERT_CLASSIFY };
static const char *const runners[] = {"auto", "generate", "pooling", NULL};
static const char *const conversions[] = {"auto", "none", "embed", "classify", NULL};
static const char *const tasks[] = {"auto", "generate", "embed", "score", "embedding", "classify", NULL};
static const enum omma_model_task task_values[] = {OMMA_TASK_AUTO,  OMMA_TASK_GENERATE, OMMA_TASK_EMBED,
                                                   OMMA_TASK_SCORE, OMMA_TASK_EMBED,    OMMA_TASK_SCORE};

static int read_task(const char *command, const struct ommai_serving *serving, struct ommai_common *common) {
  bool converts = serving->convert == CONVERT_EMBED || serving->convert == CONVERT_CLASSIFY;
  if (serving->task && (serving->runner || serving->convert)) {
    return ommai_usage_error("%s: --task: not together with --runner and --convert, which replace it", command);
  }
  if (converts && serving->runner == RUNNER_GENERATE) {
    return ommai_usage_error("%s: --convert: %s: needs --runner pooling", command, conversions[serving->convert]);
  }
  common->task = (int)task_values[serving->task];
  if (serving->runner == RUNNER_GENERATE) common->task = OMMA_TASK_GENERATE;
  if (serving->runner == RUNNER_POOLING) common->task = OMMA_TASK_POOLING;
  if (converts) common->task = serving->convert == CONVERT_EMBED ? OMMA_TASK_EMBED : OMMA_TASK_SCORE;
  return OMMAI_EXIT_DONE;
}

/* With what is published and shared, which the options name. */
static int create_engine(struct opening *opening, struct ommai_opened *opened) {
  struct omma_encoding_store store;
  struct omma_kv_events kv_events[OMMA_MAX_ENGINES];
  struct omma_model_info info;
  struct omma_engine_stats stats;
  struct omma_error error;
  if (opened->store) {
    store = ommai_encoding_store_interface(opened->store);
    opening->engine.encoding_store = &store;
  }
  if (opened->kv_publisher) {
    omma_model_get_info(opened->model, &info);
    ommai_kv_publisher_interfaces(opened->kv_publisher, info.n_engines, kv_events);
    opening->engine.kv_events = kv_events;
  }
  if (omma_engine_create(opened->model, &opening->engine, &opened->engine, &error) != OMMA_OK) {
    return ommai_room_failed(&error, OMMAI_ROOM_OPTIONS_OF_SERVING);
  }
  omma_engine_get_stats(opened->engine, &stats);
  opened->estimate.max_sequences = stats.max_sequences; /* memory may be less by now */
  return OMMAI_EXIT_DONE;
}

int ommai_serving_open(const char *command, const struct ommai_serving *serving, const struct omma_server_options *server,
                       const struct ommai_strings *arguments, omma_progress progress, void *progress_context,
                       struct ommai_opened *opened) {
  struct ommai_common common = serving->common;
  struct opening opening = {&server->settings.image_options, engine_options(serving), &opened->estimate,
                            serving->common.encoder_only};
  struct ommai_check check = {check_room, &opening, progress, progress_context};
  struct omma_error error;
  *opened = (struct ommai_opened){0};
  common.max_resized_bytes = MAX_RESIZED_BYTES;
  common.known_image_bytes = serving->processor_cache_gb == 0 ? -1 : (int64_t)(serving->processor_cache_gb * GIB);
  int code = ommai_common_take_model(command, arguments, &common);
  opened->log = (struct ommai_log){server->log, server->log_context, server->log_json};
  opening.engine.on_engine_state = ommai_server_log_engine;
  opening.engine.on_engine_state_context = &opened->log;
  if (code == OMMAI_EXIT_DONE) code = ommai_common_read_engines(command, serving->data_parallel, &common.n_engines);
  if (code == OMMAI_EXIT_DONE) code = read_task(command, serving, &common);
  if (code == OMMAI_EXIT_DONE &&
      ommai_serving_read_speculation(serving->speculative, &opening.engine, &common, &error) != OMMA_OK) {
    code = ommai_usage_error("%s: %s", command, error.message);
  }
  if (code == OMMAI_EXIT_DONE) code = open_store(serving, opened);
  if (code == OMMAI_EXIT_DONE) code = open_kv_publisher(command, serving, &opened->kv_publisher);
  if (code == OMMAI_EXIT_DONE) code = ommai_open_model_checked(&common, false, &check, &opened->model);
  free(common.draft_model);
  if (code == OMMAI_EXIT_DONE) ommai_common_note_demo(command, &common);
  if (code == OMMAI_EXIT_DONE) code = create_engine(&opening, opened);
  if (code != OMMAI_EXIT_DONE) ommai_serving_close(opened);
  return code;
}

/* An engine that does not answer is left behind with what it calls. */
static bool all_answer(const struct omma_engine *engine) {
  bool all = true;
  for (int i = 0; engine && i < omma_engine_count(engine); i++) {
    struct omma_engine_stats stats;
    omma_engine_get_stats_of(engine, i, &stats);
    all = all && stats.alive;
  }
  return all;
}

void ommai_serving_close(struct ommai_opened *opened) {
  bool all = all_answer(opened->engine);
  omma_engine_destroy(opened->engine);
  omma_model_close(opened->model);
  if (!all) return;
  ommai_encoding_store_destroy(opened->store);
  ommai_kv_publisher_destroy(opened->kv_publisher);
}

static size_t n_parallel_of(const struct ommai_opened *opened) {
  int64_t n = opened->estimate.max_sequences;
  return (size_t)(n + ommai_min_i64(n, MAX_PREPARED));
}

int ommai_serving_run_offline(const char *command, const struct ommai_serving *serving,
                              const struct omma_server_options *options, const struct ommai_strings *arguments,
                              int (*run)(void *context, struct ommai_server *server, size_t n_parallel), void *context) {
  struct ommai_opened opened;
  struct ommai_server *server;
  struct omma_error error;
  int code = ommai_serving_open(command, serving, options, arguments, NULL, NULL, &opened);
  if (code != OMMAI_EXIT_DONE) return code;
  if (ommai_server_create(options, opened.model, opened.engine, &server, &error) == OMMA_OK) {
    ommai_interrupt_defer();
    code = run(context, server, n_parallel_of(&opened));
    ommai_server_destroy(server);
    ommai_interrupt_resume();
  } else {
    code = ommai_failed_call(&error);
  }
  ommai_serving_close(&opened);
  return code;
}

#define OMMAI_VALUES struct ommai_serving

static const struct ommai_option request_table[] = {
    OMMAI_CHOICE("runner", runner, "RUNNER", runners,
                 "what the model is for: what its files say (auto), answers (generate), or vectors and scores (pooling)",
                 .initial = "auto"),
    OMMAI_CHOICE(
        "convert", convert, "TASK", conversions,
        "what a model of --runner pooling gives: what its files say (auto, none), vectors (embed), or scores (classify)",
        .initial = "auto"),
    OMMAI_CHOICE("task", task, "TASK", tasks, "the same in one word, as in older versions of vLLM", .initial = "auto"),
    OMMAI_STRING("generation-config", common.generation_config, "DIR",
                 "source of the sampling defaults: auto (the model's generation_config.json), vllm (none), or a directory with "
                 "such a file, whose max_new_tokens limits every answer",
                 .otherwise = "auto"),
    OMMAI_STRING(
        "override-generation-config", common.override_generation_config, "JSON",
        "values that replace those of --generation-config, such as {\"temperature\": 0.5}; max_new_tokens limits every answer",
        .otherwise = "none"),
    OMMAI_STRING("structured-outputs-config", structured_outputs, "JSON",
                 "vLLM's object: {\"disable_any_whitespace\": true} makes structured output compact JSON, its other keys "
                 "change nothing",
                 .otherwise = "whitespace as the model writes it"),
};

static const struct ommai_option scheduler_table[] = {
    OMMAI_INTEGER("max-num-seqs", max_num_seqs, "N", 1, 1024,
                  "maximum number of requests that run at the same time; each takes memory: omma plan prints how much",
                  .otherwise = "128, or less where memory or the KV cache are small", .elsewhere = "-np --parallel",
                  .errors = "max_sequences"),
    OMMAI_STRING("data-parallel-size", data_parallel, "N",
                 "engines in this process, each with threads, CPUs and a KV cache of its own (1 to 64), or auto: one for each "
                 "NUMA node, with its own copy of the weights; requests go to the one that knows their images or prompt, or to "
                 "the least loaded; --threads and the options of memory are those of each",
                 .letters = "dp", .initial = "1"),
    OMMAI_INTEGER("engine-timeout", stuck_ms, "SECONDS", 1, 86400,
                  "of several engines: seconds that one may work on a step before it is taken out, and the others go on with "
                  "its requests",
                  .factor = 1000, .otherwise = "60", .errors = "stuck_ms"),
    OMMAI_SIZE("max-num-batched-tokens", max_num_batched_tokens, "SIZE", 1, MAX_BATCHED_TOKENS,
               "prompt tokens per prefill step, rounded up to a multiple of 64", .otherwise = "512",
               .elsewhere = "-b --batch-size -ub --ubatch-size", .errors = "prefill_chunk"),
    OMMAI_INTEGER("prefill-percent", prefill_percent, "N", 1, 90,
                  "percent of the time for image encoding and prefill while answers are being generated; 50 at most doubles "
                  "the time between two tokens",
                  .otherwise = "50", .errors = "slice_percent"),
    OMMAI_CHOICE("scheduling", scheduling, "GOAL", scheduling_goals,
                 "whose answers may wait until more of them can be computed together: those that are not streamed (auto), "
                 "nobody's (latency), everybody's (throughput)",
                 .initial = "auto"),
    OMMAI_INTEGER("max-wait-ms", max_wait_ms, "N", 1, 86400000, "milliseconds that an answer waits for others at most, in all",
                  .otherwise = "30000"),
    OMMAI_CHOICE("scheduling-policy", policy, "POLICY", policies,
                 "which waiting request runs first: the oldest (fcfs), or the one with the lowest value of the field priority "
                 "(priority)",
                 .initial = "fcfs"),
    OMMAI_STRING("speculative-config", speculative, "JSON",
                 "speculative decoding by n-grams of the prompt and the answer so far, such as {\"method\": \"ngram\", "
                 "\"num_speculative_tokens\": 4, \"prompt_lookup_max\": 4}, by the model's own head for that, "
                 "{\"method\": \"mtp\", \"num_speculative_tokens\": 3}, or by a smaller model with the same tokenizer, "
                 "{\"method\": \"draft_model\", \"model\": \"DIR\", \"num_speculative_tokens\": 3}; it changes no answer",
                 .otherwise = "off", .elsewhere = "--draft-max"),
    OMMAI_FLAG("enable-prefix-caching", prefix_caching,
               "prefix caching: reuse keys and values of earlier prompts that begin alike", .initial = "on", .negatable = true),
    OMMAI_STRING("kv-events-config", kv_events, "JSON",
                 "publish changes of the prefix cache over ZeroMQ, for routers, such as {\"enable_kv_cache_events\": true, "
                 "\"endpoint\": \"tcp://*:5557\", \"replay_endpoint\": \"tcp://*:5558\", \"topic\": \"kv@pod@model\"}; whoever "
                 "connects can read the tokens of all prompts",
                 .otherwise = "off"),
    OMMAI_SIZE("encoder-cache-bytes", encoder_cache_bytes, "SIZE", 0, INT64_MAX,
               "size of the encoder cache: an image seen before is not encoded again; 0: no cache", .otherwise = "512 MiB"),
    OMMAI_STRING("encoder-cache-url", encoder_cache_url, "URL",
                 "Redis or Valkey where replicas share encoded images: redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE] or "
                 "unix://PATH, with ?ttl=SECONDS&timeout=MILLISECONDS",
                 .otherwise = "each replica encodes for itself"),
};

static const struct ommai_option media_table[] = {
    OMMAI_STRING("limit-mm-per-prompt", limit_mm_per_prompt, "JSON",
                 "maximum number of images and videos per prompt, such as {\"image\": 4, \"video\": 1}",
                 .otherwise = "64 of each"),
    OMMAI_STRING(
        "mm-processor-kwargs", mm_processor_kwargs, "JSON",
        "settings of the image processor, such as {\"max_pixels\": 1000000}; a request may ask for less, not for more"),
    OMMAI_NUMBER("mm-processor-cache-gb", processor_cache_gb, "GIB", 0, 1024,
                 "GiB of memory for resized images, so that a file seen before is neither decoded nor resized; 0: none",
                 .initial = "0.0625"),
};

const struct ommai_option_group ommai_server_request_options =
    OMMAI_SERVER_GROUP("Requests and answers", ommai_server_request_settings);
const struct ommai_option_group ommai_server_media_options =
    OMMAI_SERVER_GROUP("Images and videos of requests", ommai_server_media_settings);
const struct ommai_option_group ommai_request_options = OMMAI_OPTION_GROUP("Requests and answers", request_table);
const struct ommai_option_group ommai_scheduler_options = OMMAI_OPTION_GROUP("Scheduler and caches", scheduler_table);
const struct ommai_option_group ommai_media_options = OMMAI_OPTION_GROUP("Images and videos of requests", media_table);
