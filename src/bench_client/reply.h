/* One request's outcome: a streamed reply, timed event by event. */
#pragma once

#include <omma/host.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench_client/event_stream.h"

/* A third of it may be filled: what is not UTF-8 becomes U+FFFD, three bytes for one. */
#define OMMAI_REPLY_ERROR_SIZE 768

/* Times are seconds. Definitions (those of vLLM's benchmark): a token event is an event with a
 * non-empty list `choices`. ttft runs from the sending to the first token event, `itls` are the
 * gaps between one token event and the next, latency runs from the sending to the last token
 * event. A reply is a success when it has status 200, was read to its end without fault and has a
 * token event; one difference: an event that reports an error makes it a failure here. */
struct ommai_reply {
  const struct omma_allocator *allocator;
  bool chat; /* the text is in choices[0].delta.content, else in choices[0].text */
  bool success;
  double start_time; /* on the monotonic clock */
  double queue_time; /* waited here for a free place before it was sent */
  double ttft, latency;
  double last_time; /* of the last token event, on the monotonic clock */
  /* when the request was over, with or without success, on the monotonic clock; 0: it is not */
  double end_time;
  double *itls; /* [n_itls] */
  size_t n_itls, itls_capacity;
  bool started;          /* a token event has come */
  int64_t output_tokens; /* as the server counted them; -1: not given */
  int64_t prompt_len;    /* as the server counted, else as counted before sending */
  char *text;            /* [text_size], what was generated */
  size_t text_size, text_capacity;
  char error[OMMAI_REPLY_ERROR_SIZE]; /* why it failed; empty for a success */
  int64_t *token_counter;             /* counts token events of all replies; may be NULL */
  struct ommai_event_stream events;
};

void ommai_reply_init(struct ommai_reply *reply, bool chat, int64_t prompt_len, const struct omma_allocator *allocator);
void ommai_reply_release(struct ommai_reply *reply);

/* Bytes of the body have come. False: the reply is beyond repair, `error` states why. */
bool ommai_reply_feed(struct ommai_reply *reply, const char *bytes, size_t size);

/* The body ended without fault: decides about success. */
void ommai_reply_end(struct ommai_reply *reply);

/* The request failed; the first reason counts. Control characters become blanks. */
void ommai_reply_fail(struct ommai_reply *reply, const char *format, ...) __attribute__((format(printf, 2, 3)));
