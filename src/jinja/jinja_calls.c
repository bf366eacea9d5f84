/* Filters, tests and the environment's functions. */
#include "jinja/jinja_calls.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- arguments ---- */

const struct jinja_function *ommai_jinja_find(const struct jinja_function *list, const char *name, size_t size) {
  for (; list->name; list++) {
    if (strlen(list->name) == size && memcmp(list->name, name, size) == 0) return list;
  }
  return NULL;
}

struct jinja_value ommai_jinja_run(struct jinja_context *context, const struct jinja_function *function,
                                   const struct jinja_value *self, const struct jinja_arguments *arguments) {
  if (context->failed) return ommai_jinja_none();
  if (arguments->n > function->max_arguments) {
    return ommai_jinja_fail(context, "%s takes at most %d arguments here", function->name, function->max_arguments);
  }
  return function->run(context, self, arguments);
}

const struct jinja_value *ommai_jinja_argument(const struct jinja_arguments *arguments, int place, const char *name) {
  for (int i = 0; i < arguments->n; i++) {
    const struct jinja_argument *item = &arguments->items[i];
    if (item->name ? name && strlen(name) == item->name_size && memcmp(name, item->name, item->name_size) == 0 : i == place) {
      return &item->value;
    }
  }
  return NULL;
}

int64_t ommai_jinja_whole_argument(struct jinja_context *context, const struct jinja_arguments *arguments, int place,
                                   const char *name, int64_t standard) {
  const struct jinja_value *value = ommai_jinja_argument(arguments, place, name);
  if (!value || value->kind == JINJA_NONE) return standard;
  if (value->kind == JINJA_WHOLE || value->kind == JINJA_BOOLEAN) return ommai_jinja_to_whole(value);
  ommai_jinja_fail(context, "%s must be an integer", name);
  return standard;
}

/* Each has the form of jinja_function.run; those that need no arguments leave them aside. */
#define CALL(name)                                                                                                      \
  static struct jinja_value name(__attribute__((unused)) struct jinja_context *context, const struct jinja_value *self, \
                                 __attribute__((unused)) const struct jinja_arguments *arguments)

static const struct jinja_value *argument(const struct jinja_arguments *arguments, int place, const char *name) {
  return ommai_jinja_argument(arguments, place, name);
}

/* ---- filters ---- */

CALL(filter_length) {
  if (self->kind == JINJA_DICT) return ommai_jinja_whole((int64_t)ommai_jinja_dict_size(self));
  struct jinja_value list = ommai_jinja_iterate(context, self);
  return ommai_jinja_whole((int64_t)list.size);
}

CALL(filter_trim) {
  struct jinja_value text = ommai_jinja_to_text(context, self);
  return ommai_jinja_strip(context, &text, argument(arguments, 0, "chars"), true, true);
}

/* json.dumps' separators: of items, and after keys. */
static bool read_separators(const struct jinja_value *pair, struct jinja_format *format) {
  if (!pair || pair->kind == JINJA_NONE) return true;
  if (pair->kind != JINJA_LIST || pair->size != 2) return false;
  format->between = ommai_jinja_list_item(pair, 0);
  format->after_key = ommai_jinja_list_item(pair, 1);
  return format->between.kind == JINJA_TEXT_VALUE && format->after_key.kind == JINJA_TEXT_VALUE;
}

CALL(filter_tojson) {
  const struct jinja_value *ascii = argument(arguments, 0, "ensure_ascii"), *sorted = argument(arguments, 3, "sort_keys");
  int64_t spaces = ommai_jinja_whole_argument(context, arguments, 1, "indent", -1);
  struct jinja_format format = {.ascii = ascii && ommai_jinja_truth(ascii), .sorted = sorted && ommai_jinja_truth(sorted)};
  if (spaces < -1 || spaces > 16) return ommai_jinja_fail(context, "tojson: indent must be 0 to 16");
  format.indent = (int)spaces;
  if (!read_separators(argument(arguments, 2, "separators"), &format)) {
    return ommai_jinja_fail(context, "tojson: separators must be two texts");
  }
  return ommai_jinja_write(context, self, &format);
}

