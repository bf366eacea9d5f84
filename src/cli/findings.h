/* What the library reports line by line (kernels, checks), gathered so that nothing is printed before the end is known. */
#ifndef OMMAI_CLI_FINDINGS_H
#define OMMAI_CLI_FINDINGS_H

#include <jansson.h>
#include <stdbool.h>

/* A JSON array of {"ok", "what", "details"}; NULL after memory ran out. Release with json_decref(list). */
struct ommai_findings {
  json_t *list;
  bool failed; /* a finding was not ok */
};

/* An omma_report callback: `context` is the struct ommai_findings. */
void ommai_findings_add(void *context, bool ok, const char *what, const char *details);

/* A line per finding; with `marks` each begins with "ok" or "FAILED". */
void ommai_findings_print(const struct ommai_findings *findings, bool marks);

#endif
