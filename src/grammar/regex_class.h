/* One character of a regular expression, or a set of them: a literal, an escape, `.`, or a class in
 * brackets. */
#pragma once

#include "grammar/char_ranges.h"

/* A pattern that is being read, valid UTF-8. */
struct ommai_regex_text {
  struct ommai_scratch *scratch;
  const char *bytes;
  size_t size, at;
};

/* Reads one at `at`, which is before the end. *chars is normalised. Errors: FORMAT, UNSUPPORTED,
 * LIMIT, MEMORY. */
enum omma_status ommai_regex_class_read(struct ommai_regex_text *text, struct ommai_chars *chars, struct omma_error *error);
