#include "jinja/jinja_value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "text/utf8.h"

/* Values inside values. */
enum { MAX_DEPTH = 100 };

/* ---- failures ---- */

struct jinja_value ommai_jinja_fail(struct jinja_context *context, const char *format, ...) {
  char text[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (!context->failed) {
    context->status =
        ommai_fail_field(context->error, OMMA_ERROR_ARGUMENT, "messages", "chat template, line %d: %s", context->line, text);
  }
  context->failed = true;
  return (struct jinja_value){.kind = JINJA_UNDEFINED};
}

struct jinja_value ommai_jinja_fail_scratch(struct jinja_context *context) {
  if (context->scratch->no_memory && !context->failed) {
    context->status = ommai_fail_memory(context->error, "chat template", context->scratch->bytes);
    context->failed = true;
  }
  return ommai_jinja_fail(context, "it takes more memory or work than is allowed");
}

/* ---- making ---- */

struct jinja_value ommai_jinja_none(void) {
  return (struct jinja_value){.kind = JINJA_NONE};
}
struct jinja_value ommai_jinja_boolean(bool truth) {
  return (struct jinja_value){.kind = JINJA_BOOLEAN, .truth = truth};
}
struct jinja_value ommai_jinja_whole(int64_t whole) {
  return (struct jinja_value){.kind = JINJA_WHOLE, .whole = whole};
}
struct jinja_value ommai_jinja_real(double real) {
  return (struct jinja_value){.kind = JINJA_REAL, .real = real};
}
struct jinja_value ommai_jinja_text(const char *text, size_t size) {
  return (struct jinja_value){.kind = JINJA_TEXT_VALUE, .size = size, .text = text ? text : ""};
}
struct jinja_value ommai_jinja_list(const struct jinja_value *items, size_t n) {
  return (struct jinja_value){.kind = JINJA_LIST, .size = n, .items = items};
}
struct jinja_value ommai_jinja_tuple(const struct jinja_value *items, size_t n) {
  return (struct jinja_value){.kind = JINJA_LIST, .form = JINJA_AS_TUPLE, .size = n, .items = items};
}
struct jinja_value ommai_jinja_view(struct jinja_value list) {
  list.form = JINJA_AS_VIEW;
  return list;
}

struct jinja_value ommai_jinja_from_json(const json_t *json) {
  switch (json ? json_typeof(json) : JSON_NULL) {
    case JSON_TRUE:
    case JSON_FALSE: return ommai_jinja_boolean(json_is_true(json));
    case JSON_INTEGER: return ommai_jinja_whole(json_integer_value(json));
    case JSON_REAL: return ommai_jinja_real(json_real_value(json));
    case JSON_STRING:
      if (ommai_json_large(json)) return (struct jinja_value){.kind = JINJA_WHOLE, .whole = INT64_MAX, .json = json};
      return ommai_jinja_text(json_string_value(json), json_string_length(json));
    case JSON_ARRAY: return (struct jinja_value){.kind = JINJA_LIST, .size = json_array_size(json), .json = json};
    case JSON_OBJECT: return (struct jinja_value){.kind = JINJA_DICT, .json = json};
    default: return ommai_jinja_none();
  }
}

struct jinja_value *ommai_jinja_take_items(struct jinja_context *context, size_t n) {
  struct jinja_value *items = ommai_scratch_take(context->scratch, n, sizeof *items);
  if (!items || !ommai_scratch_work(context->scratch, (int64_t)n)) {
    ommai_jinja_fail_scratch(context);
    return NULL;
  }
  return items;
}

/* ---- members ---- */

size_t ommai_jinja_list_size(const struct jinja_value *list) { return list->size; }

struct jinja_value ommai_jinja_list_item(const struct jinja_value *list, size_t index) {
  return list->json ? ommai_jinja_from_json(json_array_get(list->json, index)) : list->items[index];
}

static bool is_text(const struct jinja_value *value, const char *text, size_t size) {
  return value->kind == JINJA_TEXT_VALUE && value->size == size && memcmp(value->text, text, size) == 0;
}

bool ommai_jinja_dict_get(const struct jinja_value *dict, const char *key, size_t size, struct jinja_value *value) {
  if (dict->json) {
    const json_t *found = json_object_getn(dict->json, key, size);
    if (found) *value = ommai_jinja_from_json(found);
    return found != NULL;
  }
  for (size_t i = 0; i < dict->dict->n; i++) {
    if (!is_text(&dict->dict->pairs[i].key, key, size)) continue;
    *value = dict->dict->pairs[i].value;
    return true;
  }
  return false;
}

bool ommai_jinja_dict_find(struct jinja_context *context, const struct jinja_value *dict, const struct jinja_value *key,
                           struct jinja_value *value) {
  if (key->kind == JINJA_TEXT_VALUE) return ommai_jinja_dict_get(dict, key->text, key->size, value);
  for (size_t i = 0; !dict->json && i < dict->dict->n; i++) {
    if (!ommai_jinja_equal(context, &dict->dict->pairs[i].key, key)) continue;
    *value = dict->dict->pairs[i].value;
    return true;
  }
  return false;
}

void ommai_jinja_dict_set(struct jinja_context *context, struct jinja_dict *dict, struct jinja_value key,
                          struct jinja_value value) {
  if (key.kind != JINJA_TEXT_VALUE && !ommai_jinja_is_number(&key)) {
    ommai_jinja_fail(context, "only texts and numbers can be keys here");
    return;
  }
  for (size_t i = 0; i < dict->n; i++) {
    if (!ommai_jinja_equal(context, &dict->pairs[i].key, &key)) continue;
    dict->pairs[i].value = value;
    return;
  }
  if (!ommai_scratch_grow(context->scratch, (void **)&dict->pairs, &dict->capacity, dict->n, sizeof *dict->pairs)) {
    ommai_jinja_fail_scratch(context);
    return;
  }
  dict->pairs[dict->n++] = (struct jinja_pair){key, value};
}

size_t ommai_jinja_dict_size(const struct jinja_value *dict) {
  return dict->json ? json_object_size(dict->json) : dict->dict->n;
}

const struct jinja_pair *ommai_jinja_dict_pairs(struct jinja_context *context, const struct jinja_value *dict, size_t *n) {
  *n = ommai_jinja_dict_size(dict);
  if (!dict->json) return dict->dict->pairs;
  struct jinja_pair *pairs = ommai_scratch_take(context->scratch, *n, sizeof *pairs), *at = pairs;
  if (!pairs || !ommai_scratch_work(context->scratch, (int64_t)*n)) {
    ommai_jinja_fail_scratch(context);
    return NULL;
  }
  /* jansson's iterators ask for one that could be changed */
  json_t *object = (json_t *)(uintptr_t)dict->json;
  for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i)) {
    at->key = ommai_jinja_text(json_object_iter_key(i), json_object_iter_key_len(i));
    at++->value = ommai_jinja_from_json(json_object_iter_value(i));
  }
  return pairs;
}

