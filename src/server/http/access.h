/* What is reported of a request when it is over: its access line, the counts by status in /metrics,
 * and its trace. */
#pragma once

#include <omma/omma.h>

struct MHD_Connection;
struct ommai_api_error;
struct ommai_http_call;

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

/* The head of a request is there. IO thread. */
void ommai_access_begin(struct ommai_http_call *call, struct MHD_Connection *mhd, const char *path, const char *method,
                        const char *version);

/* Seconds for fetching, reading and decoding its images; a worker. */
void ommai_access_set_decode(struct ommai_http_call *call, double seconds);

/* An answer to it is over; engine's thread. n_prompt_tokens: its own, 0 where another answer to the
 * same prompt counted them. */
void ommai_access_add(struct ommai_http_call *call, const struct omma_result *result, int64_t n_prompt_tokens);

/* The reply is out (`complete`), or the connection broke before: counts the request, and reports it
 * where nothing is to come. IO thread. */
void ommai_access_end(struct ommai_http_call *call, bool complete);

/* Reports what ommai_access_end has left to report, when the engine has let go of the
 * request; any thread. */
void ommai_access_release(struct ommai_http_call *call);

/* A line for a request that gets status 503. */
void ommai_access_log_refusal(struct ommai_http_call *call, const struct ommai_api_error *error);

/* "queue", "encode", "prefill" or "decode". */
const char *ommai_stage_name(enum omma_stage stage);

/* Engine's thread, at each piece of work on images and prompt: notes it for the trace, and writes a
 * line where they take long, every server->progress_log_ns. */
void ommai_access_log_progress(struct ommai_http_call *call, enum omma_stage stage, int64_t done, int64_t total,
                               int64_t n_images);

struct ommai_log_line;
struct ommai_server;
/* Ends a line and hands it to the server's log. */
void ommai_access_write_line(const struct ommai_server *server, struct ommai_log_line *line);
