#include "base/json_writer.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_FORMATTED = 256 };

static void add_byte(struct ommai_text *out, char byte) {
  if (out->size < out->capacity && !out->failed) {
    out->data[out->size++] = byte;
  } else {
    ommai_text_append(out, &byte, 1);
  }
}

static bool is_letter_or_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'); }

/* A comma, where the text ends in a value: the last bytes of true, false, null and of numbers (1e9,
 * 0.5) are letters and digits, a key ends in a colon. */
static void separate(struct ommai_text *out) {
  char last = out->size ? out->data[out->size - 1] : ' ';
  if (last == '}' || last == ']' || last == '"' || is_letter_or_digit(last)) add_byte(out, ',');
}

/* The code point of a valid character. */
static uint32_t code_of(const unsigned char *bytes, size_t length) {
  uint32_t code = length == 1 ? bytes[0] : bytes[0] & (0x7fu >> length);
  for (size_t i = 1; i < length; i++) code = code << 6 | (bytes[i] & 0x3fu);
  return code;
}

static void add_escaped(struct ommai_text *out, uint32_t code) {
  switch (code) {
    case '"': ommai_text_add(out, "\\\""); return;
    case '\\': ommai_text_add(out, "\\\\"); return;
    case '\n': ommai_text_add(out, "\\n"); return;
    case '\r': ommai_text_add(out, "\\r"); return;
    case '\t': ommai_text_add(out, "\\t"); return;
    default: break;
  }
  if (code < 0x10000) {
    ommai_text_format(out, "\\u%04x", code);
  } else {
    ommai_text_format(out, "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + (code & 0x3ff));
  }
}

static void add_quoted(struct ommai_text *out, const char *data, size_t size, bool ascii) {
  const unsigned char *bytes = (const unsigned char *)data;
  add_byte(out, '"');
  size_t plain = 0; /* start of the span that is copied as it is */
  for (size_t i = 0, length; i < size; i += length) {
    unsigned char first = bytes[i];
    length = 1;
    if (first >= 0x20u && first < 0x7fu && first != '"' && first != '\\') continue;
    if (first >= 0x80u) length = ommai_utf8_length(bytes + i, size - i);
    if (length && first >= 0x7fu && !ascii) continue;
    ommai_text_append(out, data + plain, i - plain);
    if (length) {
      add_escaped(out, code_of(bytes + i, length));
    } else {
      ommai_text_add(out, ascii ? "\\ufffd" : "\xef\xbf\xbd");
      length = 1;
    }
    plain = i + length;
  }
  if (size) ommai_text_append(out, data + plain, size - plain); /* else `data` may be NULL */
  add_byte(out, '"');
}

void ommai_put_key(struct ommai_text *out, const char *name, size_t size) {
  separate(out);
  add_quoted(out, name, size, false);
  add_byte(out, ':');
}

/* Up to the value. */
static void begin_value(struct ommai_text *out, const char *key) {
  if (key) {
    ommai_put_key(out, key, strlen(key));
  } else {
    separate(out);
  }
}

void ommai_put_raw(struct ommai_text *out, const char *key, const char *json, size_t size) {
  if (!size && !key) return;
  begin_value(out, key);
  ommai_text_append(out, size ? json : "null", size ? size : 4);
}

void ommai_put_raw_text(struct ommai_text *out, const char *key, const struct ommai_text *json) {
  ommai_put_raw(out, key, json ? json->data : NULL, json ? json->size : 0);
  out->failed |= json && json->failed;
}

void ommai_put_begin(struct ommai_text *out, const char *key, const char *brackets) {
  ommai_put_raw(out, key, brackets, strlen(brackets));
}

void ommai_put_end(struct ommai_text *out, const char *brackets) { ommai_text_add(out, brackets); }

void ommai_put_list(struct ommai_text *out, const char *key, const struct ommai_text *entries) {
  if (!entries) {
    ommai_put_null(out, key);
    return;
  }
  ommai_put_begin(out, key, "[");
  ommai_put_raw_text(out, NULL, entries);
  ommai_put_end(out, "]");
}

void ommai_put_null(struct ommai_text *out, const char *key) { ommai_put_raw(out, key, "null", 4); }

void ommai_put_nulls(struct ommai_text *out, const char *key, ...) {
  va_list keys;
  va_start(keys, key);
  for (; key; key = va_arg(keys, const char *)) ommai_put_null(out, key);
  va_end(keys);
}

void ommai_put_boolean(struct ommai_text *out, const char *key, bool value) {
  ommai_put_raw(out, key, value ? "true" : "false", value ? 4 : 5);
}

void ommai_put_integer(struct ommai_text *out, const char *key, int64_t value) {
  char digits[20], *at = digits + sizeof digits;
  uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
  do *--at = (char)('0' + rest % 10);
  while (rest /= 10);
  if (value < 0) *--at = '-';
  ommai_put_raw(out, key, at, (size_t)(digits + sizeof digits - at));
}

static void put_real(struct ommai_text *out, const char *key, double value, const char *format, int digits) {
  begin_value(out, key);
  if (isfinite(value)) {
    ommai_text_format(out, format, digits, value);
  } else {
    ommai_text_add(out, "null");
  }
}

void ommai_put_number(struct ommai_text *out, const char *key, double value, int digits) {
  put_real(out, key, value, "%.*g", digits);
}

void ommai_put_fixed(struct ommai_text *out, const char *key, double value, int decimals) {
  put_real(out, key, value, "%.*f", decimals);
}

void ommai_put_string(struct ommai_text *out, const char *key, const char *value) {
  if (value) {
    ommai_put_text(out, key, value, strlen(value));
  } else {
    ommai_put_null(out, key);
  }
}

void ommai_put_text(struct ommai_text *out, const char *key, const char *value, size_t size) {
  begin_value(out, key);
  add_quoted(out, value, size, false);
}

void ommai_put_format(struct ommai_text *out, const char *key, const char *format, ...) {
  char value[MAX_FORMATTED];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(value, sizeof value, format, arguments);
  va_end(arguments);
  ommai_put_string(out, key, value);
}

void ommai_put_ascii(struct ommai_text *out, const char *key, const char *value, size_t size) {
  begin_value(out, key);
  add_quoted(out, value, size, true);
}

void ommai_put_in_ascii(struct ommai_text *out, const struct ommai_text *json) {
  size_t length;
  for (size_t i = 0; i < json->size; i += length) {
    const unsigned char *at = (const unsigned char *)json->data + i;
    length = ommai_utf8_length(at, json->size - i);
    if (*at < 0x7fu) {
      add_byte(out, (char)*at);
    } else {
      add_escaped(out, code_of(at, length));
    }
  }
  out->failed |= json->failed;
}

static int append(const char *bytes, size_t size, void *context) {
  struct ommai_text *text = context;
  ommai_text_append(text, bytes, size);
  return text->failed ? -1 : 0;
}

void ommai_put_value(struct ommai_text *out, const char *key, const json_t *value, int digits) {
  begin_value(out, key);
  out->failed |= json_dump_callback(value, append, out, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits)) != 0;
}

void ommai_put_new(struct ommai_text *out, const char *key, json_t *value) {
  ommai_put_value(out, key, value, 0);
  json_decref(value);
}
