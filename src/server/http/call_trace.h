/* What a trace has of a call (--otlp-traces-endpoint). */
#pragma once

#include "server/http/http_call.h"

/* The head is there: whether the call is traced, and where it belongs. IO thread. */
void ommai_call_trace_begin(struct ommai_http_call *call, struct MHD_Connection *mhd);

/* The request was understood. model: the server's name for it, of which a trace has no directory.
 * sampling: NULL where nothing is drawn. */
void ommai_call_trace_request(struct ommai_http_call *call, const char *model, const struct omma_sampling *sampling, int64_t n,
                              int64_t n_images);

/* Its images are decoded. */
void ommai_call_trace_images(struct ommai_http_call *call);

/* Work of the engine on the first of its answers; engine's thread. */
void ommai_call_trace_progress(struct ommai_http_call *call, enum omma_stage stage);
/* An answer's first token, at now_ns; engine's thread. */
void ommai_call_trace_token(struct ommai_http_call *call, int64_t now_ns);
/* An answer is over; engine's thread. */
void ommai_call_trace_finish(struct ommai_http_call *call, const struct omma_timings *timings);
