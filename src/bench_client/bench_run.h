/* One batch of requests: sent at their times, at most that many at once, each reply timed. */
#pragma once

#include "bench_client/data_set.h"
#include "bench_client/http_client.h"
#include "bench_client/reply.h"

/* Where requests go. */
struct ommai_bench_target {
  const char *url;
  const char *const *headers; /* "Name: value", ends in NULL */
  bool chat;
};

/* How far a batch is. `n_tokens` counts token events. */
struct ommai_bench_progress {
  size_t n_requests, n_done, n_failed, n_running;
  int64_t n_tokens;
  double seconds; /* since the batch began */
};

struct ommai_bench_batch {
  struct ommai_bench_target target;
  const struct ommai_data_set *set;
  const size_t *picks; /* [n_requests]: samples of the set; NULL: the first sample each time */
  size_t n_requests;
  /* [n_requests], rising: when each is sent, in seconds from the start; NULL: all at once */
  const double *delays;
  size_t max_parallel;    /* 0: no limit */
  double request_seconds; /* after which a request has failed; 0: the client's */
  const char *id_prefix;  /* request i carries the id PREFIXi; NULL: none */
  /* a descriptor: when it is readable, `stopped` is asked; -1: none */
  int wake;
  /* true: requests that run or wait are given up as failed; may be NULL */
  bool (*stopped)(void *context);
  /* called often; may be NULL */
  void (*progress)(void *context, const struct ommai_bench_progress *progress);
  void *context;
};

/* Runs the batch and waits for all of it. replies[n_requests] are initialised here and released by
 * the caller, also after a failure; *seconds is the time from the start to the last end. Requests
 * that fail are not errors of the call: their replies state why. Errors: those of the client. */
enum omma_status ommai_bench_run(struct ommai_http *http, const struct ommai_bench_batch *batch,
                                 const struct omma_allocator *allocator, struct ommai_reply *replies, double *seconds,
                                 struct omma_error *error);