CALL(filter_join) {
  const struct jinja_value *between = argument(arguments, 0, "d");
  struct jinja_value list = ommai_jinja_iterate(context, self);
  if (argument(arguments, 1, "attribute")) return ommai_jinja_fail(context, "join with an attribute is not supported");
  struct jinja_value text = between ? ommai_jinja_to_text(context, between) : ommai_jinja_text("", 0);
  return ommai_jinja_join(context, &list, &text);
}

CALL(filter_first) {
  struct jinja_value list = ommai_jinja_iterate(context, self);
  return list.size ? ommai_jinja_list_item(&list, 0) : (struct jinja_value){.kind = JINJA_UNDEFINED};
}

CALL(filter_last) {
  struct jinja_value list = ommai_jinja_iterate(context, self);
  return list.size ? ommai_jinja_list_item(&list, list.size - 1) : (struct jinja_value){.kind = JINJA_UNDEFINED};
}

CALL(filter_list) {
  struct jinja_value list = ommai_jinja_iterate(context, self);
  list.form = JINJA_AS_LIST;
  return list;
}

CALL(filter_reverse) {
  const struct jinja_value bounds[3] = {ommai_jinja_none(), ommai_jinja_none(), ommai_jinja_whole(-1)};
  struct jinja_value list = ommai_jinja_slice(context, self, bounds);
  return list.kind == JINJA_LIST ? ommai_jinja_view(list) : list;
}

CALL(filter_default) {
  const struct jinja_value *value = argument(arguments, 0, "default_value"), *falsy = argument(arguments, 1, "boolean");
  bool missing = self->kind == JINJA_UNDEFINED || (falsy && ommai_jinja_truth(falsy) && !ommai_jinja_truth(self));
  if (!missing) return *self;
  return value ? *value : ommai_jinja_text("", 0);
}

CALL(filter_string) { return ommai_jinja_to_text(context, self); }

CALL(filter_items) {
  if (self->kind == JINJA_UNDEFINED) return ommai_jinja_list(NULL, 0);
  if (self->kind != JINJA_DICT) return ommai_jinja_fail(context, "items: not an object");
  return ommai_jinja_view(ommai_jinja_dict_list(context, self, 'i'));
}

/* ---- order ---- */

/* An attribute that a filter's argument names: dots lead from member to member, and digits are
 * places. */
static struct jinja_value attribute_of(struct jinja_context *context, const struct jinja_value *item,
                                       const struct jinja_value *attribute) {
  struct jinja_value value = *item;
  if (attribute->kind != JINJA_TEXT_VALUE) return ommai_jinja_item(context, item, attribute);
  for (size_t at = 0, end; at <= attribute->size && !context->failed; at = end + 1) {
    int64_t place = 0;
    bool digits = true;
    for (end = at; end < attribute->size && attribute->text[end] != '.'; end++) {
      digits = digits && attribute->text[end] >= '0' && attribute->text[end] <= '9' && end - at < 9;
      if (digits) place = 10 * place + attribute->text[end] - '0';
    }
    struct jinja_value part =
        digits && end > at ? ommai_jinja_whole(place) : ommai_jinja_text((char *)attribute->text + at, end - at);
    value = ommai_jinja_item(context, &value, &part);
  }
  return value;
}

/* Texts in lower case, unless `exact` is true. */
static struct jinja_value folded(struct jinja_context *context, const struct jinja_value *key,
                                 const struct jinja_value *exact) {
  bool folds = key->kind == JINJA_TEXT_VALUE && !(exact && ommai_jinja_truth(exact));
  return folds ? ommai_jinja_change_case(context, key, 'l') : *key;
}

/* What a member counts as: its attribute, where one is named; folded as case_sensitive says. */
static struct jinja_value key_of(struct jinja_context *context, const struct jinja_value *item,
                                 const struct jinja_arguments *arguments, int place) {
  const struct jinja_value *exact = argument(arguments, place, "case_sensitive"),
                           *attribute = argument(arguments, place + 1, "attribute");
  struct jinja_value key = attribute && attribute->kind != JINJA_NONE ? attribute_of(context, item, attribute) : *item;
  return folded(context, &key, exact);
}