/* ---- what Python does with them ---- */

bool ommai_jinja_truth(const struct jinja_value *value) {
  switch (value->kind) {
    case JINJA_UNDEFINED:
    case JINJA_NONE: return false;
    case JINJA_BOOLEAN: return value->truth;
    case JINJA_WHOLE: return value->whole != 0;
    case JINJA_REAL: return value->real != 0;
    case JINJA_TEXT_VALUE:
    case JINJA_LIST: return value->size != 0;
    case JINJA_DICT: return ommai_jinja_dict_size(value) != 0;
    default: return true;
  }
}

bool ommai_jinja_is_number(const struct jinja_value *value) {
  return value->kind == JINJA_BOOLEAN || value->kind == JINJA_WHOLE || value->kind == JINJA_REAL;
}

int64_t ommai_jinja_to_whole(const struct jinja_value *value) {
  return value->kind == JINJA_BOOLEAN ? value->truth : value->whole;
}

double ommai_jinja_to_real(const struct jinja_value *value) {
  return value->kind == JINJA_REAL ? value->real : (double)ommai_jinja_to_whole(value);
}

static bool equal(struct jinja_context *context, const struct jinja_value *a, const struct jinja_value *b, int depth);

static bool equal_dicts(struct jinja_context *context, const struct jinja_value *a, const struct jinja_value *b, int depth) {
  size_t n;
  const struct jinja_pair *pairs = ommai_jinja_dict_pairs(context, a, &n);
  bool same = pairs && n == ommai_jinja_dict_size(b);
  for (size_t i = 0; same && i < n; i++) {
    struct jinja_value other;
    same = ommai_jinja_dict_find(context, b, &pairs[i].key, &other) && equal(context, &pairs[i].value, &other, depth + 1);
  }
  return same;
}

