#include "grammar/json_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

static int32_t add_digits(struct ommai_json_text *json, int32_t from, int min, int max, int32_t to) {
  int32_t rule = ommai_builder_rule(json->builder);
  struct ommai_grammar_rule ends = ommai_builder_ends(json->builder, rule);
  ommai_builder_range(json->builder, ends.start, '0', '9', ends.end);
  ommai_builder_repeat(json->builder, from, rule, min, max, to);
  return to;
}

static void make_space(struct ommai_json_text *json, struct ommai_grammar_rule ends) {
  struct ommai_grammar_builder *builder = json->builder;
  ommai_builder_empty(builder, ends.start, ends.end);
  if (json->compact) return;
  ommai_builder_range(builder, ends.start, ' ', ' ', ends.end);
  int32_t blank = ommai_builder_rule(builder), line = ommai_builder_text(builder, ends.start, "\n");
  struct ommai_grammar_rule inside = ommai_builder_ends(builder, blank);
  ommai_builder_range(builder, inside.start, ' ', ' ', inside.end);
  ommai_builder_range(builder, inside.start, '\t', '\t', inside.end);
  ommai_builder_repeat(builder, line, blank, 0, OMMAI_JSON_MAX_INDENT, ends.end);
}

/* n hexadecimal digits. */
static int32_t add_hex(struct ommai_grammar_builder *builder, int32_t from, int n, int32_t to) {
  for (int i = 0; i < n; i++) {
    int32_t next = i == n - 1 ? to : ommai_builder_node(builder);
    ommai_builder_range(builder, from, '0', '9', next);
    ommai_builder_range(builder, from, 'A', 'F', next);
    ommai_builder_range(builder, from, 'a', 'f', next);
    from = next;
  }
  return to;
}

static void add_either(struct ommai_grammar_builder *builder, int32_t from, const char *characters, int32_t to) {
  for (; *characters; characters++) ommai_builder_range(builder, from, *characters, *characters, to);
}

/* \uHHHH: a character, or two halves of one. */
static void add_unicode_escape(struct ommai_grammar_builder *builder, int32_t from, int32_t to) {
  int32_t letter = ommai_builder_text(builder, from, "u"), plain = ommai_builder_node(builder), d = ommai_builder_node(builder);
  add_either(builder, letter, "0123456789abcefABCEF", plain);
  add_hex(builder, plain, 3, to);
  add_either(builder, letter, "dD", d);
  int32_t below = ommai_builder_node(builder), high = ommai_builder_node(builder), half = ommai_builder_node(builder);
  add_either(builder, d, "01234567", below);
  add_hex(builder, below, 2, to);
  add_either(builder, d, "89abAB", high);
  add_hex(builder, high, 2, half);
  int32_t second = ommai_builder_text(builder, half, "\\u"), low_d = ommai_builder_node(builder),
          low = ommai_builder_node(builder);
  add_either(builder, second, "dD", low_d);
  add_either(builder, low_d, "cdefCDEF", low);
  add_hex(builder, low, 2, to);
}

static void make_char(struct ommai_json_text *json, struct ommai_grammar_rule ends) {
  struct ommai_grammar_builder *builder = json->builder;
  ommai_builder_chars(builder, ends.start, 0x20, '"' - 1, OMMAI_CHARS_RAW, ends.end);
  ommai_builder_chars(builder, ends.start, '"' + 1, '\\' - 1, OMMAI_CHARS_RAW, ends.end);
  ommai_builder_chars(builder, ends.start, '\\' + 1, OMMAI_MAX_CODE_POINT, OMMAI_CHARS_RAW, ends.end);
  int32_t escape = ommai_builder_text(builder, ends.start, "\\");
  add_either(builder, escape, "\"\\/bfnrt", ends.end);
  add_unicode_escape(builder, escape, ends.end);
}

static void make_string(struct ommai_json_text *json, struct ommai_grammar_rule ends) {
  int32_t open = ommai_builder_text(json->builder, ends.start, "\""), close = ommai_builder_node(json->builder);
  ommai_builder_repeat(json->builder, open, ommai_json_rule(json, OMMAI_JSON_CHAR), 0, OMMAI_GRAMMAR_NO_MAX, close);
  ommai_builder_range(json->builder, close, '"', '"', ends.end);
}

/* 0, or digits that do not begin with it. */
static void add_whole(struct ommai_json_text *json, int32_t from, int32_t to) {
  int32_t first = ommai_builder_node(json->builder);
  ommai_builder_range(json->builder, from, '0', '0', to);
  ommai_builder_range(json->builder, from, '1', '9', first);
  add_digits(json, first, 0, OMMAI_JSON_MAX_INTEGER_DIGITS - 1, to);
}

