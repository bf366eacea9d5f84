#include "bench_client/bench_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/clock.h"

#define COMPLAINT_SIZE 2048
/* What is shown of a body without a message. */
#define MAX_LINE_BYTES 120
#define ID_SIZE 160
/* How often progress is reported when nothing happens. */
#define TICK_SECONDS 0.1

struct run;

/* A request that is on its way. */
struct sent {
  struct run *run;
  struct ommai_reply *reply;
  size_t complaint_size;
  /* the beginning of a body that came with another status than 200 */
  char complaint[COMPLAINT_SIZE];
  char id[ID_SIZE];
};

struct run {
  const struct ommai_bench_batch *batch;
  struct ommai_http *http;
  const struct omma_allocator *allocator;
  struct ommai_reply *replies;
  struct omma_error *error;
  double start;
  size_t n_arrived, n_started;
  /* [n_requests]: when each was seen to be due; vLLM's client counts from there */
  double *arrivals;
  struct ommai_bench_progress progress;
};

static const struct ommai_sample *sample_of(const struct ommai_bench_batch *batch, size_t index) {
  return &batch->set->samples[batch->picks ? batch->picks[index] : 0];
}

static bool take_data(void *context, int status, const char *bytes, size_t size) {
  struct sent *sent = context;
  if (status == 200) return ommai_reply_feed(sent->reply, bytes, size);
  size_t room = COMPLAINT_SIZE - sent->complaint_size;
  if (size > room) size = room;
  memcpy(sent->complaint + sent->complaint_size, bytes, size);
  sent->complaint_size += size;
  return true;
}

/* The first line that is not empty, cut at a whole character; its size is returned. */
static size_t find_line(const char *bytes, size_t size, const char **line) {
  size_t n = 0;
  while (size > 0 && (unsigned char)*bytes <= ' ') {
    bytes++;
    size--;
  }
  while (n < size && bytes[n] != '\n' && bytes[n] != '\r') n++;
  if (n > MAX_LINE_BYTES) {
    n = MAX_LINE_BYTES;
    while (n > 0 && ((unsigned char)bytes[n] & 0xc0) == 0x80) n--;
  }
  *line = bytes;
  return n;
}

/* "HTTP 404 Not Found: The model does not exist" */
static void fail_by_status(const struct sent *sent, const struct ommai_http_end *end) {
  json_t *body = json_loadb(sent->complaint, sent->complaint_size, 0, NULL);
  const json_t *error = json_object_get(body, "error");
  const char *message = json_string_value(json_object_get(error ? error : body, "message"));
  if (!message) message = json_string_value(error);
  size_t size = message ? strlen(message) : find_line(sent->complaint, sent->complaint_size, &message);
  ommai_reply_fail(sent->reply, "HTTP %d %s%s%.*s", end->status, end->reason, size ? ": " : "", (int)size, message);
  json_decref(body);
}

static void count_end(struct run *run, const struct ommai_reply *reply) {
  run->progress.n_running--;
  run->progress.n_done++;
  run->progress.n_failed += !reply->success;
}

static void take_end(void *context, const struct ommai_http_end *end) {
  struct sent *sent = context;
  struct run *run = sent->run;
  if (end->failure) {
    ommai_reply_fail(sent->reply, "%s", end->failure);
  } else if (end->status != 200) {
    fail_by_status(sent, end);
  } else {
    ommai_reply_end(sent->reply);
  }
  sent->reply->end_time = ommai_clock_seconds();
  ommai_event_stream_release(&sent->reply->events);
  sent->reply->token_counter = NULL;
  count_end(run, sent->reply);
  ommai_release(run->allocator, sent, 1, sizeof *sent);
}

