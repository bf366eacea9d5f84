/* Sending by libcurl. The queue is a ring of records, the first `n_waiting` from `first` on; the
 * thread copies a batch out of it and sends that without the lock. */
#include "server/publish/trace_exporter.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "base/error.h"

#define RING_RECORDS 2048
#define BATCH_RECORDS 64
#define SECOND INT64_C(1000000000)
#define GATHER_NS SECOND /* how long a batch waits for more */
#define POST_MS 10000
#define MAX_TRIES 5
#define MIN_PAUSE_NS SECOND  /* after a failure, doubled with each that follows */
#define LAST_NS (2 * SECOND) /* for what waits at the end */
#define MAX_URL 2048
#define STANDARD_PATH "/v1/traces"

struct ommai_trace_exporter {
  struct omma_allocator allocator;
  struct ommai_trace_settings settings;
  CURL *easy;
  struct curl_slist *headers;
  struct ommai_trace_record *ring;  /* [RING_RECORDS] */
  struct ommai_trace_record *batch; /* [BATCH_RECORDS], the thread's */
  bool curl_started, has_thread, failing;
  pthread_t thread;

  pthread_mutex_t lock;
  pthread_cond_t changed;
  size_t first, n_waiting;
  int64_t n_sent, n_dropped; /* spans */
  bool stopping;
  int64_t last_ns; /* when stopping: of the monotonic clock, until when to send */
};

/* ---- the endpoint ---- */

/* The parsed URL, NULL where it is none. */
static CURLU *parse_endpoint(const char *endpoint, bool *has_path) {
  CURLU *url = curl_url();
  char *scheme = NULL, *path = NULL;
  bool good = url && curl_url_set(url, CURLUPART_URL, endpoint, 0) == CURLUE_OK &&
              curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
              curl_url_get(url, CURLUPART_PATH, &path, 0) == CURLUE_OK;
  good = good && (!strcmp(scheme, "http") || !strcmp(scheme, "https"));
  *has_path = good && strcmp(path, "/") != 0;
  curl_free(scheme);
  curl_free(path);
  if (good) return url;
  curl_url_cleanup(url);
  return NULL;
}

enum omma_status ommai_trace_endpoint_check(const char *endpoint, struct omma_error *error) {
  bool has_path;
  if (!endpoint) return OMMA_OK;
  CURLU *url = strlen(endpoint) <= MAX_URL ? parse_endpoint(endpoint, &has_path) : NULL;
  curl_url_cleanup(url);
  if (url) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "otlp_traces_endpoint",
                          "otlp_traces_endpoint: expected the http(s) URL of a collector that takes OTLP over HTTP (not gRPC), "
                          "such as http://127.0.0.1:4318/v1/traces, found %s",
                          endpoint);
}

/* ---- sending ---- */

static size_t drop_reply(char *bytes, size_t size, size_t count, void *context) {
  (void)bytes;
  (void)context;
  return size * count;
}

static bool is_time_over(struct ommai_trace_exporter *exporter) {
  pthread_mutex_lock(&exporter->lock);
  bool over = exporter->stopping && ommai_clock_ns() >= exporter->last_ns;
  pthread_mutex_unlock(&exporter->lock);
  return over;
}

static int look_around(void *context, curl_off_t total, curl_off_t done, curl_off_t up_total, curl_off_t up_done) {
  (void)total;
  (void)done;
  (void)up_total;
  (void)up_done;
  return is_time_over(context);
}

static enum omma_status set_up(struct ommai_trace_exporter *exporter, struct omma_error *error) {
  bool has_path;
  CURLU *url = parse_endpoint(exporter->settings.endpoint, &has_path);
  exporter->easy = curl_easy_init();
  exporter->headers = curl_slist_append(NULL, "Content-Type: application/json");
  CURL *easy = exporter->easy;
  bool good = url && easy && exporter->headers;
  if (good && !has_path) good = curl_url_set(url, CURLUPART_PATH, STANDARD_PATH, 0) == CURLUE_OK;
  char *text = NULL;
  /* a copy: the parsed URL would have to live as long as the handle */
  good = good && curl_url_get(url, CURLUPART_URL, &text, 0) == CURLUE_OK;
  if (good) {
    curl_easy_setopt(easy, CURLOPT_URL, text);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "omma/" OMMA_VERSION);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, exporter->headers);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)POST_MS);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, drop_reply);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, look_around);
    curl_easy_setopt(easy, CURLOPT_XFERINFODATA, exporter);
  }
  curl_free(text);
  curl_url_cleanup(url);
  return good ? OMMA_OK : ommai_fail_memory(error, "traces", 0);
}

