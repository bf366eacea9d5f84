#include "cli/core/report_lines.h"

#include <stdio.h>
#include <string.h>

#include "cli/core/plain_text.h"

/* A record is a byte and two strings with their NULs. */
enum { OK = '+', NOT_OK = '-' };

void ommai_report_lines_add(void *context, bool ok, const char *what, const char *details) {
  struct ommai_report_lines *findings = context;
  const char mark = ok ? OK : NOT_OK;
  if (!ok) findings->failed = true;
  if (!details) details = "";
  ommai_text_append(&findings->records, &mark, 1);
  ommai_text_append(&findings->records, what, strlen(what) + 1);
  ommai_text_append(&findings->records, details, strlen(details) + 1);
}

bool ommai_report_lines_next(const struct ommai_report_lines *findings, size_t *at, struct ommai_report_line *line) {
  const struct ommai_text *records = &findings->records;
  if (records->failed || *at == records->size) return false;
  line->ok = records->data[*at] == OK;
  line->what = records->data + *at + 1;
  line->details = line->what + strlen(line->what) + 1;
  *at = (size_t)(line->details + strlen(line->details) + 1 - records->data);
  return true;
}

void ommai_report_lines_put(const struct ommai_report_lines *findings, const char *key, struct ommai_text *out) {
  struct ommai_report_line line;
  ommai_put_begin(out, key, "[");
  for (size_t at = 0; ommai_report_lines_next(findings, &at, &line);) {
    ommai_put_begin(out, NULL, "{");
    ommai_put_boolean(out, "ok", line.ok);
    OMMAI_PUT_STRINGS(out, {"what", line.what}, {"details", line.details});
    ommai_put_end(out, "}");
  }
  ommai_put_end(out, "]");
  out->failed |= findings->records.failed;
}

void ommai_report_lines_print(const struct ommai_report_lines *findings, bool marks) {
  struct ommai_report_line line;
  for (size_t at = 0; ommai_report_lines_next(findings, &at, &line);) {
    printf("  ");
    if (marks) printf("%-7s ", line.ok ? "ok" : "FAILED");
    ommai_print_plain(stdout, line.what, marks ? 40 : 32);
    putchar(' ');
    ommai_print_plain(stdout, line.details, 0);
    putchar('\n');
  }
}
