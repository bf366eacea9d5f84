/* The library's trace (omma/log.h) as lines of the log: --log-level debug. */
#pragma once

#include <omma/log.h>
#include <stdbool.h>

/* Where lines go; zero-initialised: to stderr, as text. */
struct ommai_debug_log {
  void (*write)(void *context, const char *line); /* as omma_server_options.log; NULL: to stderr */
  void *context;
  bool json; /* each line is an object, as those of --log-format json */
};

/* Values of --log-level, ends in NULL, and whether one of them asks for the trace. */
extern const char *const ommai_log_levels[];
enum { OMMAI_LOG_LEVEL_INFO = 3 };
bool ommai_log_level_traces(int level);

/* As omma_log.line; `log` is a struct ommai_debug_log. Begins the line with the time (UTC) and the
 * level, as lines of the server do. */
void ommai_debug_log_line(void *log, enum omma_log_level level, const char *text);