/* One line when it begins to fail, one when it goes on. */
static void note(struct ommai_trace_exporter *exporter, bool failed, const char *what) {
  const struct ommai_log *log = &exporter->settings.log;
  struct ommai_log_line line;
  if (failed == exporter->failing) return;
  exporter->failing = failed;
  if (!log->put) return;
  ommai_log_line_begin(&line, &exporter->allocator, log->json, failed ? "error" : "info", "traces");
  ommai_log_line_string(&line, "state", what);
  ommai_log_line_string(&line, "then", failed ? "traces are dropped until the collector takes them" : "traces are sent again");
  ommai_log_line_send(&line, log);
}

enum outcome { TAKEN, REFUSED, TRY_AGAIN };

/* OTLP names the states after which a client may try again. */
static enum outcome outcome_of(long status) {
  if (status >= 200 && status < 300) return TAKEN;
  return status == 429 || (status >= 502 && status <= 504) ? TRY_AGAIN : REFUSED;
}

static enum outcome post(struct ommai_trace_exporter *exporter, const struct ommai_text *body) {
  char what[64];
  long status = 0;
  curl_easy_setopt(exporter->easy, CURLOPT_POSTFIELDS, body->data);
  curl_easy_setopt(exporter->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->size);
  CURLcode code = curl_easy_perform(exporter->easy);
  if (code != CURLE_OK) {
    note(exporter, true, curl_easy_strerror(code));
    return TRY_AGAIN;
  }
  curl_easy_getinfo(exporter->easy, CURLINFO_RESPONSE_CODE, &status);
  enum outcome outcome = outcome_of(status);
  snprintf(what, sizeof what, "the collector answers %ld", status);
  note(exporter, outcome != TAKEN, what);
  return outcome;
}

/* False when the time for sending is over. */
static bool pause_for(struct ommai_trace_exporter *exporter, int64_t ns) {
  int64_t end_ns = ommai_clock_ns() + ns;
  const struct timespec end = ommai_clock_timespec(end_ns);
  pthread_mutex_lock(&exporter->lock);
  while (!exporter->stopping && pthread_cond_timedwait(&exporter->changed, &exporter->lock, &end) == 0) continue;
  bool stopping = exporter->stopping;
  pthread_mutex_unlock(&exporter->lock);
  return !stopping;
}

static bool send_batch(struct ommai_trace_exporter *exporter, size_t n) {
  enum outcome outcome = REFUSED;
  struct ommai_text body = ommai_text_of(&exporter->allocator);
  ommai_trace_write(exporter->batch, n, exporter->settings.service, &body);
  for (int i = 0; !body.failed; i++) {
    outcome = post(exporter, &body);
    if (outcome != TRY_AGAIN || i + 1 == MAX_TRIES || !pause_for(exporter, MIN_PAUSE_NS << i)) break;
  }
  ommai_text_free(&body);
  return outcome == TAKEN;
}

/* ---- the thread ---- */

/* Under the lock. */
static int64_t spans_of(const struct ommai_trace_record *records, size_t n) {
  int64_t spans = 0;
  for (size_t i = 0; i < n; i++) spans += ommai_trace_n_spans(&records[i]);
  return spans;
}

/* Waits for records, and a while for more of them; 0 at the end. */
static size_t take_batch(struct ommai_trace_exporter *exporter) {
  size_t n = 0;
  pthread_mutex_lock(&exporter->lock);
  while (!exporter->n_waiting && !exporter->stopping) pthread_cond_wait(&exporter->changed, &exporter->lock);
  int64_t end_ns = ommai_clock_ns() + GATHER_NS;
  const struct timespec end = ommai_clock_timespec(end_ns);
  while (exporter->n_waiting < BATCH_RECORDS && !exporter->stopping) {
    if (pthread_cond_timedwait(&exporter->changed, &exporter->lock, &end)) break;
  }
  for (; n < BATCH_RECORDS && exporter->n_waiting; n++) {
    exporter->batch[n] = exporter->ring[exporter->first];
    exporter->first = (exporter->first + 1) % RING_RECORDS;
    exporter->n_waiting--;
  }
  pthread_mutex_unlock(&exporter->lock);
  return n;
}