static bool equal(struct jinja_context *context, const struct jinja_value *a, const struct jinja_value *b, int depth) {
  if (depth > MAX_DEPTH || !ommai_scratch_work(context->scratch, 1)) return ommai_jinja_fail_scratch(context), false;
  if (ommai_jinja_is_number(a) && ommai_jinja_is_number(b)) {
    if (a->kind == JINJA_REAL || b->kind == JINJA_REAL) return ommai_jinja_to_real(a) == ommai_jinja_to_real(b);
    return ommai_jinja_to_whole(a) == ommai_jinja_to_whole(b);
  }
  if (a->kind != b->kind || (a->kind == JINJA_LIST && a->form != b->form)) return false;
  switch (a->kind) {
    case JINJA_UNDEFINED:
    case JINJA_NONE: return true;
    case JINJA_TEXT_VALUE: return is_text(a, b->text, b->size);
    case JINJA_DICT: return equal_dicts(context, a, b, depth);
    case JINJA_LIST:
      for (size_t i = 0; a->size == b->size && i < a->size; i++) {
        struct jinja_value left = ommai_jinja_list_item(a, i), right = ommai_jinja_list_item(b, i);
        if (!equal(context, &left, &right, depth + 1)) return false;
      }
      return a->size == b->size;
    default: return a->dict == b->dict;
  }
}

bool ommai_jinja_equal(struct jinja_context *context, const struct jinja_value *a, const struct jinja_value *b) {
  return equal(context, a, b, 0);
}

int ommai_jinja_compare(struct jinja_context *context, const struct jinja_value *a, const struct jinja_value *b) {
  if (ommai_jinja_is_number(a) && ommai_jinja_is_number(b)) {
    if (a->kind == JINJA_REAL || b->kind == JINJA_REAL) {
      double left = ommai_jinja_to_real(a), right = ommai_jinja_to_real(b);
      return (left > right) - (left < right);
    }
    int64_t left = ommai_jinja_to_whole(a), right = ommai_jinja_to_whole(b);
    return (left > right) - (left < right);
  }
  /* bytes of UTF-8 are ordered as its characters are */
  if (a->kind == JINJA_TEXT_VALUE && b->kind == JINJA_TEXT_VALUE) {
    int order = memcmp(a->text, b->text, a->size < b->size ? a->size : b->size);
    return order ? (order > 0) - (order < 0) : (a->size > b->size) - (a->size < b->size);
  }
  ommai_jinja_fail(context, "these values have no order");
  return 0;
}

bool ommai_jinja_contains(struct jinja_context *context, const struct jinja_value *a, const struct jinja_value *b) {
  struct jinja_value found;
  switch (a->kind) {
    case JINJA_UNDEFINED: return false;
    case JINJA_DICT: return ommai_jinja_dict_find(context, a, b, &found);
    case JINJA_LIST:
      for (size_t i = 0; i < a->size && !context->failed; i++) {
        found = ommai_jinja_list_item(a, i);
        if (ommai_jinja_equal(context, &found, b)) return true;
      }
      return false;
    case JINJA_TEXT_VALUE:
      if (b->kind == JINJA_TEXT_VALUE) return !b->size || memmem(a->text, a->size, b->text, b->size);
      break;
    default: break;
  }
  ommai_jinja_fail(context, "nothing of this kind can be \"in\" the other value");
  return false;
}

static struct jinja_value characters_of(struct jinja_context *context, const struct jinja_value *text) {
  struct jinja_value *items = ommai_jinja_take_items(context, text->size);
  size_t n = 0;
  uint32_t code;
  for (size_t at = 0, length; items && at < text->size; at += length) {
    if (ommai_utf8_next(text->text + at, text->size - at, &length, &code) != OMMAI_UTF8_VALID) length = 1;
    items[n++] = ommai_jinja_text(text->text + at, length);
  }
  return ommai_jinja_list(items, n);
}

struct jinja_value ommai_jinja_iterate(struct jinja_context *context, const struct jinja_value *value) {
  size_t n = 0;
  if (value->kind == JINJA_LIST) return *value;
  if (value->kind == JINJA_UNDEFINED) return ommai_jinja_list(NULL, 0);
  if (value->kind == JINJA_TEXT_VALUE) return characters_of(context, value);
  if (value->kind != JINJA_DICT) return ommai_jinja_fail(context, "this value cannot be gone through");
  const struct jinja_pair *pairs = ommai_jinja_dict_pairs(context, value, &n);
  struct jinja_value *keys = ommai_jinja_take_items(context, n);
  for (size_t i = 0; keys && pairs && i < n; i++) keys[i] = pairs[i].key;
  return ommai_jinja_list(keys, keys ? n : 0);
}

