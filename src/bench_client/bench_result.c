/* The result as JSON, and the name of its file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "bench_client/bench_report.h"

#define MAX_KEY 128

static const char *const ramp_names[] = {[OMMAI_RAMP_LINEAR] = "linear", [OMMAI_RAMP_EXPONENTIAL] = "exponential"};

void ommai_report_date(char out[OMMAI_DATE_SIZE]) {
  time_t now = time(NULL);
  struct tm local;
  localtime_r(&now, &local);
  strftime(out, OMMAI_DATE_SIZE, "%Y%m%d-%H%M%S", &local);
}

/* An object whose failures show in the end. */
struct builder {
  json_t *object;
  bool failed;
};

static void set(struct builder *builder, const char *key, json_t *value) {
  if (json_object_set_new(builder->object, key, value)) builder->failed = true;
}

/* JSON knows no infinity; clients of this format look for the word. */
static json_t *number(double value) { return isinf(value) ? json_string("inf") : json_real(value); }

/* Bytes from outside: what is not UTF-8 becomes an empty text. */
static json_t *text(const char *bytes, size_t size) {
  json_t *value = json_stringn(bytes ? bytes : "", size);
  return value ? value : json_string("");
}

static void set_metadata(struct builder *builder, const struct ommai_bench_report *report) {
  for (size_t i = 0; i < report->n_metadata; i++) {
    char key[MAX_KEY];
    const char *equals = strchr(report->metadata[i], '='), *value = equals + 1;
    size_t size = (size_t)(equals - report->metadata[i]);
    snprintf(key, sizeof key, "%.*s", (int)size, report->metadata[i]);
    set(builder, key, text(value, strlen(value)));
  }
}

static void set_setup(struct builder *builder, const struct ommai_bench_report *report) {
  const struct ommai_arrivals *arrivals = &report->arrivals;
  set(builder, "date", json_string(report->date));
  set(builder, "endpoint_type", json_string(report->backend));
  set(builder, "backend", json_string(report->backend));
  set(builder, "label", report->label ? text(report->label, strlen(report->label)) : json_null());
  set(builder, "model_id", text(report->model, strlen(report->model)));
  set(builder, "tokenizer_id", report->tokenizer ? text(report->tokenizer, strlen(report->tokenizer)) : json_null());
  set(builder, "num_prompts", json_integer(report->n_prompts));
  set_metadata(builder, report);
  set(builder, "request_rate", number(arrivals->rate));
  set(builder, "burstiness", number(arrivals->burstiness));
  set(builder, "max_concurrency", report->max_parallel ? json_integer(report->max_parallel) : json_null());
  if (arrivals->ramp == OMMAI_RAMP_NONE) return;
  set(builder, "ramp_up_strategy", json_string(ramp_names[arrivals->ramp]));
  set(builder, "ramp_up_start_rps", json_integer((json_int_t)arrivals->start_rate));
  set(builder, "ramp_up_end_rps", json_integer((json_int_t)arrivals->end_rate));
}

static void set_totals(struct builder *builder, const struct ommai_bench_report *report) {
  const struct ommai_metrics *metrics = report->metrics;
  double duration = metrics->duration, output = (double)metrics->total_output;
  set(builder, "duration", json_real(duration));
  set(builder, "completed", json_integer((json_int_t)metrics->completed));
  set(builder, "failed", json_integer((json_int_t)metrics->failed));
  set(builder, "total_input_tokens", json_integer(metrics->total_input));
  set(builder, "total_output_tokens", json_integer(metrics->total_output));
  set(builder, "request_throughput", json_real((double)metrics->completed / duration));
  set(builder, "request_goodput", report->goodput ? json_real((double)metrics->good / duration) : json_null());
  set(builder, "output_throughput", json_real(output / duration));
  set(builder, "total_token_throughput", json_real(((double)metrics->total_input + output) / duration));
}

static json_t *itls_of(const struct ommai_reply *reply) {
  json_t *list = json_array();
  for (size_t k = 0; k < reply->n_itls; k++) {
    if (json_array_append_new(list, json_real(reply->itls[k]))) return NULL;
  }
  return list;
}

/* Lists with one value per reply; some of them in each result. */
static void set_lists(struct builder *builder, const struct ommai_bench_report *report, bool detailed) {
  static const struct {
    const char *key;
    bool always;
  } lists[] = {{"input_lens", false}, {"output_lens", false},     {"ttfts", false},
               {"itls", false},       {"latencies", true},        {"start_times", false},
               {"queue_times", true}, {"generated_texts", false}, {"errors", false}};
  enum { N_LISTS = sizeof lists / sizeof *lists };
  json_t *made[N_LISTS];
  for (size_t k = 0; k < N_LISTS; k++) made[k] = json_array();
  for (size_t i = 0; i < report->metrics->n; i++) {
    const struct ommai_reply *reply = &report->replies[i];
    json_t *const values[N_LISTS] = {json_integer(reply->prompt_len),
                                     json_integer(report->metrics->output_lens[i]),
                                     json_real(reply->ttft),
                                     itls_of(reply),
                                     json_real(reply->latency),
                                     json_real(reply->start_time),
                                     json_real(reply->queue_time),
                                     text(reply->text, reply->text_size),
                                     text(reply->error, strlen(reply->error))};
    for (size_t k = 0; k < N_LISTS; k++) builder->failed |= json_array_append_new(made[k], values[k]) != 0;
  }
  for (size_t k = 0; k < N_LISTS; k++) {
    if (detailed || lists[k].always) set(builder, lists[k].key, json_incref(made[k]));
    json_decref(made[k]);
  }
}

