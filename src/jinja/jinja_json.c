/* Values as text: Python's repr, and the filter tojson as transformers has it, json.dumps without
 * escapes for HTML; and values of JSON texts. */
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#include "base/json.h"
#include "jinja/jinja_value.h"
#include "text/utf8.h"

enum { MAX_DEPTH = 100 };

struct writer {
  struct jinja_context *context;
  struct jinja_buffer out;
  struct jinja_format format;
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

static void add_python_escape(struct writer *writer, uint32_t code) {
  static const char names[] = "\\\n\r\t'", letters[] = "\\nrt'";
  const char *name = code && code < 128 ? strchr(names, (int)code) : NULL;
  char text[16];
  if (name) {
    snprintf(text, sizeof text, "\\%c", letters[name - names]);
  } else {
    snprintf(text, sizeof text, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)code);
  }
  add_string(writer, text);
}

/* Python's str.isprintable of one character. */
static bool is_printable(uint32_t code) {
  switch (utf8proc_category((utf8proc_int32_t)code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    case UTF8PROC_CATEGORY_ZS: return code == ' ';
    default: return true;
  }
}

static bool is_escaped(const struct writer *writer, uint32_t code, char quote) {
  if (writer->format.python) return code == (unsigned char)quote || code == '\\' || !is_printable(code);
  return code < 0x20 || code == '"' || code == '\\' || (writer->format.ascii && code > 126);
}

/* Bytes that are no UTF-8 stay. */
static void write_text(struct writer *writer, const char *text, size_t size) {
  size_t plain = 0;
  bool single = writer->format.python && (!memchr(text, '\'', size) || memchr(text, '"', size));
  const char *quote = single ? "'" : "\"";
  add_string(writer, quote);
  for (size_t at = 0, length; at < size; at += length) {
    uint32_t code;
    bool valid = ommai_utf8_next(text + at, size - at, &length, &code) == OMMAI_UTF8_VALID;
    if (!valid) length = 1;
    if (!valid || !is_escaped(writer, code, *quote)) continue;
    add(writer, text + plain, at - plain);
    (writer->format.python ? add_python_escape : add_escape)(writer, code);
    plain = at + length;
  }
  add(writer, text + plain, size - plain);
  add_string(writer, quote);
}

static void write_line(struct writer *writer, int depth) {
  if (writer->format.indent < 0) return;
  add_string(writer, "\n");
  for (int i = 0; i < depth * writer->format.indent && !writer->context->failed; i++) add_string(writer, " ");
}

static void write_value(struct writer *writer, const struct jinja_value *value, int depth);

static void separate(struct writer *writer, size_t index, int depth) {
  const struct jinja_value *between = &writer->format.between;
  if (index && between->kind == JINJA_TEXT_VALUE) {
    add(writer, between->text, between->size);
  } else if (index) {
    add_string(writer, writer->format.indent < 0 ? ", " : ",");
  }
  write_line(writer, depth);
}

static void write_list(struct writer *writer, const struct jinja_value *list, int depth) {
  size_t n = ommai_jinja_list_size(list);
  bool tuple = writer->format.python && list->form == JINJA_AS_TUPLE;
  if (list->form == JINJA_AS_VIEW) {
    ommai_jinja_fail(writer->context, "generators are not printed; use |list");
    return;
  }
  add_string(writer, tuple ? "(" : "[");
  for (size_t i = 0; i < n && !writer->context->failed; i++) {
    struct jinja_value item = ommai_jinja_list_item(list, i);
    separate(writer, i, depth + 1);
    write_value(writer, &item, depth + 1);
  }
  if (n) write_line(writer, depth);
  add_string(writer, !tuple ? "]" : n == 1 ? ",)" : ")");
}

/* The pairs in the order of their keys. */
static const struct jinja_pair *sort_pairs(struct jinja_context *context, const struct jinja_pair *pairs, size_t n) {
  struct jinja_value *keys = ommai_jinja_take_items(context, n), *places = ommai_jinja_take_items(context, n);
  struct jinja_pair *sorted = ommai_scratch_take(context->scratch, n, sizeof *sorted);
  if (!pairs || !keys || !places || !sorted) return NULL;
  for (size_t i = 0; i < n; i++) {
    keys[i] = pairs[i].key;
    places[i] = ommai_jinja_whole((int64_t)i);
  }
  ommai_jinja_sort(context, places, keys, n, false);
  for (size_t i = 0; i < n; i++) sorted[i] = pairs[places[i].whole];
  return sorted;
}

/* Keys of JSON are texts. */
static void write_key(struct writer *writer, const struct jinja_value *key, int depth) {
  bool quoted = !writer->format.python && key->kind != JINJA_TEXT_VALUE;
  if (quoted) add_string(writer, "\"");
  write_value(writer, key, depth);
  if (quoted) add_string(writer, "\"");
}

static void write_dict(struct writer *writer, const struct jinja_value *dict, int depth) {
  size_t n;
  const struct jinja_pair *pairs = ommai_jinja_dict_pairs(writer->context, dict, &n);
  const struct jinja_value *after_key = &writer->format.after_key;
  if (writer->format.sorted) pairs = sort_pairs(writer->context, pairs, n);
  add_string(writer, "{");
  for (size_t i = 0; pairs && i < n && !writer->context->failed; i++) {
    separate(writer, i, depth + 1);
    write_key(writer, &pairs[i].key, depth);
    if (after_key->kind == JINJA_TEXT_VALUE) {
      add(writer, after_key->text, after_key->size);
    } else {
      add_string(writer, ": ");
    }
    write_value(writer, &pairs[i].value, depth + 1);
  }
  if (n) write_line(writer, depth);
  add_string(writer, "}");
}

static void write_plain(struct writer *writer, const struct jinja_value *value) {
  struct jinja_value text = ommai_jinja_to_text(writer->context, value);
  add(writer, text.text, text.size);
}

static void write_value(struct writer *writer, const struct jinja_value *value, int depth) {
  bool python = writer->format.python;
  if (depth > MAX_DEPTH || !ommai_scratch_work(writer->context->scratch, 1)) {
    ommai_jinja_fail_scratch(writer->context);
    return;
  }
  switch (value->kind) {
    case JINJA_NONE: add_string(writer, python ? "None" : "null"); break;
    case JINJA_BOOLEAN:
      if (python) {
        write_plain(writer, value);
      } else {
        add_string(writer, value->truth ? "true" : "false");
      }
      break;
    case JINJA_TEXT_VALUE: write_text(writer, value->text, value->size); break;
    case JINJA_LIST: write_list(writer, value, depth); break;
    case JINJA_DICT: write_dict(writer, value, depth); break;
    case JINJA_WHOLE:
    case JINJA_REAL: write_plain(writer, value); break;
    case JINJA_UNDEFINED:
      if (python) {
        add_string(writer, "Undefined");
        break;
      } /* fall through */
    default: ommai_jinja_fail(writer->context, "tojson: this value has no JSON"); break;
  }
}

struct jinja_value ommai_jinja_write(struct jinja_context *context, const struct jinja_value *value,
                                     const struct jinja_format *format) {
  struct writer writer = {.context = context, .format = *format};
  write_value(&writer, value, 0);
  return ommai_jinja_text(writer.out.data, writer.out.size);
}

/* ---- from a text ---- */

struct jinja_value ommai_jinja_copy(struct jinja_context *context, const struct jinja_value *text) {
  char *copy = ommai_scratch_take(context->scratch, text->size, 1);
  if (!copy) return ommai_jinja_fail_scratch(context);
  memcpy(copy, text->text, text->size);
  return ommai_jinja_text(copy, text->size);
}

/* A value whose texts and members lie in the scratch. */
static struct jinja_value copy_json(struct jinja_context *context, const json_t *json) {
  struct jinja_value value = ommai_jinja_from_json(json);
  if (context->failed || !ommai_scratch_work(context->scratch, 1)) return ommai_jinja_fail_scratch(context);
  if (value.kind == JINJA_TEXT_VALUE) return ommai_jinja_copy(context, &value);
  if (value.kind == JINJA_LIST) {
    struct jinja_value *items = ommai_jinja_take_items(context, value.size);
    for (size_t i = 0; items && i < value.size; i++) items[i] = copy_json(context, json_array_get(json, i));
    return ommai_jinja_list(items, items ? value.size : 0);
  }
  if (value.kind != JINJA_DICT) return value;
  size_t n;
  struct jinja_value dict = {.kind = JINJA_DICT, .dict = ommai_scratch_take(context->scratch, 1, sizeof *dict.dict)};
  const struct jinja_pair *pairs = dict.dict ? ommai_jinja_dict_pairs(context, &value, &n) : NULL;
  if (!pairs) return ommai_jinja_fail_scratch(context);
  for (size_t i = 0; i < n && !context->failed; i++) {
    const json_t *member = json_object_getn(json, pairs[i].key.text, pairs[i].key.size);
    ommai_jinja_dict_set(context, dict.dict, ommai_jinja_copy(context, &pairs[i].key), copy_json(context, member));
  }
  return dict;
}

struct jinja_value ommai_jinja_read_json(struct jinja_context *context, const struct jinja_value *text) {
  json_error_t reason;
  bool no_memory;
  if (text->kind != JINJA_TEXT_VALUE) return ommai_jinja_fail(context, "from_json takes a text");
  json_t *json = ommai_json_parse(text->text, text->size, JSON_ALLOW_NUL | JSON_DECODE_ANY, &reason, &no_memory);
  if (!json) return ommai_jinja_fail(context, "from_json: %s", no_memory ? "memory is out" : reason.text);
  struct jinja_value value = copy_json(context, json);
  json_decref(json);
  return value;
}

/* ---- order ---- */

void ommai_jinja_sort(struct jinja_context *context, struct jinja_value *items, struct jinja_value *keys, size_t n,
                      bool falling) {
  for (size_t i = 1; i < n && ommai_scratch_work(context->scratch, (int64_t)i); i++) {
    struct jinja_value item = items[i], key = keys[i];
    size_t at = i;
    for (; at > 0 && !context->failed; at--) {
      int order = ommai_jinja_compare(context, &keys[at - 1], &key);
      if (falling ? order >= 0 : order <= 0) break;
      items[at] = items[at - 1];
      keys[at] = keys[at - 1];
    }
    items[at] = item;
    keys[at] = key;
  }
}
