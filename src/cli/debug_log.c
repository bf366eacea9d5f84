#include "cli/debug_log.h"

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cli/json_out.h"
#include "cli/plain_text.h"

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
  char *line = object ? json_dumps(object, JSON_COMPACT) : NULL;
  if (line) put(log, line);
  free(line);
  json_decref(object);
}

void ommai_debug_log_line(void *log, enum omma_log_level level, const char *text) {
  char day[32] = "", moment[64], line[OMMA_LOG_LINE_SIZE + 128];
  struct timespec now;
  struct tm parts;
  (void)level;
  clock_gettime(CLOCK_REALTIME, &now);
  if (gmtime_r(&now.tv_sec, &parts)) strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
  snprintf(moment, sizeof moment, "%s.%03ldZ", day, now.tv_nsec / 1000000);
  if (((const struct ommai_debug_log *)log)->json) {
    put_json(log, moment, text);
    return;
  }
  snprintf(line, sizeof line, "%s DEBUG trace %s", moment, text);
  put(log, line);
}