static enum omma_status start(struct run *run, size_t index) {
  const struct ommai_bench_batch *batch = run->batch;
  const struct ommai_sample *sample = sample_of(batch, index);
  struct sent *sent = ommai_allocate(run->allocator, 1, sizeof *sent);
  if (!sent) return ommai_fail_memory(run->error, "a request", sizeof *sent);
  sent->run = run;
  sent->reply = &run->replies[index];
  struct ommai_http_request request = {.url = batch->target.url,
                                       .headers = batch->target.headers,
                                       .body = sample->body,
                                       .body_size = sample->body_size,
                                       .timeout_seconds = batch->request_seconds,
                                       .on_data = take_data,
                                       .on_end = take_end,
                                       .context = sent};
  if (batch->id_prefix) {
    snprintf(sent->id, sizeof sent->id, "%s%zu", batch->id_prefix, index);
    request.request_id = sent->id;
  }
  double now = ommai_clock_seconds();
  sent->reply->token_counter = &run->progress.n_tokens;
  sent->reply->start_time = now;
  sent->reply->queue_time = now - run->arrivals[index];
  run->n_started++;
  run->progress.n_running++;
  enum omma_status status = ommai_http_send(run->http, &request, run->error);
  if (status != OMMA_OK) ommai_release(run->allocator, sent, 1, sizeof *sent);
  return status;
}

static double due(const struct run *run, size_t index) {
  return run->batch->delays ? run->start + run->batch->delays[index] : run->start;
}

/* Notes who has come by now and sends as many as may be on their way at once. */
static enum omma_status start_due(struct run *run) {
  const struct ommai_bench_batch *batch = run->batch;
  double now = ommai_clock_seconds();
  while (run->n_arrived < batch->n_requests && due(run, run->n_arrived) <= now) run->arrivals[run->n_arrived++] = now;
  while (run->n_started < run->n_arrived && (!batch->max_parallel || run->progress.n_running < batch->max_parallel)) {
    OMMAI_TRY(start(run, run->n_started));
  }
  return OMMA_OK;
}

static bool is_stopped(const struct run *run) { return run->batch->stopped && run->batch->stopped(run->batch->context); }

static void report_progress(struct run *run) {
  run->progress.seconds = ommai_clock_seconds() - run->start;
  if (run->batch->progress) run->batch->progress(run->batch->context, &run->progress);
}

static enum omma_status work(struct run *run) {
  const struct ommai_bench_batch *batch = run->batch;
  while (run->progress.n_done < batch->n_requests && !is_stopped(run)) {
    OMMAI_TRY(start_due(run));
    double until = ommai_clock_seconds() + TICK_SECONDS;
    if (run->n_arrived < batch->n_requests) until = fmin(until, due(run, run->n_arrived));
    OMMAI_TRY(ommai_http_wait(run->http, until, batch->wake, run->error));
    report_progress(run);
  }
  return OMMA_OK;
}

/* After an interruption: what was not sent gets a result, too. */
static void give_up(struct run *run) {
  ommai_http_cancel(run->http, "interrupted");
  for (size_t i = run->n_started; i < run->batch->n_requests; i++) {
    ommai_reply_fail(&run->replies[i], "interrupted before it was sent");
  }
}

enum omma_status ommai_bench_run(struct ommai_http *http, const struct ommai_bench_batch *batch,
                                 const struct omma_allocator *allocator, struct ommai_reply *replies, double *seconds,
                                 struct omma_error *error) {
  struct run run = {.batch = batch, .http = http, .allocator = allocator, .replies = replies, .error = error};
  size_t n = batch->n_requests;
  for (size_t i = 0; i < n; i++) {
    ommai_reply_init(&replies[i], batch->target.chat, sample_of(batch, i)->prompt_len, allocator);
  }
  run.arrivals = ommai_allocate(allocator, n, sizeof *run.arrivals);
  if (!run.arrivals) return ommai_fail_memory(error, "the times of requests", n * sizeof *run.arrivals);
  run.progress.n_requests = n;
  run.start = ommai_clock_seconds();
  enum omma_status status = work(&run);
  *seconds = ommai_clock_seconds() - run.start;
  if (run.progress.n_done < n) give_up(&run);
  ommai_release(allocator, run.arrivals, n, sizeof *run.arrivals);
  return status;
}