static void *exporter_main(void *argument) {
  struct ommai_trace_exporter *exporter = argument;
  pthread_setname_np(pthread_self(), "omma-traces");
  for (;;) {
    size_t n = take_batch(exporter);
    if (!n) return NULL;
    bool sent = !is_time_over(exporter) && send_batch(exporter, n);
    pthread_mutex_lock(&exporter->lock);
    *(sent ? &exporter->n_sent : &exporter->n_dropped) += spans_of(exporter->batch, n);
    pthread_mutex_unlock(&exporter->lock);
  }
}

/* ---- its life ---- */

static enum omma_status start(struct ommai_trace_exporter *exporter, struct omma_error *error) {
  exporter->ring = ommai_allocate(&exporter->allocator, RING_RECORDS, sizeof *exporter->ring);
  exporter->batch = ommai_allocate(&exporter->allocator, BATCH_RECORDS, sizeof *exporter->batch);
  if (!exporter->ring || !exporter->batch) return ommai_fail_memory(error, "traces", RING_RECORDS * sizeof *exporter->ring);
  exporter->curl_started = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  if (!exporter->curl_started) return ommai_fail(error, OMMA_ERROR_INTERNAL, "libcurl does not start");
  OMMAI_TRY(set_up(exporter, error));
  exporter->has_thread = pthread_create(&exporter->thread, NULL, exporter_main, exporter) == 0;
  return exporter->has_thread ? OMMA_OK : ommai_fail(error, OMMA_ERROR_INTERNAL, "traces: cannot start their thread");
}

enum omma_status ommai_trace_exporter_create(const struct ommai_trace_settings *settings,
                                             const struct omma_allocator *allocator, struct ommai_trace_exporter **out,
                                             struct omma_error *error) {
  *out = NULL;
  if (!settings->endpoint) return OMMA_OK;
  OMMAI_TRY(ommai_trace_endpoint_check(settings->endpoint, error));
  struct ommai_trace_exporter *exporter = ommai_allocate(allocator, 1, sizeof *exporter);
  if (!exporter) return ommai_fail_memory(error, "traces", sizeof *exporter);
  exporter->allocator = *allocator;
  exporter->settings = *settings;
  pthread_mutex_init(&exporter->lock, NULL);
  ommai_clock_condition_init(&exporter->changed);
  enum omma_status status = start(exporter, error);
  if (status != OMMA_OK) {
    ommai_trace_exporter_destroy(exporter);
    return status;
  }
  *out = exporter;
  return OMMA_OK;
}

void ommai_trace_exporter_destroy(struct ommai_trace_exporter *exporter) {
  if (!exporter) return;
  struct omma_allocator allocator = exporter->allocator;
  pthread_mutex_lock(&exporter->lock);
  exporter->stopping = true;
  exporter->last_ns = ommai_clock_ns() + LAST_NS;
  pthread_cond_signal(&exporter->changed);
  pthread_mutex_unlock(&exporter->lock);
  if (exporter->has_thread) pthread_join(exporter->thread, NULL);
  curl_easy_cleanup(exporter->easy);
  curl_slist_free_all(exporter->headers);
  if (exporter->curl_started) curl_global_cleanup();
  ommai_release(&allocator, exporter->ring, RING_RECORDS, sizeof *exporter->ring);
  ommai_release(&allocator, exporter->batch, BATCH_RECORDS, sizeof *exporter->batch);
  pthread_cond_destroy(&exporter->changed);
  pthread_mutex_destroy(&exporter->lock);
  ommai_release(&allocator, exporter, 1, sizeof *exporter);
}

void ommai_trace_exporter_put(struct ommai_trace_exporter *exporter, const struct ommai_trace_record *record) {
  pthread_mutex_lock(&exporter->lock);
  if (exporter->n_waiting < RING_RECORDS) {
    exporter->ring[(exporter->first + exporter->n_waiting++) % RING_RECORDS] = *record;
    pthread_cond_signal(&exporter->changed);
  } else {
    exporter->n_dropped += ommai_trace_n_spans(record);
  }
  pthread_mutex_unlock(&exporter->lock);
}

void ommai_trace_exporter_counts(struct ommai_trace_exporter *exporter, int64_t *n_sent, int64_t *n_dropped) {
  *n_sent = *n_dropped = 0;
  if (!exporter) return;
  pthread_mutex_lock(&exporter->lock);
  *n_sent = exporter->n_sent;
  *n_dropped = exporter->n_dropped;
  pthread_mutex_unlock(&exporter->lock);
}
