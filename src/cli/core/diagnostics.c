#include "cli/core/diagnostics.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/core/plain_text.h"

#define MAX_LINE 2048

static bool shows_times;
static char *failures;
static size_t failures_size;
static const char *(*option_of)(const char *name, size_t size);

void ommai_diagnostics_of(const char *(*name_of_option)(const char *name, size_t size)) { option_of = name_of_option; }

static void print_line(const char *time, const char *prefix, const char *format, va_list arguments) {
  char line[MAX_LINE];
  vsnprintf(line, sizeof line, format, arguments);
  fprintf(stderr, "%s%somma: %s%s\n", time, *time ? " " : "", prefix, ommai_plain_text(line));
}

static int print_failure(int code, const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  if (failures) vsnprintf(failures, failures_size, format, again);
  va_end(again);
  print_line("", "", format, arguments);
  return code;
}

void ommai_failures_to(char *out, size_t size) {
  failures = out;
  failures_size = size;
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
  int code = print_failure(OMMAI_EXIT_FAILED, format, arguments);
  va_end(arguments);
  return code;
}

static bool is_part_of_name(char c) { return isalnum((unsigned char)c) || (c && strchr("_-./\"", c)); }

/* The length of the word that begins here, letters and underscores; 0 inside of another, of a path
 * or of quotes. */
static size_t word_at(const char *text, size_t at) {
  size_t size = 0;
  if (at && is_part_of_name(text[at - 1])) return 0;
  while (islower((unsigned char)text[at + size]) || text[at + size] == '_') size++;
  return is_part_of_name(text[at + size]) ? 0 : size;
}

/* The option that text[at, at + size) stands for: in front of a message its field, elsewhere a name
 * that is no word of a sentence, where the error is about an argument or a limit. */
static const char *option_at(const struct omma_error *error, const char *text, size_t at, size_t size) {
  bool of_options = error->status == OMMA_ERROR_ARGUMENT || error->status == OMMA_ERROR_LIMIT;
  bool is_name = memchr(text + at, '_', size), in_front = at == 0 && text[size] == ':';
  bool is_field = in_front && strlen(error->field) == size && memcmp(error->field, text, size) == 0;
  if (!option_of || !size || !(is_field || (is_name && (of_options || in_front)))) return NULL;
  return option_of(text + at, size);
}

int ommai_failed_call(const struct omma_error *error) {
  const char *text = error->message[0] ? error->message : omma_status_name(error->status);
  char line[MAX_LINE] = "";
  size_t used = 0;
  for (size_t at = 0; text[at] && used + 1 < sizeof line;) {
    size_t n = word_at(text, at);
    const char *option = option_at(error, text, at, n);
    if (!n) n = 1;
    int added = option ? snprintf(line + used, sizeof line - used, "--%s", option)
                       : snprintf(line + used, sizeof line - used, "%.*s", (int)n, text + at);
    used += added > 0 ? (size_t)added : 0;
    at += n;
  }
  return ommai_failed("%s", line);
}

int ommai_usage_error(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int code = print_failure(OMMAI_EXIT_USAGE, format, arguments);
  va_end(arguments);
  return code;
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

int ommai_fill_standard_files(void) {
  /* The first two the wrong way round: a read or write fails, and is reported. */
  static const int ways[] = {[STDIN_FILENO] = O_WRONLY, [STDOUT_FILENO] = O_RDONLY, [STDERR_FILENO] = O_WRONLY};
  for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++) {
    if (fcntl(file, F_GETFD) >= 0) continue;
    /* the lowest number that is free, which is this one */
    if (open("/dev/null", ways[file]) != file) return ommai_failed("/dev/null: %s", strerror(errno));
  }
  return OMMAI_EXIT_DONE;
}

int ommai_finish_output(void) {
  errno = 0;
  int flushed = fflush(stdout);
  if (flushed == 0 && !ferror(stdout)) return OMMAI_EXIT_DONE;
  return ommai_failed("cannot write standard output: %s", errno ? strerror(errno) : "an earlier write failed");
}
