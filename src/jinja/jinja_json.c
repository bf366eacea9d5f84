/* The filter tojson: as transformers has it, json.dumps without escapes for HTML. */
#include <stdio.h>
#include <string.h>

#include "jinja/jinja_value.h"
#include "text/utf8.h"

enum { MAX_DEPTH = 100 };

struct writer {
  struct jinja_context *context;
  struct jinja_buffer out;
  int indent; /* -1: all in one line */
  bool ascii;
};

static void add(struct writer *writer, const char *text, size_t size) {
  ommai_jinja_append(writer->context, &writer->out, text, size);
}

static void add_string(struct writer *writer, const char *text) { add(writer, text, strlen(text)); }

static void add_escape(struct writer *writer, uint32_t code) {
  static const char names[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
  const char *name = code && code < 128 ? strchr(names, (int)code) : NULL;
  char text[16];
  if (name) {
    snprintf(text, sizeof text, "\\%c", letters[name - names]);
  } else if (code < 0x10000) {
    snprintf(text, sizeof text, "\\u%04x", (unsigned)code);
  } else {
    snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xD800 + (unsigned)((code - 0x10000) >> 10),
             0xDC00 + (unsigned)((code - 0x10000) & 0x3FF));
  }
  add_string(writer, text);
}

static void write_text(struct writer *writer, const char *text, size_t size) {
  size_t plain = 0;
  add_string(writer, "\"");
  for (size_t at = 0, length; at < size; at += length) {
    uint32_t code = (unsigned char)text[at];
    bool valid = ommai_utf8_next(text + at, size - at, &length, &code) == OMMAI_UTF8_VALID;
    if (!valid) length = 1;
    bool escape = code < 0x20 || code == '"' || code == '\\' || (valid && writer->ascii && code > 126);
    if (!escape) continue;
    add(writer, text + plain, at - plain);
    add_escape(writer, code);
    plain = at + length;
  }
  add(writer, text + plain, size - plain);
  add_string(writer, "\"");
}

static void write_line(struct writer *writer, int depth) {
  if (writer->indent < 0) return;
  add_string(writer, "\n");
  for (int i = 0; i < depth * writer->indent && !writer->context->failed; i++) add_string(writer, " ");
}

static void write_value(struct writer *writer, const struct jinja_value *value, int depth);

static void separate(struct writer *writer, size_t index, int depth) {
  if (index) add_string(writer, writer->indent < 0 ? ", " : ",");
  write_line(writer, depth);
}

static void write_list(struct writer *writer, const struct jinja_value *list, int depth) {
  size_t n = ommai_jinja_list_size(list);
  add_string(writer, "[");
  for (size_t i = 0; i < n && !writer->context->failed; i++) {
    struct jinja_value item = ommai_jinja_list_item(list, i);
    separate(writer, i, depth + 1);
    write_value(writer, &item, depth + 1);
  }
  if (n) write_line(writer, depth);
  add_string(writer, "]");
}

static void write_dict(struct writer *writer, const struct jinja_value *dict, int depth) {
  size_t n;
  const struct jinja_pair *pairs = ommai_jinja_dict_pairs(writer->context, dict, &n);
  add_string(writer, "{");
  for (size_t i = 0; pairs && i < n && !writer->context->failed; i++) {
    separate(writer, i, depth + 1);
    write_text(writer, pairs[i].key.text, pairs[i].key.size);
    add_string(writer, ": ");
    write_value(writer, &pairs[i].value, depth + 1);
  }
  if (n) write_line(writer, depth);
  add_string(writer, "}");
}

static void write_value(struct writer *writer, const struct jinja_value *value, int depth) {
  struct jinja_value text;
  if (depth > MAX_DEPTH || !ommai_scratch_work(writer->context->scratch, 1)) {
    ommai_jinja_fail_scratch(writer->context);
    return;
  }
  switch (value->kind) {
    case JINJA_NONE: add_string(writer, "null"); break;
    case JINJA_BOOLEAN: add_string(writer, value->truth ? "true" : "false"); break;
    case JINJA_TEXT_VALUE: write_text(writer, value->text, value->size); break;
    case JINJA_LIST: write_list(writer, value, depth); break;
    case JINJA_DICT: write_dict(writer, value, depth); break;
    case JINJA_WHOLE:
    case JINJA_REAL:
      text = ommai_jinja_to_text(writer->context, value);
      add(writer, text.text, text.size);
      break;
    default: ommai_jinja_fail(writer->context, "tojson: this value has no JSON"); break;
  }
}

struct jinja_value ommai_jinja_to_json(struct jinja_context *context, const struct jinja_value *value, int indent, bool ascii) {
  struct writer writer = {.context = context, .indent = indent, .ascii = ascii};
  write_value(&writer, value, 0);
  return ommai_jinja_text(writer.out.data, writer.out.size);
}
