#include "cli/core/report_lines.h"

#include <stdio.h>

#include "cli/core/json_out.h"
#include "cli/core/plain_text.h"

void ommai_report_lines_add(void *context, bool ok, const char *what, const char *details) {
  struct ommai_report_lines *findings = context;
  if (!ok) findings->failed = true;
  ommai_json_append(&findings->list, json_pack("{s:b, s:o, s:o}", "ok", (int)ok, "what", ommai_json_text(what), "details",
                                               ommai_json_text(details ? details : "")));
}

void ommai_report_lines_print(const struct ommai_report_lines *findings, bool marks) {
  size_t index;
  const json_t *finding;
  json_array_foreach(findings->list, index, finding) {
    const char *what = json_string_value(json_object_get(finding, "what"));
    const char *details = json_string_value(json_object_get(finding, "details"));
    bool ok = json_is_true(json_object_get(finding, "ok"));
    printf("  ");
    if (marks) printf("%-7s ", ok ? "ok" : "FAILED");
    ommai_print_plain(stdout, what, marks ? 40 : 32);
    putchar(' ');
    ommai_print_plain(stdout, details, 0);
    putchar('\n');
  }
}
