#include "cli/diagnostics.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/error_words.h"
#include "cli/plain_text.h"

#define MAX_LINE 2048

static bool shows_times;

static void print_line(const char *time, const char *prefix, const char *format, va_list arguments) {
  char line[MAX_LINE];
  vsnprintf(line, sizeof line, format, arguments);
  fprintf(stderr, "%s%somma: %s%s\n", time, *time ? " " : "", prefix, ommai_plain_text(line));
}

void ommai_show_times(void) { shows_times = true; }

static void print_note(const char *prefix, const char *format, va_list arguments) {
  char now[OMMAI_CLOCK_UTC_SIZE] = "";
  if (shows_times) ommai_clock_utc(now);
  print_line(now, prefix, format, arguments);
}

int ommai_failed(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_line("", "", format, arguments);
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
  print_line("", "", format, arguments);
  va_end(arguments);
  return OMMAI_EXIT_USAGE;
}

void ommai_warn(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_note("warning: ", format, arguments);
  va_end(arguments);
}

void ommai_note(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_note("", format, arguments);
  va_end(arguments);
}

int ommai_finish_output(void) {
  errno = 0;
  int flushed = fflush(stdout);
  if (flushed == 0 && !ferror(stdout)) return OMMAI_EXIT_DONE;
  return ommai_failed("cannot write standard output: %s", errno ? strerror(errno) : "an earlier write failed");
}