/* A copy of the members of a value, which the caller may change, and their keys. */
static size_t take_members(struct jinja_context *context, const struct jinja_value *self,
                           const struct jinja_arguments *arguments, int place, struct jinja_value **items,
                           struct jinja_value **keys) {
  struct jinja_value list = ommai_jinja_iterate(context, self);
  *items = ommai_jinja_take_items(context, list.size);
  *keys = ommai_jinja_take_items(context, list.size);
  if (!*items || !*keys) return 0;
  for (size_t i = 0; i < list.size && !context->failed; i++) {
    (*items)[i] = ommai_jinja_list_item(&list, i);
    (*keys)[i] = key_of(context, &(*items)[i], arguments, place);
  }
  return context->failed ? 0 : list.size;
}

CALL(filter_sort) {
  const struct jinja_value *falling = argument(arguments, 0, "reverse");
  struct jinja_value *items, *keys;
  size_t n = take_members(context, self, arguments, 1, &items, &keys);
  ommai_jinja_sort(context, items, keys, n, falling && ommai_jinja_truth(falling));
  return ommai_jinja_list(items, n);
}

static struct jinja_value find_extreme(struct jinja_context *context, const struct jinja_value *self,
                                       const struct jinja_arguments *arguments, int sign) {
  struct jinja_value *items, *keys;
  size_t n = take_members(context, self, arguments, 0, &items, &keys), best = 0;
  for (size_t i = 1; i < n; i++) {
    if (ommai_jinja_compare(context, &keys[i], &keys[best]) * sign > 0) best = i;
  }
  return n ? items[best] : (struct jinja_value){.kind = JINJA_UNDEFINED};
}

CALL(filter_min) { return find_extreme(context, self, arguments, -1); }
CALL(filter_max) { return find_extreme(context, self, arguments, 1); }

CALL(filter_unique) {
  struct jinja_value *items, *keys;
  size_t n = take_members(context, self, arguments, 0, &items, &keys), kept = 0;
  for (size_t i = 0; i < n; i++) {
    struct jinja_value known = ommai_jinja_list(keys, kept);
    if (ommai_jinja_contains(context, &known, &keys[i])) continue;
    keys[kept] = keys[i];
    items[kept++] = items[i];
  }
  return ommai_jinja_view(ommai_jinja_list(items, kept));
}

CALL(filter_dictsort) {
  if (self->kind != JINJA_DICT) return ommai_jinja_fail(context, "dictsort: not an object");
  struct jinja_value list = ommai_jinja_dict_list(context, self, 'i'), *keys = ommai_jinja_take_items(context, list.size);
  const struct jinja_value *exact = argument(arguments, 0, "case_sensitive"), *by = argument(arguments, 1, "by"),
                           *falling = argument(arguments, 2, "reverse");
  bool by_value = by && by->kind == JINJA_TEXT_VALUE && by->size == 5 && !memcmp(by->text, "value", 5);
  bool by_key = !by || (by->kind == JINJA_TEXT_VALUE && by->size == 3 && !memcmp(by->text, "key", 3));
  if (!by_value && !by_key) return ommai_jinja_fail(context, "dictsort: by is 'key' or 'value'");
  for (size_t i = 0; keys && i < list.size; i++) keys[i] = folded(context, &list.items[i].items[by_value], exact);
  if (!context->failed) {
    ommai_jinja_sort(context, (struct jinja_value *)(uintptr_t)list.items, keys, list.size,
                     falling && ommai_jinja_truth(falling));
  }
  return list;
}

CALL(filter_upper) {
  struct jinja_value text = ommai_jinja_to_text(context, self);
  return ommai_jinja_change_case(context, &text, 'u');
}

CALL(filter_lower) {
  struct jinja_value text = ommai_jinja_to_text(context, self);
  return ommai_jinja_change_case(context, &text, 'l');
}

