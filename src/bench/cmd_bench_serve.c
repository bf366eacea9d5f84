/* omma bench serve: loads a server with requests and reports how fast it answers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/plural.h"
#include "bench/bench_serve.h"
#include "bench_client/server_queries.h"
#include "cli/core/commands.h"
#include "cli/core/diagnostics.h"
#include "cli/core/format.h"
#include "cli/core/interrupt.h"
#include "cli/core/json_out.h"
#include "cli/core/paths.h"
#include "cli/core/progress.h"

#define RETRY_SECONDS 5.0
/* With less than this left the server is not asked once more whether it is ready. */
#define MIN_PROBE_SECONDS 0.5
#define DEFAULT_PARALLEL 1024
#define MAX_REASONS 10

/* What one run of the command owns. */
struct bench {
  const struct ommai_bench_serve_values *values;
  struct ommai_bench_serve_settings settings;
  const struct omma_allocator *allocator;
  struct ommai_http *http;
  char *model, *name;       /* as reported, and as in requests */
  const char *tokenizer_id; /* as reported; NULL: none is used */
  struct ommai_tokenizer *tokenizer;
  struct ommai_data_set set;
  char id_prefix[128];
  double *delays;              /* [n] */
  struct ommai_reply *replies; /* [n] */
  size_t n;
  bool has_replies;
  struct ommai_metrics metrics;
  struct ommai_accuracy accuracy;
  struct ommai_progress progress;
};

static int out_of_memory(const char *what) { return ommai_failed("bench serve: out of memory: %s", what); }

static int open_client(struct bench *bench) {
  const struct ommai_bench_serve_values *values = bench->values;
  int64_t parallel = values->n_prompts ? values->n_prompts : DEFAULT_PARALLEL;
  if (values->max_parallel && values->max_parallel < parallel) parallel = values->max_parallel;
  struct ommai_http_options options = {
      .insecure = values->insecure, .timeout_seconds = (double)values->timeout, .n_parallel = (size_t)parallel};
  struct omma_error error;
  if (ommai_http_create(&options, bench->allocator, &bench->http, &error) != OMMA_OK) return ommai_failed_call(&error);
  return OMMAI_EXIT_DONE;
}

/* --model and --served-model-name, else what the server lists first. */
static int find_model(struct bench *bench) {
  const struct ommai_bench_serve_values *values = bench->values;
  const char *name = values->served_model_name ? values->served_model_name : values->model, *model = values->model;
  json_t *first = NULL;
  if (!model) {
    struct omma_error error;
    if (ommai_query_first_model(bench->http, bench->settings.base_url, bench->settings.headers, bench->allocator, &first,
                                &error) != OMMA_OK) {
      return ommai_failed_call(&error);
    }
    const char *id = json_string_value(json_object_get(first, "id")), *root = json_string_value(json_object_get(first, "root"));
    if (!name) name = id;
    model = root ? root : id;
  }
  bench->model = ommai_duplicate(bench->allocator, model, strlen(model));
  bench->name = ommai_duplicate(bench->allocator, name, strlen(name));
  json_decref(first);
  return bench->model && bench->name ? OMMAI_EXIT_DONE : out_of_memory("the model's name");
}

static bool has_file(const char *directory, const char *name) {
  char path[OMMAI_MAX_PATH];
  return ommai_path_join(path, sizeof path, directory, name) && ommai_file_exists(path);
}

/* Random prompts cannot be made without a tokenizer, and conversations not chosen by length; other
 * data can be sent without, and is then counted by the server. */
