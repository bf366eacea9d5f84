/* What is reported of a request when it is understood: the lines of --enable-log-requests, and its
 * settings in its trace. */
#pragma once

#include "server/api/answer_fields.h"
#include "server/http/http_call.h"

/* Of a request that will be answered, where lines or traces are asked for: its settings, never its
 * texts and images. */
void ommai_request_log(struct ommai_http_call *call, const struct ommai_answer_fields *fields, int64_t n_images);
/* The same for vectors and scores. */
void ommai_request_log_inputs(struct ommai_http_call *call, const char *model, size_t n_inputs);