CALL(filter_title) {
  struct jinja_value text = ommai_jinja_to_text(context, self);
  return ommai_jinja_change_case(context, &text, 'w');
}

CALL(filter_capitalize) {
  struct jinja_value text = ommai_jinja_to_text(context, self);
  return ommai_jinja_change_case(context, &text, 'c');
}

CALL(filter_replace) {
  struct jinja_value text = ommai_jinja_to_text(context, self);
  return ommai_jinja_replace(context, &text, argument(arguments, 0, "old"), argument(arguments, 1, "new"),
                             ommai_jinja_whole_argument(context, arguments, 2, "count", -1));
}

CALL(filter_safe) {
  struct jinja_value text = ommai_jinja_to_text(context, self);
  text.safe = true;
  return text;
}

/* Python's int of a text in base 10, blanks around it and underlines aside; *whole is set where it
 * is one. */
static bool read_whole(const struct jinja_value *text, int64_t *whole) {
  char copy[32], *end;
  if (text->size == 0 || text->size >= sizeof copy || !strchr("+-0123456789", text->text[0])) return false;
  memcpy(copy, text->text, text->size);
  copy[text->size] = '\0';
  errno = 0;
  *whole = strtoll(copy, &end, 10);
  return end == copy + text->size && !errno;
}

static bool read_real(const struct jinja_value *text, double *real) {
  char copy[64];
  if (text->size == 0 || text->size >= sizeof copy || strspn(text->text, "+-0123456789.eE") < text->size) return false;
  memcpy(copy, text->text, text->size);
  copy[text->size] = '\0';
  bool digits = strpbrk(copy, "0123456789") != NULL, whole = strspn(copy + 1, "0123456789.") + 1 == text->size;
  *real = ommai_jinja_read_float(copy);
  return digits && (whole || strpbrk(copy, "eE"));
}

/* A number of a value, or the default. */
static struct jinja_value to_number(struct jinja_context *context, const struct jinja_value *self,
                                    const struct jinja_arguments *arguments, bool whole) {
  const struct jinja_value *standard = argument(arguments, 0, "default");
  struct jinja_value text = *self, result = standard ? *standard : whole ? ommai_jinja_whole(0) : ommai_jinja_real(0);
  int64_t integer;
  double real = 0;
  if (self->kind == JINJA_UNDEFINED) return ommai_jinja_fail(context, "an undefined value is no number");
  if (argument(arguments, 1, "base")) return ommai_jinja_fail(context, "int with a base is not supported");
  if (ommai_jinja_is_number(self) && self->kind != JINJA_REAL) {
    return whole ? ommai_jinja_whole(ommai_jinja_to_whole(self)) : ommai_jinja_real(ommai_jinja_to_real(self));
  }
  if (self->kind == JINJA_TEXT_VALUE) text = ommai_jinja_strip(context, self, NULL, true, true);
  if (self->kind == JINJA_TEXT_VALUE && whole && read_whole(&text, &integer)) return ommai_jinja_whole(integer);
  bool found = self->kind == JINJA_REAL || (self->kind == JINJA_TEXT_VALUE && read_real(&text, &real));
  if (!found) return result;
  if (self->kind == JINJA_REAL) real = self->real;
  if (!whole) return ommai_jinja_real(real);
  if (!(fabs(real) < 9e18)) return ommai_jinja_fail(context, "int: a number is out of range");
  return ommai_jinja_whole((int64_t)real);
}

CALL(filter_int) { return to_number(context, self, arguments, true); }
CALL(filter_float) { return to_number(context, self, arguments, false); }
CALL(filter_from_json) { return ommai_jinja_read_json(context, self); }