static int open_tokenizer(struct bench *bench) {
  const struct ommai_bench_serve_values *values = bench->values;
  const char *directory = values->tokenizer ? values->tokenizer : bench->model;
  struct omma_error error;
  enum ommai_data_kind kind = bench->settings.data.kind;
  bool needed = values->tokenizer || kind == OMMAI_DATA_RANDOM || kind == OMMAI_DATA_RANDOM_MM || kind == OMMAI_DATA_SHAREGPT;
  if (values->skip_tokenizer) return OMMAI_EXIT_DONE;
  bool found = has_file(directory, "tokenizer.json") || has_file(directory, "tiktoken.model");
  if (!found && needed) {
    return ommai_failed(
        "bench serve: %s: no tokenizer.json or tiktoken.model there, and nothing is downloaded: give a directory with "
        "--tokenizer DIR",
        directory);
  }
  if (!found) return OMMAI_EXIT_DONE;
  if (ommai_tokenizer_load(directory, bench->allocator, &bench->tokenizer, &error) != OMMA_OK) return ommai_failed_call(&error);
  bench->tokenizer_id = directory;
  return OMMAI_EXIT_DONE;
}

static void note_waiting(const char *url) { ommai_note("waiting for %s, %d s at most", url, OMMAI_FETCH_SECONDS); }

static int make_requests(struct bench *bench) {
  struct ommai_body_fields fields = {.chat = bench->settings.chat,
                                     .model = bench->name,
                                     .ignore_eos = bench->settings.ignore_eos,
                                     .logprobs = ommai_integer_or(bench->values->logprobs, -1),
                                     .extra = bench->settings.extra};
  struct ommai_server_tokenizer server = {.http = bench->http,
                                          .base_url = bench->settings.base_url,
                                          .model = bench->name,
                                          .headers = bench->settings.headers,
                                          .allocator = bench->allocator,
                                          .on_slow = note_waiting};
  struct omma_error error;
  bench->settings.data.tokenizer = bench->tokenizer;
  if (bench->settings.data.kind == OMMAI_DATA_RANDOM) bench->settings.data.server_tokenizer = &server;
  if (!bench->values->no_progress) bench->settings.data.progress = ommai_progress_update;
  bench->settings.data.progress_context = &bench->progress;
  ommai_progress_begin(&bench->progress, "making requests");
  enum omma_status status = ommai_data_set_make(&bench->settings.data, &fields, bench->allocator, &bench->set, &error);
  ommai_progress_end(&bench->progress);
  bench->settings.data.server_tokenizer = NULL;
  if (status != OMMA_OK) return ommai_failed_call(&error);
  if (server.agreement == OMMAI_AGREEMENT_MISSING) {
    ommai_warn("the server counts %zu tokens where the tokenizer here counts %zu: prompts were cut to length with its help",
               server.n_found, server.n_expected);
  }
  bench->n = bench->set.n_picks;
  bench->delays = ommai_allocate(bench->allocator, bench->n, sizeof *bench->delays);
  bench->replies = ommai_allocate(bench->allocator, bench->n, sizeof *bench->replies);
  if (!bench->delays || !bench->replies) return out_of_memory("replies");
  ommai_arrivals_delays(&bench->settings.arrivals, bench->delays, bench->n);
  uint32_t drawn = 0;
  if (getrandom(&drawn, sizeof drawn, 0) < 0) drawn = (uint32_t)ommai_clock_ns();
  if (bench->values->request_id_prefix) {
    snprintf(bench->id_prefix, sizeof bench->id_prefix, "%s", bench->values->request_id_prefix);
  } else {
    snprintf(bench->id_prefix, sizeof bench->id_prefix, "bench-%08x-", (unsigned)drawn);
  }
  return OMMAI_EXIT_DONE;
}

static void show_progress(void *context, const struct ommai_bench_progress *progress) {
  struct bench *bench = context;
  double seconds = progress->seconds > 0 ? progress->seconds : 1;
  snprintf(bench->progress.details, sizeof bench->progress.details, "%zu running, %zu failed, %.2f req/s, %.1f tok/s",
           progress->n_running, progress->n_failed, (double)progress->n_done / seconds, (double)progress->n_tokens / seconds);
  ommai_progress_update(&bench->progress, (int64_t)progress->n_done, (int64_t)progress->n_requests);
}

static bool was_interrupted(void *context) {
  (void)context;
  return ommai_interrupted();
}

