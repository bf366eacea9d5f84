#include "base/debug.h"

#include <stdarg.h>
#include <stdio.h>

void ommai_debug_line(const struct omma_log *log, const char *format, ...) {
  char text[OMMA_LOG_LINE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  for (char *c = text; *c; c++) {
    if (*c == '\n' || *c == '\r') *c = ' '; /* of a path */
  }
  log->line(log->context, OMMA_LOG_DEBUG, text);
}