/* Python's text % values, of %s, %d and %%. */
CALL(filter_format) {
  struct jinja_value text = ommai_jinja_to_text(context, self);
  struct jinja_buffer out = {0};
  int used = 0;
  for (size_t at = 0; at < text.size && !context->failed; at++) {
    char kind = text.text[at] == '%' && at + 1 < text.size ? text.text[at + 1] : '\0';
    if (text.text[at] != '%') {
      ommai_jinja_append(context, &out, text.text + at, 1);
    } else if (kind == '%') {
      ommai_jinja_append(context, &out, "%", 1);
    } else if ((kind == 's' || kind == 'd') && used < arguments->n && !arguments->items[used].name) {
      const struct jinja_value *value = &arguments->items[used++].value;
      bool number = value->kind == JINJA_WHOLE || value->kind == JINJA_BOOLEAN;
      if (kind == 'd' && !number) return ommai_jinja_fail(context, "format: %%d of this value is not supported");
      struct jinja_value whole = number && kind == 'd' ? ommai_jinja_whole(ommai_jinja_to_whole(value)) : *value;
      struct jinja_value written = ommai_jinja_to_text(context, &whole);
      ommai_jinja_append(context, &out, written.text, written.size);
    } else {
      return ommai_jinja_fail(context, "format: this is not supported, or a value is missing");
    }
    at += text.text[at] == '%';
  }
  if (used < arguments->n) return ommai_jinja_fail(context, "format: there are more values than places");
  return ommai_jinja_text(out.data, out.size);
}

CALL(filter_abs) {
  if (self->kind == JINJA_REAL) return ommai_jinja_real(self->real < 0 ? -self->real : self->real);
  if (!ommai_jinja_is_number(self)) return ommai_jinja_fail(context, "abs: not a number");
  int64_t whole = ommai_jinja_to_whole(self);
  return whole == INT64_MIN ? ommai_jinja_fail(context, "abs: too large") : ommai_jinja_whole(whole < 0 ? -whole : whole);
}

/* Lines but the first get blanks in front; empty ones too where `blank` is true. */
CALL(filter_indent) {
  int64_t width = ommai_jinja_whole_argument(context, arguments, 0, "width", 4);
  const struct jinja_value *first = argument(arguments, 1, "first"), *blank = argument(arguments, 2, "blank");
  struct jinja_value text = ommai_jinja_to_text(context, self);
  struct jinja_buffer out = {0};
  if (width < 0 || width > 64) return ommai_jinja_fail(context, "indent: width must be 0 to 64");
  for (size_t at = 0; at < text.size && !context->failed;) {
    const char *end = memchr(text.text + at, '\n', text.size - at);
    size_t size = end ? (size_t)(end - text.text) - at + 1 : text.size - at;
    bool empty = text.text[at] == '\n',
         wanted = at ? !empty || (blank && ommai_jinja_truth(blank)) : first && ommai_jinja_truth(first);
    for (int64_t i = 0; wanted && i < width; i++) ommai_jinja_append(context, &out, " ", 1);
    ommai_jinja_append(context, &out, text.text + at, size);
    at += size;
  }
  return ommai_jinja_text(out.data, out.size);
}

/* ---- filters over members ---- */

/* The arguments from `from` on, without the names of map's own. */
static struct jinja_arguments rest_of(const struct jinja_arguments *arguments, int from) {
  struct jinja_arguments rest = {.n = 0};
  for (int i = from; i < arguments->n; i++) rest.items[rest.n++] = arguments->items[i];
  return rest;
}

/* What map, select and their like go through: nothing of what is false, as jinja2. */
static struct jinja_value members_of(struct jinja_context *context, const struct jinja_value *self) {
  return ommai_jinja_truth(self) ? ommai_jinja_iterate(context, self) : ommai_jinja_list(NULL, 0);
}

CALL(filter_map) {
  const struct jinja_value *attribute = argument(arguments, -1, "attribute"), *standard = argument(arguments, -1, "default");
  const struct jinja_value *name = argument(arguments, 0, NULL);
  const struct jinja_function *filter =
      name && name->kind == JINJA_TEXT_VALUE ? ommai_jinja_find_filter(name->text, name->size) : NULL;
  struct jinja_value list = members_of(context, self), *items = ommai_jinja_take_items(context, list.size);
  struct jinja_arguments rest = rest_of(arguments, 1);
  if (!attribute && !filter) return ommai_jinja_fail(context, "map takes a supported filter's name or an attribute");
  for (size_t i = 0; items && i < list.size && !context->failed; i++) {
    struct jinja_value item = ommai_jinja_list_item(&list, i);
    items[i] = attribute ? attribute_of(context, &item, attribute) : ommai_jinja_run(context, filter, &item, &rest);
    if (attribute && standard && items[i].kind == JINJA_UNDEFINED) items[i] = *standard;
  }
  return ommai_jinja_view(ommai_jinja_list(items, items ? list.size : 0));
}

