/* Lines of the trace that a host program may ask for (omma/log.h). */
#pragma once

#include <omma/log.h>

/* Hands a line of level debug to log->line, which must be there. Allocates nothing. Thread-safe. */
void ommai_debug_line(const struct omma_log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same where there is a log; else one load, and the arguments are not evaluated. */
#define OMMAI_DEBUG(log, ...)                              \
  do {                                                     \
    if ((log)->line) ommai_debug_line((log), __VA_ARGS__); \
  } while (0)
