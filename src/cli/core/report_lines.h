/* What the library reports line by line (kernels, checks), gathered so that nothing is printed
 * before the end is known. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

/* A JSON array of {"ok", "what", "details"}; NULL after memory ran out. Release with
 * json_decref(list). */
struct ommai_report_lines {
  json_t *list;
  bool failed; /* a finding was not ok */
};

/* An omma_report callback: `context` is the struct ommai_report_lines. */
void ommai_report_lines_add(void *context, bool ok, const char *what, const char *details);

/* A line per finding; with `marks` each begins with "ok" or "FAILED". */
void ommai_report_lines_print(const struct ommai_report_lines *findings, bool marks);