static struct ommai_bench_batch make_batch(struct bench *bench, size_t n) {
  return (struct ommai_bench_batch){
      .target = {.url = bench->settings.url, .headers = bench->settings.headers, .chat = bench->settings.chat},
      .set = &bench->set,
      .n_requests = n,
      .max_parallel = (size_t)bench->values->max_parallel,
      .wake = ommai_interrupt_descriptor(),
      .stopped = was_interrupted,
      .progress = bench->values->no_progress ? NULL : show_progress,
      .context = bench};
}

/* Runs a batch under a line of progress. */
static int run_batch(struct bench *bench, const struct ommai_bench_batch *batch, const char *stage, struct ommai_reply *replies,
                     double *seconds) {
  struct omma_error error;
  ommai_progress_begin(&bench->progress, stage);
  enum omma_status status = ommai_bench_run(bench->http, batch, bench->allocator, replies, seconds, &error);
  ommai_progress_end(&bench->progress);
  return status == OMMA_OK ? OMMAI_EXIT_DONE : ommai_failed_call(&error);
}

/* One request that is not measured and ends by `until`, when time is up; *ready is whether it
 * succeeded. */
static int try_server(struct bench *bench, double until, bool *ready) {
  struct ommai_reply reply;
  struct ommai_bench_batch batch = make_batch(bench, 1);
  double seconds;
  batch.request_seconds = fmin(fmax(until - ommai_clock_seconds(), 1e-3), (double)bench->values->timeout);
  int code = run_batch(bench, &batch, "waiting for the server", &reply, &seconds);
  *ready = reply.success;
  if (code == OMMAI_EXIT_DONE && !reply.success && !ommai_interrupted()) {
    if (until - ommai_clock_seconds() < MIN_PROBE_SECONDS) {
      code = ommai_failed("bench serve: the server was not ready after %lld s: %s", (long long)bench->values->ready_timeout,
                          reply.error);
    } else {
      ommai_note("the server is not ready: %s", reply.error);
    }
  }
  ommai_reply_release(&reply);
  return code;
}

static int sleep_until(const struct bench *bench, double end) {
  struct omma_error error;
  while (ommai_clock_seconds() < end && !ommai_interrupted()) {
    if (ommai_http_wait(bench->http, end, ommai_interrupt_descriptor(), &error) != OMMA_OK) return ommai_failed_call(&error);
  }
  return OMMAI_EXIT_DONE;
}

/* Sends the first request until it succeeds or time is up. */
static int check_ready(struct bench *bench) {
  if (bench->values->ready_timeout == 0) return OMMAI_EXIT_DONE;
  double until = ommai_clock_seconds() + (double)bench->values->ready_timeout;
  while (!ommai_interrupted()) {
    bool ready;
    int code = try_server(bench, until, &ready);
    if (ready || code != OMMAI_EXIT_DONE) return code;
    double now = ommai_clock_seconds();
    OMMAI_TRY_CODE(sleep_until(bench, now + fmin(RETRY_SECONDS, (until - now) / 2)));
  }
  return ommai_failed("bench serve: interrupted before the server was ready");
}

static int warm_up(struct bench *bench) {
  size_t n = (size_t)bench->values->n_warmups;
  if (n == 0) return OMMAI_EXIT_DONE;
  struct ommai_reply *replies = ommai_allocate(bench->allocator, n, sizeof *replies);
  if (!replies) return out_of_memory("replies");
  struct ommai_bench_batch batch = make_batch(bench, n);
  double seconds;
  int code = run_batch(bench, &batch, "warming up", replies, &seconds);
  size_t n_failed = 0;
  for (size_t i = 0; i < n; i++) {
    n_failed += !replies[i].success;
    if (!replies[i].success && n_failed == 1) ommai_warn("a warm-up request failed: %s", replies[i].error);
    ommai_reply_release(&replies[i]);
  }
  ommai_release(bench->allocator, replies, n, sizeof *replies);
  return code;
}

