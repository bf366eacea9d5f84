#include "server/core/log_line.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_writer.h"

/* Values longer than this are cut, which three dots show. */
#define MAX_VALUE 512

void ommai_log_line_begin(struct ommai_log_line *line, const struct omma_allocator *allocator, bool json, const char *level,
                          const char *event) {
  char now[OMMAI_CLOCK_UTC_SIZE];
  ommai_clock_utc(now);
  line->json = json;
  line->text = ommai_text_of(allocator);
  if (json) {
    ommai_put_begin(&line->text, NULL, "{");
    ommai_put_string(&line->text, "time", now);
    ommai_put_string(&line->text, "level", level);
    ommai_put_string(&line->text, "event", event);
    return;
  }
  ommai_text_format(&line->text, "%s ", now);
  for (const char *c = level; *c; c++) ommai_text_format(&line->text, "%c", toupper((unsigned char)*c));
  ommai_text_format(&line->text, " %s", event);
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
  if (line->json) {
    ommai_put_ascii(&line->text, name, value, size);
  } else {
    ommai_text_format(&line->text, " %s=", name);
    add_quoted(&line->text, value, size);
  }
}

void ommai_log_line_integer(struct ommai_log_line *line, const char *name, int64_t value) {
  if (line->json) {
    ommai_put_integer(&line->text, name, value);
  } else {
    ommai_text_format(&line->text, " %s=%" PRId64, name, value);
  }
}

void ommai_log_line_number(struct ommai_log_line *line, const char *name, double value) {
  if (line->json) {
    ommai_put_number(&line->text, name, value, 6);
  } else {
    ommai_text_format(&line->text, " %s=%g", name, value);
  }
}

void ommai_log_line_seconds(struct ommai_log_line *line, const char *name, double value) {
  if (line->json) {
    ommai_put_fixed(&line->text, name, value, 4);
  } else {
    ommai_text_format(&line->text, " %s=%.4f", name, value);
  }
}

const char *ommai_log_line_end(struct ommai_log_line *line) {
  if (line->json) ommai_put_end(&line->text, "}");
  ommai_text_append(&line->text, "", 1);
  return line->text.failed ? NULL : line->text.data;
}

void ommai_log_line_free(struct ommai_log_line *line) { ommai_text_free(&line->text); }

void ommai_log_line_send(struct ommai_log_line *line, const struct ommai_log *log) {
  const char *text = ommai_log_line_end(line);
  if (text) log->put(log->context, text);
  ommai_log_line_free(line);
}
