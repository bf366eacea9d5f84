/* Reading a large JSON value item by item, without a tree: vocabularies have hundreds of thousands
 * of strings, and a tree of them takes several times longer to build than they take to read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A place in a text. A call that returns false leaves `at` near what it could not read. */
struct ommai_json_cursor {
  const char *text;
  size_t size, at;
};

/* Takes the next character that is not white space when it is `c`. */
bool ommai_json_cursor_take(struct ommai_json_cursor *cursor, char c);

/* Takes a string and writes its `*size` bytes of UTF-8 and a NUL. False for anything else: also for
 * a string with a NUL in it, broken UTF-8 or surrogates, or one that does not fit into
 * `capacity`. */
bool ommai_json_cursor_string(struct ommai_json_cursor *cursor, char *out, size_t capacity, size_t *size);

/* Takes an integer from 0 to INT32_MAX. */
bool ommai_json_cursor_number(struct ommai_json_cursor *cursor, int32_t *value);

/* Takes any value. Only strings and brackets are looked at: what is skipped must be checked by a
 * real parser. */
bool ommai_json_cursor_skip(struct ommai_json_cursor *cursor);

/* The separator after an item of an object or array that ends with `end`: a comma gives *more. */
bool ommai_json_cursor_next(struct ommai_json_cursor *cursor, char end, bool *more);
