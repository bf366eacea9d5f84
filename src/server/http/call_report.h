/* What the log, the traces and the counts by status get of one request; http_call.h has it in its
 * call, access.h and call_trace.h fill it. */
#pragma once

#include <omma/omma.h>

#include "server/publish/trace_body.h"

struct ommai_api_error;
struct ommai_server;

#define OMMAI_ACCESS_CLOSED 499 /* the client left before its reply, as nginx writes it */

/* Beginnings, as the client sent them: to be escaped where they are shown. */
struct ommai_access {
  char client[64], method[16], path[256], version[16];
  /* Under the call's lock, over all answers to the request. */
  bool ran; /* the engine has reported it */
  int64_t n_prompt_tokens, n_cached_tokens, n_completion_tokens;
  struct omma_timings timings;
  double decode_image;
  /* Of the end. */
  int status; /* 0: not over */
  bool aborted;
  const char *cause; /* what cut it off, a constant word; NULL: nothing so far */
  double seconds;
  /* What was logged of its work so far; engine's thread. */
  enum omma_stage logged_stage;
  int64_t logged_ns;
};

struct ommai_call_trace {
  /* Set by the IO thread before others see the call. */
  bool wanted;
  /* Under the call's lock. Of the record, what the request asks for and where it belongs. Times are
   * nanoseconds of the monotonic clock, 0 where there is none. */
  struct ommai_trace_record record;
  int64_t images_decoded_ns, submitted_ns, encoded_ns, prefill_ns, first_token_ns, finished_ns;
  double encode; /* seconds */
};

/* Of a call that is over, and that the engine has let go of. */
struct ommai_call_report {
  const struct ommai_server *server;
  const char *request_id;
  int64_t created_ns;
  const struct ommai_access *access;
  const struct ommai_call_trace *trace;
};

/* Writes its access line, and hands its trace to the exporter; any thread. */
void ommai_call_report_write(const struct ommai_call_report *report);

/* A line for a request that gets status 503. */
void ommai_call_report_refusal(const struct ommai_server *server, const char *request_id, const struct ommai_api_error *error);
