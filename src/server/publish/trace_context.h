/* Where a request belongs in a trace that its client began: the header traceparent of W3C's Trace
 * Context, level 1. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define OMMAI_TRACE_ID_BYTES 16
#define OMMAI_SPAN_ID_BYTES 8

struct ommai_trace_context {
  uint8_t trace_id[OMMAI_TRACE_ID_BYTES], parent_id[OMMAI_SPAN_ID_BYTES];
  bool sampled; /* the client records its trace */
};

/* Reads VERSION-TRACE-PARENT-FLAGS. False where it is not as the standard has it: lower-case
 * hexadecimal digits, neither id 0, nothing after version 00. `text` may hold anything. */
bool ommai_trace_context_parse(const char *text, struct ommai_trace_context *context);
