#include "server/core/log_line.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

/* Values longer than this are cut, which three dots show. */
#define MAX_VALUE 512

void ommai_log_line_begin(struct ommai_log_line *line, const struct omma_allocator *allocator, bool json, const char *level,
                          const char *event) {
  char now[OMMAI_CLOCK_UTC_SIZE];
  ommai_clock_utc(now);
  line->json = json;
  ommai_text_init(&line->text, allocator);
  if (json) ommai_text_add(&line->text, "{\"time\":\"");
  ommai_text_add(&line->text, now);
  if (json) {
    ommai_text_format(&line->text, "\",\"level\":\"%s\",\"event\":\"%s\"", level, event);
    return;
  }
  ommai_text_add(&line->text, " ");
  for (const char *c = level; *c; c++) ommai_text_format(&line->text, "%c", toupper((unsigned char)*c));
  ommai_text_format(&line->text, " %s", event);
}

static void add_name(struct ommai_log_line *line, const char *name) {
  ommai_text_format(&line->text, line->json ? ",\"%s\":" : " %s=", name);
}

/* Printable ASCII stays, all else is \xNN, so that the line is one word of one line whatever the
 * bytes are. */
static void add_quoted(struct ommai_text *text, const char *value, size_t size) {
  bool plain = size > 0;
  for (size_t i = 0; i < size; i++) plain &= value[i] > 0x20 && value[i] < 0x7f && value[i] != '"' && value[i] != '\\';
  if (!plain) ommai_text_add(text, "\"");
  for (size_t i = 0; i < size; i++) {
    unsigned char c = (unsigned char)value[i];
    if (c == '"' || c == '\\') {
      ommai_text_format(text, "\\%c", c);
    } else {
      ommai_text_format(text, c >= 0x20 && c < 0x7f ? "%c" : "\\x%02x", c);
    }
  }
  if (!plain) ommai_text_add(text, "\"");
}

/* The code point of a valid character. */
static uint32_t code_of(const unsigned char *bytes, size_t length) {
  uint32_t code = length == 1 ? bytes[0] : bytes[0] & (0x7fu >> length);
  for (size_t i = 1; i < length; i++) code = code << 6 | (bytes[i] & 0x3fu);
  return code;
}

/* In JSON of ASCII alone, so that a terminal that shows the log obeys nothing in it either; what is
 * not UTF-8 becomes U+FFFD. */
static void add_json(struct ommai_text *text, const char *value, size_t size) {
  const unsigned char *bytes = (const unsigned char *)value;
  ommai_text_add(text, "\"");
  for (size_t i = 0, length; i < size; i += length) {
    length = ommai_utf8_length(bytes + i, size - i);
    uint32_t code = length ? code_of(bytes + i, length) : 0xfffd;
    if (!length) length = 1;
    if (code == '"' || code == '\\') {
      ommai_text_format(text, "\\%c", (char)code);
    } else if (code >= 0x20 && code < 0x7f) {
      ommai_text_format(text, "%c", (char)code);
    } else if (code < 0x10000) {
      ommai_text_format(text, "\\u%04x", code);
    } else {
      ommai_text_format(text, "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + (code & 0x3ff));
    }
  }
  ommai_text_add(text, "\"");
}

void ommai_log_line_string(struct ommai_log_line *line, const char *name, const char *value) {
  if (!value) return;
  size_t size = strlen(value);
  char cut[MAX_VALUE + 4];
  if (size > MAX_VALUE) {
    memcpy(cut, value, MAX_VALUE);
    memcpy(cut + MAX_VALUE, "...", 4);
    value = cut;
    size = sizeof cut - 1;
  }
  add_name(line, name);
  if (line->json) {
    add_json(&line->text, value, size);
  } else {
    add_quoted(&line->text, value, size);
  }
}

void ommai_log_line_integer(struct ommai_log_line *line, const char *name, int64_t value) {
  add_name(line, name);
  ommai_text_format(&line->text, "%" PRId64, value);
}

void ommai_log_line_number(struct ommai_log_line *line, const char *name, double value) {
  add_name(line, name);
  ommai_text_format(&line->text, "%g", value);
}

void ommai_log_line_seconds(struct ommai_log_line *line, const char *name, double value) {
  add_name(line, name);
  ommai_text_format(&line->text, "%.4f", value);
}

const char *ommai_log_line_end(struct ommai_log_line *line) {
  if (line->json) ommai_text_add(&line->text, "}");
  ommai_text_append(&line->text, "", 1);
  return line->text.failed ? NULL : line->text.data;
}

void ommai_log_line_free(struct ommai_log_line *line) { ommai_text_free(&line->text); }
