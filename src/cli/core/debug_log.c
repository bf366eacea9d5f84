#include "cli/core/debug_log.h"

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cli/core/json_out.h"
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
  json_t *object =
      json_pack("{s:s, s:s, s:s, s:o}", "time", time, "level", "debug", "event", "trace", "text", ommai_json_text(text));
  char *line = object ? json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
  if (line) put(log, line);
  free(line);
  json_decref(object);
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