static void make_integer(struct ommai_json_text *json, struct ommai_grammar_rule ends) {
  int32_t minus = ommai_builder_text(json->builder, ends.start, "-"), first = ommai_builder_node(json->builder);
  add_whole(json, ends.start, ends.end);
  ommai_builder_range(json->builder, minus, '1', '9', first);
  add_digits(json, first, 0, OMMAI_JSON_MAX_INTEGER_DIGITS - 1, ends.end);
}

static void make_number(struct ommai_json_text *json, struct ommai_grammar_rule ends) {
  struct ommai_grammar_builder *builder = json->builder;
  int32_t minus = ommai_builder_text(builder, ends.start, "-"), whole = ommai_builder_node(builder);
  int32_t fraction = ommai_builder_node(builder), exponent = ommai_builder_node(builder), sign = ommai_builder_node(builder);
  add_whole(json, ends.start, whole);
  add_whole(json, minus, whole);
  add_digits(json, ommai_builder_text(builder, whole, "."), 1, OMMAI_JSON_MAX_FRACTION_DIGITS, fraction);
  ommai_builder_empty(builder, whole, fraction);
  ommai_builder_empty(builder, fraction, ends.end);
  add_either(builder, fraction, "eE", exponent);
  add_either(builder, exponent, "+-", sign);
  ommai_builder_empty(builder, exponent, sign);
  add_digits(json, sign, 1, OMMAI_JSON_MAX_EXPONENT_DIGITS, ends.end);
}

/* open, members with commas between, close. */
static void add_members(struct ommai_json_text *json, struct ommai_grammar_rule ends, const char *open, int32_t member,
                        const char *close) {
  struct ommai_grammar_builder *builder = json->builder;
  int32_t first = ommai_json_spaced(json, ends.start, false, open, true), after = ommai_builder_node(builder);
  ommai_builder_call(builder, first, member, after);
  ommai_builder_call(builder, ommai_json_spaced(json, after, true, ",", true), member, after);
  ommai_builder_range(builder, ommai_json_add(json, after, OMMAI_JSON_SPACE), close[0], close[0], ends.end);
  ommai_builder_range(builder, first, close[0], close[0], ends.end);
}

static void make_object(struct ommai_json_text *json, struct ommai_grammar_rule ends) {
  int32_t member = ommai_builder_rule(json->builder);
  struct ommai_grammar_rule inside = ommai_builder_ends(json->builder, member);
  int32_t key = ommai_json_add(json, inside.start, OMMAI_JSON_STRING);
  int32_t value = ommai_json_spaced(json, key, false, ":", true);
  ommai_builder_call(json->builder, value, ommai_json_rule(json, OMMAI_JSON_VALUE), inside.end);
  add_members(json, ends, "{", member, "}");
}

static void make_array(struct ommai_json_text *json, struct ommai_grammar_rule ends) {
  add_members(json, ends, "[", ommai_json_rule(json, OMMAI_JSON_VALUE), "]");
}

static void make_value(struct ommai_json_text *json, struct ommai_grammar_rule ends) {
  static const char *const words[] = {"true", "false", "null"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    ommai_builder_empty(json->builder, ommai_builder_text(json->builder, ends.start, words[i]), ends.end);
  }
  for (enum ommai_json_piece piece = OMMAI_JSON_STRING; piece < OMMAI_JSON_VALUE; piece++) {
    if (piece != OMMAI_JSON_INTEGER) ommai_builder_call(json->builder, ends.start, ommai_json_rule(json, piece), ends.end);
  }
}

int32_t ommai_json_rule(struct ommai_json_text *json, enum ommai_json_piece piece) {
  static void (*const makers[OMMAI_JSON_N_PIECES])(struct ommai_json_text *, struct ommai_grammar_rule) = {
      [OMMAI_JSON_SPACE] = make_space,     [OMMAI_JSON_CHAR] = make_char,     [OMMAI_JSON_STRING] = make_string,
      [OMMAI_JSON_INTEGER] = make_integer, [OMMAI_JSON_NUMBER] = make_number, [OMMAI_JSON_ARRAY] = make_array,
      [OMMAI_JSON_OBJECT] = make_object,   [OMMAI_JSON_VALUE] = make_value};
  if (json->rules[piece]) return json->rules[piece] - 1;
  int32_t rule = ommai_builder_rule(json->builder);
  json->rules[piece] = rule + 1; /* before it is filled: a value may be in a value */
  if (!ommai_builder_failed(json->builder)) makers[piece](json, ommai_builder_ends(json->builder, rule));
  return rule;
}

int32_t ommai_json_add(struct ommai_json_text *json, int32_t from, enum ommai_json_piece piece) {
  if (piece == OMMAI_JSON_SPACE && json->compact) return from;
  int32_t to = ommai_builder_node(json->builder);
  ommai_builder_call(json->builder, from, ommai_json_rule(json, piece), to);
  return to;
}