/* Those members for which a test gives `wanted`; of an attribute where `by_attribute`. */
static struct jinja_value choose(struct jinja_context *context, const struct jinja_value *self,
                                 const struct jinja_arguments *arguments, bool by_attribute, bool wanted) {
  const struct jinja_value *attribute = by_attribute ? argument(arguments, 0, NULL) : NULL,
                           *name = argument(arguments, by_attribute, NULL);
  const struct jinja_function *test =
      name && name->kind == JINJA_TEXT_VALUE ? ommai_jinja_find_test(name->text, name->size) : NULL;
  struct jinja_value list = members_of(context, self), *items = ommai_jinja_take_items(context, list.size);
  struct jinja_arguments rest = rest_of(arguments, by_attribute + 1);
  size_t n = 0;
  if ((name && !test) || (by_attribute && !attribute)) return ommai_jinja_fail(context, "a supported test's name is missing");
  for (size_t i = 0; items && i < list.size && !context->failed; i++) {
    struct jinja_value item = ommai_jinja_list_item(&list, i), of = item;
    if (attribute) of = attribute_of(context, &item, attribute);
    struct jinja_value result = test ? ommai_jinja_run(context, test, &of, &rest) : of;
    if (ommai_jinja_truth(&result) == wanted) items[n++] = item;
  }
  return ommai_jinja_view(ommai_jinja_list(items, n));
}

CALL(filter_select) { return choose(context, self, arguments, false, true); }
CALL(filter_reject) { return choose(context, self, arguments, false, false); }
CALL(filter_selectattr) { return choose(context, self, arguments, true, true); }
CALL(filter_rejectattr) { return choose(context, self, arguments, true, false); }

static const struct jinja_function filters[] = {{"length", filter_length, 0},
                                                {"count", filter_length, 0},
                                                {"trim", filter_trim, 1},
                                                {"tojson", filter_tojson, 4},
                                                {"join", filter_join, 2},
                                                {"first", filter_first, 0},
                                                {"last", filter_last, 0},
                                                {"list", filter_list, 0},
                                                {"reverse", filter_reverse, 0},
                                                {"default", filter_default, 2},
                                                {"d", filter_default, 2},
                                                {"string", filter_string, 0},
                                                {"items", filter_items, 0},
                                                {"dictsort", filter_dictsort, 3},
                                                {"upper", filter_upper, 0},
                                                {"lower", filter_lower, 0},
                                                {"title", filter_title, 0},
                                                {"capitalize", filter_capitalize, 0},
                                                {"replace", filter_replace, 3},
                                                {"safe", filter_safe, 0},
                                                {"abs", filter_abs, 0},
                                                {"indent", filter_indent, 3},
                                                {"int", filter_int, 2},
                                                {"float", filter_float, 1},
                                                {"min", filter_min, 2},
                                                {"max", filter_max, 2},
                                                {"sort", filter_sort, 3},
                                                {"unique", filter_unique, 2},
                                                {"from_json", filter_from_json, 0},
                                                {"format", filter_format, OMMAI_JINJA_MAX_ARGUMENTS},
                                                {"map", filter_map, 4},
                                                {"select", filter_select, 3},
                                                {"reject", filter_reject, 3},
                                                {"selectattr", filter_selectattr, 4},
                                                {"rejectattr", filter_rejectattr, 4},
                                                {NULL, NULL, 0}};

const struct jinja_function *ommai_jinja_find_filter(const char *name, size_t size) {
  return ommai_jinja_find(filters, name, size);
}