/* The measured run. */
static int measure(struct bench *bench) {
  struct ommai_bench_batch batch = make_batch(bench, bench->n);
  double seconds;
  batch.picks = bench->set.picks;
  batch.delays = bench->delays;
  batch.id_prefix = bench->id_prefix;
  bench->has_replies = true;
  OMMAI_TRY_CODE(run_batch(bench, &batch, "requests", bench->replies, &seconds));
  struct ommai_metrics_settings settings = {.percentiles = bench->settings.percentiles,
                                            .n_percentiles = bench->settings.n_percentiles,
                                            .tokenizer = bench->tokenizer};
  memcpy(settings.goodput, bench->settings.goodput, sizeof settings.goodput);
  struct omma_error error;
  if (ommai_metrics_compute(&settings, bench->replies, bench->n, seconds, bench->allocator, &bench->metrics, &error) !=
      OMMA_OK) {
    return ommai_failed_call(&error);
  }
  for (size_t i = 0; i < bench->n; i++) {
    const json_t *answers = bench->set.samples[bench->set.picks[i]].answers;
    const struct ommai_reply *reply = &bench->replies[i];
    if (!answers || !reply->success) continue;
    if (ommai_accuracy_add(&bench->accuracy, reply->text ? reply->text : "", reply->text_size, answers, bench->allocator,
                           &error) != OMMA_OK) {
      return ommai_failed_call(&error);
    }
  }
  return OMMAI_EXIT_DONE;
}

static bool same_reason(const struct bench *bench, size_t i, size_t k) {
  return strcmp(bench->replies[i].error, bench->replies[k].error) == 0;
}

/* Every reason once, with how often it was; MAX_REASONS at most. */
static void report_failures(const struct bench *bench) {
  size_t n_reported = 0, n_left = bench->metrics.failed;
  for (size_t i = 0; i < bench->n && n_reported < MAX_REASONS; i++) {
    if (!bench->replies[i].error[0]) continue;
    size_t first = 0, n = 0;
    while (!same_reason(bench, first, i)) first++;
    if (first < i) continue;
    for (size_t k = i; k < bench->n; k++) n += same_reason(bench, k, i);
    ommai_note("%zu of %zu request%s failed: %s", n, bench->n, ommai_plural((int64_t)bench->n), bench->replies[i].error);
    n_reported++;
    n_left -= n;
  }
  if (n_left) ommai_note("%zu more for other reasons; --save-result --save-detailed keeps all of them", n_left);
  if (bench->metrics.completed == 0) ommai_note("no request to %s succeeded: there are no figures", bench->settings.url);
}

/* Figures of tokens that nobody counted are not what they seem. */
static void report_uncounted(const struct bench *bench) {
  size_t n = bench->metrics.uncounted;
  if (n == 0) return;
  ommai_warn(
      "%zu repl%s without a count of tokens: each counts as 1; give a directory with the model's tokenizer (--tokenizer DIR)",
      n, n == 1 ? "y" : "ies");
}

static struct ommai_bench_report make_report(const struct bench *bench) {
  const struct ommai_bench_serve_values *values = bench->values;
  const struct ommai_bench_serve_settings *settings = &bench->settings;
  struct ommai_bench_report report = {.backend = ommai_bench_serve_backends[values->backend],
                                      .label = values->label,
                                      .model = bench->model,
                                      .tokenizer = bench->tokenizer_id,
                                      .n_prompts = values->n_prompts,
                                      .metadata = values->metadata.items,
                                      .n_metadata = values->metadata.count,
                                      .arrivals = settings->arrivals,
                                      .max_parallel = values->max_parallel,
                                      .percentiles = settings->percentiles,
                                      .n_percentiles = settings->n_percentiles,
                                      .goodput = values->goodput.count > 0,
                                      .metrics = &bench->metrics,
                                      .replies = bench->replies,
                                      .accuracy = &bench->accuracy};
  memcpy(report.selected, settings->selected, sizeof report.selected);
  ommai_report_date(report.date);
  return report;
}