/* The moments at which a rising rate passed integers. */
static void set_rate_changes(struct builder *builder, const struct ommai_bench_report *report) {
  const struct ommai_arrivals *arrivals = &report->arrivals;
  struct timespec wall, now;
  clock_gettime(CLOCK_REALTIME, &wall);
  clock_gettime(CLOCK_MONOTONIC, &now);
  double offset = (double)(wall.tv_sec - now.tv_sec) + (double)(wall.tv_nsec - now.tv_nsec) * 1e-9;
  json_t *events = json_array();
  int64_t last = (int64_t)arrivals->start_rate - 1;
  for (size_t i = 0; i < report->metrics->n; i++) {
    const struct ommai_reply *reply = &report->replies[i];
    double time = reply->start_time - reply->queue_time + offset;
    int64_t rate = (int64_t)ommai_arrivals_rate(arrivals, i, report->metrics->n);
    char stamp[40];
    time_t whole = (time_t)time;
    struct tm local;
    localtime_r(&whole, &local);
    size_t size = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &local);
    snprintf(stamp + size, sizeof stamp - size, ".%06d", (int)((time - (double)whole) * 1e6));
    for (; last < rate; last++) {
      json_t *event = json_pack("{s:I, s:s}", "rps", (json_int_t)last + 1, "timestamp", stamp);
      if (json_array_append_new(events, event)) builder->failed = true;
    }
  }
  set(builder, "rps_change_events", events);
}

static void set_metric(struct builder *builder, const struct ommai_bench_report *report, int metric) {
  const struct ommai_statistics *statistics = &report->metrics->statistics[metric];
  const char *name = ommai_metric_names[metric].key;
  char key[MAX_KEY], word[OMMAI_NUMBER_SIZE];
  snprintf(key, sizeof key, "mean_%s_ms", name);
  set(builder, key, json_real(statistics->mean * 1e3));
  snprintf(key, sizeof key, "median_%s_ms", name);
  set(builder, key, json_real(statistics->median * 1e3));
  snprintf(key, sizeof key, "std_%s_ms", name);
  set(builder, key, json_real(statistics->std * 1e3));
  for (size_t i = 0; i < report->n_percentiles; i++) {
    snprintf(key, sizeof key, "p%s_%s_ms", ommai_report_percentile(report->percentiles[i], word), name);
    set(builder, key, json_real(statistics->percentiles[i] * 1e3));
  }
}

json_t *ommai_report_json(const struct ommai_bench_report *report, bool detailed) {
  struct builder builder = {.object = json_object()};
  const struct ommai_accuracy *accuracy = report->accuracy;
  set_setup(&builder, report);
  set_totals(&builder, report);
  set_lists(&builder, report, detailed);
  set(&builder, "max_output_tokens_per_s", json_real(report->metrics->peak_output));
  set(&builder, "max_concurrent_requests", json_integer(report->metrics->peak_parallel));
  set(&builder, "rtfx", json_real(0));
  if (report->arrivals.ramp != OMMAI_RAMP_NONE) set_rate_changes(&builder, report);
  for (int metric = 0; metric < OMMAI_METRIC_COUNT; metric++) {
    if (ommai_report_shows(report, metric)) set_metric(&builder, report, metric);
  }
  if (accuracy->n) {
    double n = (double)accuracy->n;
    set(&builder, "accuracy",
        json_pack("{s:I, s:f, s:f}", "judged", (json_int_t)accuracy->n, "exact_match", accuracy->exact / n, "vqa_score",
                  accuracy->vqa / n));
  }
  if (!builder.failed) return builder.object;
  json_decref(builder.object);
  return NULL;
}

void ommai_report_file_name(const struct ommai_bench_report *report, char *out, size_t size) {
  const struct ommai_arrivals *arrivals = &report->arrivals;
  const char *model = ommai_path_name(report->model);
  const char *label = report->label ? report->label : report->backend;
  char parallel[40] = "", rate[OMMAI_NUMBER_SIZE];
  if (report->max_parallel) snprintf(parallel, sizeof parallel, "-concurrency%lld", (long long)report->max_parallel);
  if (arrivals->ramp != OMMAI_RAMP_NONE) {
    snprintf(out, size, "%s-ramp-up-%s-%.0fqps-%.0fqps%s-%s-%s.json", label, ramp_names[arrivals->ramp], arrivals->start_rate,
             arrivals->end_rate, parallel, model, report->date);
  } else {
    snprintf(out, size, "%s-%sqps%s-%s-%s.json", label, ommai_report_number(arrivals->rate, rate), parallel, model,
             report->date);
  }
}
