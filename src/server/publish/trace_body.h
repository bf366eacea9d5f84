/* What a trace has of a request, and its form as OTLP's JSON: the body of a POST to
 * /v1/traces. */
#pragma once

#include "base/text_buffer.h"
#include "server/publish/trace_context.h"

#define OMMAI_TRACE_MAX_STAGES 6
#define OMMAI_TRACE_REQUEST_ID_SIZE 129

/* A part of a request's time; nanoseconds of the monotonic clock. */
struct ommai_trace_stage {
  const char *name; /* constant */
  int64_t begin_ns, end_ns;
};

/* A request that is over. Strings behind pointers live as long as the server. */
struct ommai_trace_record {
  /* of its client, or of a trace of its own: then parent_id is 0 */
  struct ommai_trace_context context;
  int64_t begin_ns, end_ns; /* monotonic */
  int64_t wall_offset_ns;   /* of the calendar's clock against the monotonic one */
  const char *route;
  const char *model; /* NULL: it was refused before */
  char method[16], request_id[OMMAI_TRACE_REQUEST_ID_SIZE];
  int status;
  const char *cause; /* what cut it off; NULL: nothing */
  /* Of a request that draws answers. */
  bool draws;
  double temperature, top_p;
  int64_t max_tokens; /* 0: not limited by the request */
  int64_t n;
  int64_t n_images;
  /* Of one that the engine has run. */
  bool ran;
  int64_t n_prompt_tokens, n_cached_tokens, n_completion_tokens;
  double preprocess;      /* seconds for resizing its images */
  int64_t first_token_ns; /* since it began; 0: there was none */
  struct ommai_trace_stage stages[OMMAI_TRACE_MAX_STAGES];
  int n_stages;
};

/* Its spans: the request's and one for each stage. */
int64_t ommai_trace_n_spans(const struct ommai_trace_record *record);

/* The body for n records. service: the name of this program among those that the collector hears
 * of; NULL: none. Span ids are random. */
void ommai_trace_write(const struct ommai_trace_record *records, size_t n, const char *service, struct ommai_text *out);