/* ---- tests ---- */

#define TEST(name, condition) \
  CALL(name) { return ommai_jinja_boolean(condition); }

TEST(test_defined, self->kind != JINJA_UNDEFINED)
TEST(test_undefined, self->kind == JINJA_UNDEFINED)
TEST(test_none, self->kind == JINJA_NONE)
TEST(test_boolean, self->kind == JINJA_BOOLEAN)
TEST(test_true, self->kind == JINJA_BOOLEAN && self->truth)
TEST(test_false, self->kind == JINJA_BOOLEAN && !self->truth)
TEST(test_integer, self->kind == JINJA_WHOLE)
TEST(test_float, self->kind == JINJA_REAL)
TEST(test_number, ommai_jinja_is_number(self))
TEST(test_string, self->kind == JINJA_TEXT_VALUE)
TEST(test_mapping, self->kind == JINJA_DICT)
TEST(test_sequence,
     self->kind == JINJA_UNDEFINED || self->kind == JINJA_LIST || self->kind == JINJA_TEXT_VALUE || self->kind == JINJA_DICT)
TEST(test_iterable, self->kind == JINJA_LIST || self->kind == JINJA_TEXT_VALUE || self->kind == JINJA_DICT ||
                        self->kind == JINJA_UNDEFINED || self->kind == JINJA_LOOP)
TEST(test_callable, self->kind == JINJA_MACRO || self->kind == JINJA_FUNCTION)

static struct jinja_value divided(struct jinja_context *context, const struct jinja_value *self, int64_t by, int64_t rest) {
  if (self->kind != JINJA_WHOLE && self->kind != JINJA_BOOLEAN) return ommai_jinja_fail(context, "not an integer");
  if (by == 0) return ommai_jinja_fail(context, "division by zero");
  return ommai_jinja_boolean(by == -1 ? rest == 0 : (ommai_jinja_to_whole(self) % by != 0) == (rest != 0));
}

CALL(test_odd) { return divided(context, self, 2, 1); }
CALL(test_even) { return divided(context, self, 2, 0); }
CALL(test_divisible) { return divided(context, self, ommai_jinja_whole_argument(context, arguments, 0, "num", 0), 0); }

CALL(test_equal) {
  const struct jinja_value *other = argument(arguments, 0, "other");
  return other ? ommai_jinja_boolean(ommai_jinja_equal(context, self, other))
               : ommai_jinja_fail(context, "a test has nothing to compare with");
}

CALL(test_unequal) {
  struct jinja_value equal = test_equal(context, self, arguments);
  return ommai_jinja_boolean(!ommai_jinja_truth(&equal));
}

CALL(test_in) {
  const struct jinja_value *other = argument(arguments, 0, "seq");
  return other ? ommai_jinja_boolean(ommai_jinja_contains(context, other, self))
               : ommai_jinja_fail(context, "a test has nothing to look in");
}

static const struct jinja_function tests[] = {{"defined", test_defined, 0},
                                              {"undefined", test_undefined, 0},
                                              {"none", test_none, 0},
                                              {"boolean", test_boolean, 0},
                                              {"true", test_true, 0},
                                              {"false", test_false, 0},
                                              {"integer", test_integer, 0},
                                              {"float", test_float, 0},
                                              {"number", test_number, 0},
                                              {"string", test_string, 0},
                                              {"mapping", test_mapping, 0},
                                              {"sequence", test_sequence, 0},
                                              {"iterable", test_iterable, 0},
                                              {"callable", test_callable, 0},
                                              {"odd", test_odd, 0},
                                              {"even", test_even, 0},
                                              {"divisibleby", test_divisible, 1},
                                              {"eq", test_equal, 1},
                                              {"equalto", test_equal, 1},
                                              {"==", test_equal, 1},
                                              {"ne", test_unequal, 1},
                                              {"!=", test_unequal, 1},
                                              {"in", test_in, 1},
                                              {NULL, NULL, 0}};

const struct jinja_function *ommai_jinja_find_test(const char *name, size_t size) {
  return ommai_jinja_find(tests, name, size);
}