int32_t ommai_json_spaced(struct ommai_json_text *json, int32_t from, bool before, const char *text, bool after) {
  if (before) from = ommai_json_add(json, from, OMMAI_JSON_SPACE);
  from = ommai_builder_text(json->builder, from, text);
  return after ? ommai_json_add(json, from, OMMAI_JSON_SPACE) : from;
}

/* ---- values as they are ---- */

struct writer {
  struct ommai_scratch *scratch;
  char *bytes;
  size_t size, capacity;
};

static void put(struct writer *writer, const char *bytes, size_t size) {
  for (size_t i = 0; i < size; i++) {
    if (!ommai_scratch_grow(writer->scratch, (void **)&writer->bytes, &writer->capacity, writer->size, 1)) return;
    writer->bytes[writer->size++] = bytes[i];
  }
}

static void put_string(struct writer *writer, const char *text, size_t size) {
  static const char SHORT[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* pairs: the character, its letter */
  put(writer, "\"", 1);
  for (size_t i = 0; i < size; i++) {
    char escape[8];
    const char *found = text[i] ? memchr(SHORT, text[i], sizeof SHORT - 1) : NULL;
    bool is_short = (text[i] == '"' || text[i] == '\\' || (unsigned char)text[i] < 0x20) && found && (found - SHORT) % 2 == 0;
    if (is_short) {
      put(writer, (char[]){'\\', found[1]}, 2);
    } else if ((unsigned char)text[i] < 0x20) {
      snprintf(escape, sizeof escape, "\\u%04x", (unsigned char)text[i]);
      put(writer, escape, 6);
    } else {
      put(writer, text + i, 1);
    }
  }
  put(writer, "\"", 1);
}

/* The fewest digits that give the same double, with a point or exponent so that it stays one. */
static void put_real(struct writer *writer, double value) {
  char text[40];
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(text, sizeof text - 2, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  if (!strpbrk(text, ".e")) memcpy(text + strlen(text), ".0", 3);
  put(writer, text, strlen(text));
}

static bool put_value(struct writer *writer, const json_t *value, int depth);

static bool put_container(struct writer *writer, const json_t *value, int depth) {
  const char *key;
  json_t *member;
  size_t index, n = 0;
  if (depth == OMMAI_JSON_MAX_VALUE_DEPTH) return false;
  put(writer, json_is_object(value) ? "{" : "[", 1);
  json_array_foreach(value, index, member) {
    if (index) put(writer, ",", 1);
    if (!put_value(writer, member, depth + 1)) return false;
  }
  json_object_foreach((json_t *)value, key, member) {
    if (n++) put(writer, ",", 1);
    put_string(writer, key, strlen(key));
    put(writer, ":", 1);
    if (!put_value(writer, member, depth + 1)) return false;
  }
  put(writer, json_is_object(value) ? "}" : "]", 1);
  return true;
}

static bool put_value(struct writer *writer, const json_t *value, int depth) {
  char text[32];
  const char *large = ommai_json_large(value);
  if (large) return put(writer, large, strlen(large)), true;
  switch (json_typeof(value)) {
    case JSON_OBJECT:
    case JSON_ARRAY: return put_container(writer, value, depth);
    case JSON_STRING: put_string(writer, json_string_value(value), json_string_length(value)); break;
    case JSON_INTEGER:
      snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
      put(writer, text, strlen(text));
      break;
    case JSON_REAL: put_real(writer, json_real_value(value)); break;
    case JSON_TRUE: put(writer, "true", 4); break;
    case JSON_FALSE: put(writer, "false", 5); break;
    case JSON_NULL: put(writer, "null", 4); break;
  }
  return true;
}

static enum omma_status finish(const struct writer *writer, struct ommai_literal *text, struct omma_error *error) {
  if (!ommai_scratch_work(writer->scratch, (int64_t)writer->size)) return ommai_scratch_fail(writer->scratch, error);
  *text = (struct ommai_literal){writer->bytes, writer->size};
  return OMMA_OK;
}

enum omma_status ommai_json_write(struct ommai_scratch *scratch, const json_t *value, struct ommai_literal *text,
                                  struct omma_error *error) {
  struct writer writer = {.scratch = scratch};
  if (!put_value(&writer, value, 0)) {
    return ommai_fail(error, OMMA_ERROR_LIMIT, "a value is nested deeper than %d levels", OMMAI_JSON_MAX_VALUE_DEPTH);
  }
  return finish(&writer, text, error);
}

enum omma_status ommai_json_quote(struct ommai_scratch *scratch, const char *text, size_t size, struct ommai_literal *out,
                                  struct omma_error *error) {
  struct writer writer = {.scratch = scratch};
  put_string(&writer, text, size);
  return finish(&writer, out, error);
}
