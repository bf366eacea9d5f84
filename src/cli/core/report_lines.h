/* What the library reports line by line (kernels, checks), gathered so that nothing is printed
 * before the end is known. */
#pragma once

#include "base/json_writer.h"

/* Initialise `records`, and free it. Its `failed` says that memory ran out. */
struct ommai_report_lines {
  struct ommai_text records;
  bool failed; /* a finding was not ok */
};

struct ommai_report_line {
  bool ok;
  const char *what, *details; /* as long as the lines live */
};

/* An omma_report callback: `context` is the struct ommai_report_lines. */
void ommai_report_lines_add(void *context, bool ok, const char *what, const char *details);

/* The finding at *at, which is 0 for the first; moves *at to the next. False when there is none. */
bool ommai_report_lines_next(const struct ommai_report_lines *findings, size_t *at, struct ommai_report_line *line);

/* [{"ok", "what", "details"}, ...] */
void ommai_report_lines_put(const struct ommai_report_lines *findings, const char *key, struct ommai_text *out);

/* A line per finding; with `marks` each begins with "ok" or "FAILED". */
void ommai_report_lines_print(const struct ommai_report_lines *findings, bool marks);