/* ---- functions ---- */

CALL(make_namespace) {
  (void)self;
  struct jinja_value space = {.kind = JINJA_NAMESPACE, .dict = ommai_scratch_take(context->scratch, 1, sizeof *space.dict)};
  if (!space.dict) return ommai_jinja_fail_scratch(context);
  for (int i = 0; i < arguments->n; i++) {
    const struct jinja_argument *item = &arguments->items[i];
    if (!item->name) return ommai_jinja_fail(context, "namespace takes named arguments");
    ommai_jinja_dict_set(context, space.dict, ommai_jinja_text(item->name, item->name_size), item->value);
  }
  return space;
}

CALL(make_dict) {
  struct jinja_value dict = make_namespace(context, self, arguments);
  if (dict.kind == JINJA_NAMESPACE) dict.kind = JINJA_DICT;
  return dict;
}

CALL(make_range) {
  (void)self;
  bool two = arguments->n > 1;
  int64_t begin = two ? ommai_jinja_whole_argument(context, arguments, 0, "start", 0) : 0;
  int64_t end = ommai_jinja_whole_argument(context, arguments, two, "stop", 0);
  /* as jinja2's sandbox */
  int64_t step = ommai_jinja_whole_argument(context, arguments, 2, "step", 1), limit = 100000;
  if (step == 0 || step < -limit || step > limit || begin < -INT32_MAX || begin > INT32_MAX || end < -INT32_MAX ||
      end > INT32_MAX) {
    return ommai_jinja_fail(context, "range: a number is out of range");
  }
  int64_t span = step > 0 ? end - begin : begin - end, stride = step > 0 ? step : -step,
          n = span > 0 ? (span + stride - 1) / stride : 0;
  if (n > limit) return ommai_jinja_fail(context, "range: more than %lld numbers", (long long)limit);
  struct jinja_value *items = ommai_jinja_take_items(context, (size_t)n);
  for (int64_t i = 0; items && i < n; i++) items[i] = ommai_jinja_whole(begin + i * step);
  return ommai_jinja_view(ommai_jinja_list(items, items ? (size_t)n : 0));
}

/* The local time, as Python's datetime.now().strftime(format). */
CALL(strftime_now) {
  (void)self;
  const struct jinja_value *wish = argument(arguments, 0, "format");
  char format[128], text[512];
  struct tm parts;
  const time_t now = time(NULL);
  if (!wish || wish->kind != JINJA_TEXT_VALUE || wish->size >= sizeof format || memchr(wish->text, '\0', wish->size)) {
    return ommai_jinja_fail(context, "strftime_now takes a format of at most %zu bytes", sizeof format - 1);
  }
  memcpy(format, wish->text, wish->size);
  format[wish->size] = '\0';
  if (strstr(format, "%f")) return ommai_jinja_fail(context, "strftime_now: %%f is not supported");
  if (!localtime_r(&now, &parts)) return ommai_jinja_fail(context, "strftime_now: there is no time");
  const struct jinja_value written = ommai_jinja_text(text, strftime(text, sizeof text, format, &parts));
  return ommai_jinja_copy(context, &written);
}

CALL(raise_exception) {
  (void)self;
  const struct jinja_value *message = argument(arguments, 0, "message");
  struct jinja_value text = message ? ommai_jinja_to_text(context, message) : ommai_jinja_text("", 0);
  return ommai_jinja_fail(context, "%.*s", text.size > 300 ? 300 : (int)text.size, text.text);
}

static const struct jinja_function globals[] = {{"namespace", make_namespace, OMMAI_JINJA_MAX_ARGUMENTS},
                                                {"dict", make_dict, OMMAI_JINJA_MAX_ARGUMENTS},
                                                {"range", make_range, 3},
                                                {"raise_exception", raise_exception, 1},
                                                {"strftime_now", strftime_now, 1},
                                                {NULL, NULL, 0}};

const struct jinja_function *ommai_jinja_find_global(const char *name, size_t size) {
  return ommai_jinja_find(globals, name, size);
}
