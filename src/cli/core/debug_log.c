#include "cli/core/debug_log.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "base/json_writer.h"
#include "cli/core/plain_text.h"

const char *const ommai_log_levels[] = {"critical", "error", "warning", "info", "debug", "trace", NULL};

bool ommai_log_level_traces(int level) { return level > OMMAI_LOG_LEVEL_INFO; }

static void put(const struct ommai_debug_log *log, const char *line) {
  if (log->write) {
    log->write(log->context, line);
  } else {
    fprintf(stderr, "%s\n", line);
  }
}

static void put_json(const struct ommai_debug_log *log, const char *time, const char *text) {
  struct ommai_text line = ommai_text_of(&ommai_default_allocator);
  ommai_put_begin(&line, NULL, "{");
  OMMAI_PUT_STRINGS(&line, {"time", time}, {"level", "debug"}, {"event", "trace"});
  ommai_put_ascii(&line, "text", text, strlen(text));
  ommai_put_end(&line, "}");
  ommai_text_append(&line, "", 1);
  if (!line.failed) put(log, line.data);
  ommai_text_free(&line);
}

void ommai_debug_log_line(void *log, enum omma_log_level level, const char *text) {
  char now[OMMAI_CLOCK_UTC_SIZE], line[OMMA_LOG_LINE_SIZE + 128];
  (void)level;
  ommai_clock_utc(now);
  if (((const struct ommai_debug_log *)log)->json) {
    put_json(log, now, text);
    return;
  }
  snprintf(line, sizeof line, "%s DEBUG trace %s", now, text);
  put(log, ommai_plain_text(line));
}
