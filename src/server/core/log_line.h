/* Lines of the server's log: as text or as one JSON object each. Whatever comes from a client is
 * escaped, so that none can make a line of its own or colour a terminal. Not thread-safe. */
#pragma once

#include <stdint.h>

#include "base/text_buffer.h"

/* Where lines go. */
struct ommai_log {
  void (*put)(void *context, const char *line); /* from any thread, quickly; NULL: nowhere */
  void *context;
  bool json; /* each line is an object */
};

struct ommai_log_line {
  struct ommai_text text;
  bool json;
};

/* Begins a line: the time (UTC, milliseconds), the level ("info", "error") and what the line is
 * about, a constant word. */
void ommai_log_line_begin(struct ommai_log_line *line, const struct omma_allocator *allocator, bool json, const char *level,
                          const char *event);

/* A value by name. NULL: nothing is added. */
void ommai_log_line_string(struct ommai_log_line *line, const char *name, const char *value);
void ommai_log_line_integer(struct ommai_log_line *line, const char *name, int64_t value);
void ommai_log_line_number(struct ommai_log_line *line, const char *name, double value);
void ommai_log_line_seconds(struct ommai_log_line *line, const char *name, double value);

/* Ends the line with a NUL and returns it, NULL where memory ran out. It lives until
 * ommai_log_line_free. */
const char *ommai_log_line_end(struct ommai_log_line *line);
void ommai_log_line_free(struct ommai_log_line *line);

/* Ends the line, hands it to the log, which there is, unless memory ran out, and frees it. */
void ommai_log_line_send(struct ommai_log_line *line, const struct ommai_log *log);
