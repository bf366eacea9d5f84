/* What is noted of a request while it is served, for its access line and its trace. */
#pragma once

#include "server/http/http_call.h"

/* The head of a request is there. IO thread. */
void ommai_access_begin(struct ommai_http_call *call, struct MHD_Connection *mhd, const char *path, const char *method,
                        const char *version);

/* Seconds for fetching, reading and decoding its images; a worker. */
void ommai_access_set_decode(struct ommai_http_call *call, double seconds);

/* An answer to it is over: counts it; engine's thread. The tokens and images of a prompt are those
 * of its `first` answer. first_token: seconds until it came, 0: there is none. */
void ommai_access_add(struct ommai_http_call *call, const struct omma_result *result, bool first, double first_token);

/* The reply is out (`complete`), or the connection broke before: counts the request, and reports it
 * where nothing is to come. IO thread. */
void ommai_access_end(struct ommai_http_call *call, bool complete);

/* "queue", "encode", "prefill" or "decode". */
const char *ommai_stage_name(enum omma_stage stage);

/* Engine's thread, at each piece of work on images and prompt: notes it for the trace, and writes a
 * line where they take long, every server->config.settings.progress_log_ns. */
void ommai_access_log_progress(struct ommai_http_call *call, enum omma_stage stage, int64_t done, int64_t total,
                               int64_t n_images);
