/* Writing JSON, value by value, at the end of a text. Commas come by themselves, from what the text
 * ends in. So one function may begin an object and another end it, and entries of a list or members
 * of an object may be written into a text of their own. What stands before a document (`data: `)
 * and behind it is the caller's. It must not look like the end of a value, which is a bracket that
 * closes, a quotation mark, a digit or a small letter. Where memory runs out, the text's `failed`
 * says so.
 *
 * In all functions `key` is the name of a member. It is NULL for an entry of a list, a document,
 * and the value that ommai_put_key announced. Bytes of keys and strings that are not UTF-8 become
 * U+FFFD. */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/text_buffer.h"

/* What opens: "{", "[", "[{"; or both ends of what is empty: "{}", "[]". */
void ommai_put_begin(struct ommai_text *out, const char *key, const char *brackets);
/* What closes, innermost first: "}]"; line feeds may follow. */
void ommai_put_end(struct ommai_text *out, const char *brackets);

/* A name of any bytes, for the value that follows. */
void ommai_put_key(struct ommai_text *out, const char *name, size_t size);

void ommai_put_null(struct ommai_text *out, const char *key);
/* Several members; the last key is followed by NULL. */
void ommai_put_nulls(struct ommai_text *out, const char *key, ...) __attribute__((sentinel));
void ommai_put_boolean(struct ommai_text *out, const char *key, bool value);
void ommai_put_integer(struct ommai_text *out, const char *key, int64_t value);
/* With `digits` significant digits, or with `decimals` behind the point. null where it is not
 * finite. */
void ommai_put_number(struct ommai_text *out, const char *key, double value, int digits);
void ommai_put_fixed(struct ommai_text *out, const char *key, double value, int decimals);

/* A string; NULL becomes null. */
void ommai_put_string(struct ommai_text *out, const char *key, const char *value);
/* Several such members: OMMAI_PUT_INTEGERS(out, {"width", 10}, {"height", 20}). */
#define OMMAI_PUT_INTEGERS(out, ...) OMMAI_PUT_NAMED(integer, out, __VA_ARGS__)
#define OMMAI_PUT_STRINGS(out, ...) OMMAI_PUT_NAMED(string, out, __VA_ARGS__)

/* A string of `size` bytes; `value` may be NULL where there are none. */
void ommai_put_text(struct ommai_text *out, const char *key, const char *value, size_t size);
/* A string as printf makes it, of at most 255 bytes. */
void ommai_put_format(struct ommai_text *out, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A string in ASCII alone, for what a terminal may show: all other characters are escaped. */
void ommai_put_ascii(struct ommai_text *out, const char *key, const char *value, size_t size);

#define OMMAI_PUT_NAMED(type, out, ...)                                              \
  do {                                                                               \
    const struct ommai_named_##type named_[] = {__VA_ARGS__};                        \
    for (size_t named_i_ = 0; named_i_ < sizeof named_ / sizeof *named_; named_i_++) \
      ommai_put_##type(out, named_[named_i_].key, named_[named_i_].value);           \
  } while (0)
struct ommai_named_integer {
  const char *key;
  int64_t value;
};
struct ommai_named_string {
  const char *key, *value;
};

/* JSON that is there already: one value, or without a key several, or members, with commas between
 * them. Nothing: null with a key, else nothing. */
void ommai_put_raw(struct ommai_text *out, const char *key, const char *json, size_t size);
/* The same of a text, whose failure is this one's too. */
void ommai_put_raw_text(struct ommai_text *out, const char *key, const struct ommai_text *json);
/* A document of this writer's as it is, but for characters that are not printable ASCII, which are
 * escaped. */
void ommai_put_in_ascii(struct ommai_text *out, const struct ommai_text *json);
/* `entries`, which ommai_put_raw would take, as a list; NULL becomes null. */
void ommai_put_list(struct ommai_text *out, const char *key, const struct ommai_text *entries);
/* A value of jansson's, compact, its reals with `digits` significant digits; 0: with 17. NULL, as
 * jansson gives where it had no memory for a value, is a failure. */
void ommai_put_value(struct ommai_text *out, const char *key, const json_t *value, int digits);
/* The same of a small value that is made for it and dropped: json_pack("{s:i}", "level", 1). */
void ommai_put_new(struct ommai_text *out, const char *key, json_t *value);