/* ---- text ---- */

bool ommai_jinja_append(struct jinja_context *context, struct jinja_buffer *buffer, const char *text, size_t size) {
  if (context->failed) return false;
  if (size > buffer->capacity - buffer->size) {
    size_t larger = buffer->capacity < 128 ? 256 : 2 * buffer->capacity;
    if (larger < buffer->size + size) larger = buffer->size + size;
    char *data = ommai_scratch_take(context->scratch, larger, 1);
    if (!data) return ommai_jinja_fail_scratch(context), false;
    if (buffer->size) memcpy(data, buffer->data, buffer->size);
    buffer->data = data;
    buffer->capacity = larger;
  }
  if (size) memcpy(buffer->data + buffer->size, text, size);
  buffer->size += size;
  return true;
}

/* The fewest digits that read back as the same number, and the power of ten of the first. Returns
 * how many. */
static int shortest_digits(double value, char digits[20], int *power) {
  for (int precision = 0; precision < 17; precision++) {
    char text[40];
    snprintf(text, sizeof text, "%.*e", precision, value);
    if (precision < 16 && strtod(text, NULL) != value) continue;
    char *exponent = strchr(text, 'e');
    int n = 0;
    *power = (int)strtol(exponent + 1, NULL, 10);
    for (char *i = text; i < exponent; i++) {
      if (*i >= '0' && *i <= '9') digits[n++] = *i;
    }
    return n;
  }
  return 0;
}

size_t ommai_jinja_write_real(double value, char out[JINJA_REAL_SIZE]) {
  char digits[20] = "", *at = out;
  int power, n = isfinite(value) ? shortest_digits(fabs(value), digits, &power) : 0;
  if (!n) return (size_t)snprintf(out, JINJA_REAL_SIZE, "%s", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
  if (signbit(value)) *at++ = '-';
  if (power < -4 || power >= 16) {
    *at++ = digits[0];
    if (n > 1) *at++ = '.';
    for (int i = 1; i < n; i++) *at++ = digits[i];
    return (size_t)(at - out) + (size_t)snprintf(at, 8, "e%c%02d", power < 0 ? '-' : '+', abs(power));
  }
  int first = power < 0 ? power : 0, last = n - 1 > power + 1 ? n - 1 : power + 1;
  for (int i = first; i <= last; i++) { /* digit i has the power `power - i` */
    if (i == power + 1) *at++ = '.';
    *at++ = i >= 0 && i < n ? digits[i] : '0';
  }
  *at = '\0';
  return (size_t)(at - out);
}

double ommai_jinja_read_float(const char *text) {
  char *end, local[64];
  double value = strtod(text, &end);
  if (*end != '.') return value;
  snprintf(local, sizeof local, "%s", text); /* the locale has another point */
  char point[8];
  snprintf(point, sizeof point, "%.1f", 0.5);
  local[end - text] = point[1];
  return strtod(local, NULL);
}

struct jinja_value ommai_jinja_to_text(struct jinja_context *context, const struct jinja_value *value) {
  char number[JINJA_REAL_SIZE];
  size_t size;
  switch (value->kind) {
    case JINJA_TEXT_VALUE: return *value;
    case JINJA_UNDEFINED: return ommai_jinja_text("", 0);
    case JINJA_NONE: return ommai_jinja_text("None", 4);
    case JINJA_BOOLEAN: return value->truth ? ommai_jinja_text("True", 4) : ommai_jinja_text("False", 5);
    case JINJA_WHOLE:
      if (value->json) return ommai_jinja_text(ommai_json_large(value->json), strlen(ommai_json_large(value->json)));
      size = (size_t)snprintf(number, sizeof number, "%lld", (long long)value->whole);
      break;
    case JINJA_REAL: size = ommai_jinja_write_real(value->real, number); break;
    case JINJA_LIST:
    case JINJA_DICT: return ommai_jinja_write(context, value, &(struct jinja_format){.python = true, .indent = -1});
    default: return ommai_jinja_fail(context, "functions and the like are not printed");
  }
  char *text = ommai_scratch_take(context->scratch, size, 1);
  if (!text) return ommai_jinja_fail_scratch(context);
  memcpy(text, number, size);
  return ommai_jinja_text(text, size);
}