static int print_report(const struct bench *bench) {
  struct ommai_bench_report report = make_report(bench);
  int code = OMMAI_EXIT_DONE;
  report_failures(bench);
  report_uncounted(bench);
  if (bench->values->json) {
    code = ommai_json_print(ommai_report_json(&report, bench->values->detailed));
  } else if (bench->metrics.completed) {
    ommai_report_table(&report, stdout);
    code = ommai_finish_output();
  }
  int written = ommai_bench_serve_write_files(bench->values, &bench->settings, &report, bench->allocator);
  if (code == OMMAI_EXIT_DONE) code = written;
  return code == OMMAI_EXIT_DONE && bench->metrics.failed ? OMMAI_EXIT_FAILED : code;
}

static void release(struct bench *bench) {
  const struct omma_allocator *allocator = bench->allocator;
  for (size_t i = 0; bench->has_replies && i < bench->n; i++) ommai_reply_release(&bench->replies[i]);
  ommai_release(allocator, bench->replies, bench->n, sizeof *bench->replies);
  ommai_release(allocator, bench->delays, bench->n, sizeof *bench->delays);
  ommai_metrics_release(&bench->metrics);
  ommai_data_set_release(&bench->set);
  ommai_tokenizer_destroy(bench->tokenizer);
  if (bench->model) ommai_release(allocator, bench->model, strlen(bench->model) + 1, 1);
  if (bench->name) ommai_release(allocator, bench->name, strlen(bench->name) + 1, 1);
  ommai_http_destroy(bench->http);
  ommai_bench_serve_settings_release(&bench->settings);
}

static int run_bench_serve(const void *given, const struct ommai_strings *arguments) {
  struct bench bench = {.values = given, .allocator = &ommai_default_allocator, .set.allocator = &ommai_default_allocator};
  (void)arguments;
  int code = ommai_bench_serve_settings_make(bench.values, &bench.settings);
  if (code == OMMAI_EXIT_DONE) code = ommai_bench_serve_check_files(bench.values);
  if (code == OMMAI_EXIT_DONE) code = open_client(&bench);
  if (code == OMMAI_EXIT_DONE) code = find_model(&bench);
  if (code == OMMAI_EXIT_DONE) code = open_tokenizer(&bench);
  if (code == OMMAI_EXIT_DONE) code = make_requests(&bench);
  ommai_interrupt_defer();
  if (code == OMMAI_EXIT_DONE) code = check_ready(&bench);
  if (code == OMMAI_EXIT_DONE) code = warm_up(&bench);
  if (code == OMMAI_EXIT_DONE) code = measure(&bench);
  ommai_interrupt_resume();
  if (code == OMMAI_EXIT_DONE) code = print_report(&bench);
  if (ommai_interrupted()) code = ommai_interrupt_status();
  release(&bench);
  return code;
}

const struct ommai_command ommai_command_bench_serve = {
    .name = "bench serve",
    .summary = OMMAI_BENCH_SERVE_SUMMARY,
    .arguments = "[--backend openai-chat] [--model NAME] [--dataset-name NAME]",
    .details =
        "Sends requests to a server with OpenAI's API (this program's, vLLM's, llama.cpp's, ...) and reports throughput, time "
        "to first token, time per output token and the gaps between tokens. Options, definitions, table and JSON are those of "
        "`vllm bench serve`: the figures can be compared. Exit code 1 when a request failed, 130 after Ctrl-C.",
    .examples = {"omma bench serve --backend openai-chat --tokenizer models/demo --dataset-name random-mm --num-prompts 16",
                 "omma bench serve --backend openai-chat --tokenizer models/demo --request-rate 2 --num-prompts 100"},
    .groups = {&ommai_bench_serve_options[0], &ommai_bench_serve_options[1], &ommai_bench_serve_options[2],
               &ommai_bench_serve_options[3], &ommai_bench_serve_options[4], &ommai_bench_serve_options[5]},
    .ignored = ommai_bench_serve_ignored,
    .ignored_of = "vLLM",
    .values_size = sizeof(struct ommai_bench_serve_values),
    .run = run_bench_serve,
};
