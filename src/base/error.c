#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *omma_status_name(enum omma_status status) {
  switch (status) {
    case OMMA_OK: return "ok";
    case OMMA_ERROR_ARGUMENT: return "wrong argument";
    case OMMA_ERROR_MEMORY: return "out of memory";
    case OMMA_ERROR_IO: return "input/output error";
    case OMMA_ERROR_FORMAT: return "broken data";
    case OMMA_ERROR_UNSUPPORTED: return "not supported";
    case OMMA_ERROR_LIMIT: return "limit exceeded";
    case OMMA_ERROR_BUSY: return "busy";
    case OMMA_ERROR_CANCELLED: return "cancelled";
    case OMMA_ERROR_INTERNAL: return "internal error";
  }
  return "unknown status";
}

/* Messages quote names from files and requests; a line break or an escape sequence in one must not
 * reach a log or terminal. */
static void keep_one_line(char *text) {
  for (; *text; text++) {
    if ((unsigned char)*text < 0x20 || *text == 0x7f) *text = '?';
  }
}

static void fill(struct omma_error *error, enum omma_status status, const char *field, const char *format, va_list arguments) {
  if (!error) return;
  error->status = status;
  snprintf(error->field, sizeof error->field, "%s", field);
  vsnprintf(error->message, sizeof error->message, format, arguments);
  keep_one_line(error->message);
}

enum omma_status ommai_fail(struct omma_error *error, enum omma_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fill(error, status, "", format, arguments);
  va_end(arguments);
  return status;
}

enum omma_status ommai_fail_field(struct omma_error *error, enum omma_status status, const char *field, const char *format,
                                  ...) {
  va_list arguments;
  va_start(arguments, format);
  fill(error, status, field, format, arguments);
  va_end(arguments);
  return status;
}

void ommai_error_prefix(struct omma_error *error, const char *format, ...) {
  if (!error) return;
  char prefix[OMMA_ERROR_MESSAGE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(prefix, sizeof prefix - 2, format, arguments);
  va_end(arguments);
  size_t at = strlen(prefix), length = strlen(error->message);
  memcpy(prefix + at, ": ", 2);
  at += 2;
  if (length > sizeof error->message - 1 - at) length = sizeof error->message - 1 - at;
  memmove(error->message + at, error->message, length);
  memcpy(error->message, prefix, at);
  error->message[at + length] = '\0';
}

enum omma_status ommai_fail_memory(struct omma_error *error, const char *what, size_t size) {
  return ommai_fail(error, OMMA_ERROR_MEMORY, "out of memory: %s needs %zu bytes", what, size);
}
