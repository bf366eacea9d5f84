#include "cli/diagnostics.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/error_words.h"
#include "cli/plain_text.h"

#define MAX_LINE 2048

static void print_line(const char *prefix, const char *format, va_list arguments) {
  char line[MAX_LINE];
  vsnprintf(line, sizeof line, format, arguments);
  fprintf(stderr, "omma: %s%s\n", prefix, ommai_plain_text(line));
}

int ommai_failed(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_line("", format, arguments);
  va_end(arguments);
  return OMMAI_EXIT_FAILED;
}

int ommai_failed_call(const struct omma_error *error) {
  char text[MAX_LINE];
  return ommai_failed("%s", ommai_error_words(error, text, sizeof text));
}

int ommai_usage_error(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_line("", format, arguments);
  va_end(arguments);
  return OMMAI_EXIT_USAGE;
}

void ommai_warn(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_line("warning: ", format, arguments);
  va_end(arguments);
}

void ommai_note(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_line("", format, arguments);
  va_end(arguments);
}

int ommai_finish_output(void) {
  errno = 0;
  int flushed = fflush(stdout);
  if (flushed == 0 && !ferror(stdout)) return OMMAI_EXIT_DONE;
  return ommai_failed("cannot write standard output: %s", errno ? strerror(errno) : "an earlier write failed");
}
