/* Numbers and lists in sentences. */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* What makes a noun with `count` before it a plural or not: "s" or nothing, for "%d thread%s". */
static inline const char *ommai_plural(int64_t count) { return count == 1 ? "" : "s"; }

/* Adds an entry to a list with commas between, as far as the `size` bytes of `list` have room. */
__attribute__((format(printf, 3, 4))) static inline void ommai_list_entry(char *list, size_t size, const char *format, ...) {
  size_t used = strlen(list);
  va_list arguments;
  if (used) used += (size_t)snprintf(list + used, size - used, ", ");
  if (used >= size) return;
  va_start(arguments, format);
  vsnprintf(list + used, size - used, format, arguments);
  va_end(arguments);
}
