/* Methods of texts and dicts. */
#include <string.h>

#include "jinja/jinja_calls.h"
#include "text/utf8.h"

/* ---- texts ---- */

/* Python's str.isspace of one character. */
static bool is_blank(uint32_t code) { return (code >= 0x1C && code <= 0x1F) || ommai_utf8_white_space(code); }

static bool is_stripped(const char *at, size_t length, const struct jinja_value *characters) {
  uint32_t code;
  if (characters) return memmem(characters->text, characters->size, at, length) != NULL;
  return ommai_utf8_next(at, length, &length, &code) == OMMAI_UTF8_VALID && is_blank(code);
}

/* The bytes of the character at the beginning, or before the end. */
static size_t character_size(const char *text, size_t size, bool last) {
  size_t length = 1;
  uint32_t code;
  if (last) {
    while (length < size && length < OMMAI_UTF8_MAX_BYTES && ((unsigned char)text[size - length] & 0xC0) == 0x80) length++;
    size_t whole;
    return ommai_utf8_next(text + size - length, length, &whole, &code) == OMMAI_UTF8_VALID && whole == length ? length : 1;
  }
  return ommai_utf8_next(text, size, &length, &code) == OMMAI_UTF8_VALID ? length : 1;
}

struct jinja_value ommai_jinja_strip(struct jinja_context *context, const struct jinja_value *text,
                                     const struct jinja_value *characters, bool left, bool right) {
  if (text->kind != JINJA_TEXT_VALUE) return ommai_jinja_fail(context, "only texts can be stripped");
  if (characters && characters->kind == JINJA_NONE) characters = NULL;
  if (characters && characters->kind != JINJA_TEXT_VALUE) return ommai_jinja_fail(context, "strip takes a text");
  const char *at = text->text;
  size_t size = text->size;
  while (left && size) {
    size_t length = character_size(at, size, false);
    if (!is_stripped(at, length, characters)) break;
    at += length;
    size -= length;
  }
  while (right && size) {
    size_t length = character_size(at, size, true);
    if (!is_stripped(at + size - length, length, characters)) break;
    size -= length;
  }
  return (struct jinja_value){.kind = JINJA_TEXT_VALUE, .safe = text->safe, .size = size, .text = at};
}

static struct jinja_value strip(struct jinja_context *context, const struct jinja_value *self,
                                const struct jinja_arguments *arguments) {
  return ommai_jinja_strip(context, self, ommai_jinja_argument(arguments, 0, NULL), true, true);
}

static struct jinja_value strip_left(struct jinja_context *context, const struct jinja_value *self,
                                     const struct jinja_arguments *arguments) {
  return ommai_jinja_strip(context, self, ommai_jinja_argument(arguments, 0, NULL), true, false);
}

static struct jinja_value strip_right(struct jinja_context *context, const struct jinja_value *self,
                                      const struct jinja_arguments *arguments) {
  return ommai_jinja_strip(context, self, ommai_jinja_argument(arguments, 0, NULL), false, true);
}

static bool has_affix(const struct jinja_value *text, const struct jinja_value *affix, bool end) {
  return affix->size <= text->size &&
         (!affix->size || memcmp(text->text + (end ? text->size - affix->size : 0), affix->text, affix->size) == 0);
}

/* One text, or any of a tuple. */
static struct jinja_value check_affix(struct jinja_context *context, const struct jinja_value *self,
                                      const struct jinja_arguments *arguments, bool end) {
  const struct jinja_value *affix = ommai_jinja_argument(arguments, 0, NULL);
  if (!affix || (affix->kind != JINJA_TEXT_VALUE && affix->kind != JINJA_LIST)) {
    return ommai_jinja_fail(context, "startswith and endswith take a text");
  }
  if (affix->kind == JINJA_TEXT_VALUE) return ommai_jinja_boolean(has_affix(self, affix, end));
  for (size_t i = 0; i < affix->size; i++) {
    struct jinja_value item = ommai_jinja_list_item(affix, i);
    if (item.kind == JINJA_TEXT_VALUE && has_affix(self, &item, end)) return ommai_jinja_boolean(true);
  }
  return ommai_jinja_boolean(false);
}

static struct jinja_value starts_with(struct jinja_context *context, const struct jinja_value *self,
                                      const struct jinja_arguments *arguments) {
  return check_affix(context, self, arguments, false);
}

static struct jinja_value ends_with(struct jinja_context *context, const struct jinja_value *self,
                                    const struct jinja_arguments *arguments) {
  return check_affix(context, self, arguments, true);
}

/* The end of the piece that begins at `at`: before the next separator. */
static const char *piece_end(const char *at, const char *end, const struct jinja_value *separator, size_t *mark) {
  if (separator) {
    const char *found = memmem(at, (size_t)(end - at), separator->text, separator->size);
    *mark = found ? separator->size : 0;
    return found ? found : end;
  }
  for (const char *i = at; i < end; i += *mark) {
    *mark = character_size(i, (size_t)(end - i), false);
    if (is_stripped(i, *mark, NULL)) return i;
  }
  *mark = 0;
  return end;
}

static struct jinja_value split(struct jinja_context *context, const struct jinja_value *self,
                                const struct jinja_arguments *arguments) {
  const struct jinja_value *separator = ommai_jinja_argument(arguments, 0, "sep");
  int64_t max_count = ommai_jinja_whole_argument(context, arguments, 1, "maxsplit", -1);
  if (separator && separator->kind == JINJA_NONE) separator = NULL;
  if (separator && (separator->kind != JINJA_TEXT_VALUE || !separator->size)) {
    return ommai_jinja_fail(context, "split takes a text that is not empty");
  }
  struct jinja_value rest = separator ? *self : ommai_jinja_strip(context, self, NULL, true, max_count < 0), *items = NULL;
  size_t n = 0, capacity = 0, mark = 1;
  for (const char *at = rest.text, *end = at + rest.size; mark && (separator || at < end);) {
    const char *stop = max_count >= 0 && (int64_t)n >= max_count ? (mark = 0, end) : piece_end(at, end, separator, &mark);
    if (!ommai_scratch_grow(context->scratch, (void **)&items, &capacity, n, sizeof *items))
      return ommai_jinja_fail_scratch(context);
    items[n++] = ommai_jinja_text(at, (size_t)(stop - at));
    rest = ommai_jinja_text(stop + mark, (size_t)(end - stop) - mark);
    at = separator ? rest.text : ommai_jinja_strip(context, &rest, NULL, true, false).text;
  }
  return ommai_jinja_list(items, n);
}

struct jinja_value ommai_jinja_replace(struct jinja_context *context, const struct jinja_value *text,
                                       const struct jinja_value *from, const struct jinja_value *to, int64_t max_count) {
  struct jinja_buffer out = {0};
  if (!from || !to || from->kind != JINJA_TEXT_VALUE || to->kind != JINJA_TEXT_VALUE || !from->size) {
    return ommai_jinja_fail(context, "replace takes two texts, the first not empty");
  }
  const char *at = text->text, *end = at + text->size, *found;
  for (; max_count != 0 && (found = memmem(at, (size_t)(end - at), from->text, from->size)); max_count--) {
    ommai_jinja_append(context, &out, at, (size_t)(found - at));
    if (!ommai_jinja_append(context, &out, to->text, to->size)) break;
    at = found + from->size;
  }
  ommai_jinja_append(context, &out, at, (size_t)(end - at));
  return ommai_jinja_text(out.data, out.size);
}

static struct jinja_value replace(struct jinja_context *context, const struct jinja_value *self,
                                  const struct jinja_arguments *arguments) {
  return ommai_jinja_replace(context, self, ommai_jinja_argument(arguments, 0, NULL), ommai_jinja_argument(arguments, 1, NULL),
                             ommai_jinja_whole_argument(context, arguments, 2, "count", -1));
}

struct jinja_value ommai_jinja_change_case(struct jinja_context *context, const struct jinja_value *text, char how) {
  char *out = text->kind == JINJA_TEXT_VALUE ? ommai_scratch_take(context->scratch, text->size, 1) : NULL;
  /* of a word, which for the filter begins after blanks, hyphens and brackets alone */
  bool inside = false;
  if (text->kind != JINJA_TEXT_VALUE) return ommai_jinja_fail(context, "only texts have upper and lower case");
  if (!out) return ommai_jinja_fail_scratch(context);
  for (size_t i = 0; i < text->size; i++) {
    char byte = text->text[i];
    if ((unsigned char)byte >= 0x80)
      return ommai_jinja_fail(context, "upper and lower case of letters beyond ASCII is not supported");
    bool letter = (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z';
    bool upper = how == 'u' || ((how == 't' || how == 'w') && !inside) || (how == 'c' && i == 0);
    out[i] = !letter ? byte : upper ? (char)(byte & ~0x20) : (char)(byte | 0x20);
    inside = how == 'w' ? !memchr(" \t\n\v\f\r\x1c\x1d\x1e\x1f-({[<", byte, 15) : letter;
  }
  return ommai_jinja_text(out, text->size);
}

#define CASE_METHOD(name, how)                                                                  \
  static struct jinja_value name(struct jinja_context *context, const struct jinja_value *self, \
                                 const struct jinja_arguments *arguments) {                     \
    (void)arguments;                                                                            \
    return ommai_jinja_change_case(context, self, how);                                         \
  }

CASE_METHOD(upper, 'u')
CASE_METHOD(lower, 'l')
CASE_METHOD(title, 't')
CASE_METHOD(capitalize, 'c')

struct jinja_value ommai_jinja_join(struct jinja_context *context, const struct jinja_value *list,
                                    const struct jinja_value *between) {
  struct jinja_buffer out = {0};
  for (size_t i = 0; i < list->size && !context->failed; i++) {
    struct jinja_value item = ommai_jinja_list_item(list, i), text = ommai_jinja_to_text(context, &item);
    if (i && between) ommai_jinja_append(context, &out, between->text, between->size);
    ommai_jinja_append(context, &out, text.text, text.size);
  }
  return ommai_jinja_text(out.data, out.size);
}

static struct jinja_value join(struct jinja_context *context, const struct jinja_value *self,
                               const struct jinja_arguments *arguments) {
  const struct jinja_value *list = ommai_jinja_argument(arguments, 0, NULL);
  if (!list || list->kind != JINJA_LIST) return ommai_jinja_fail(context, "join takes a list");
  return ommai_jinja_join(context, list, self);
}

/* The value that a place of format() names: the next one, its number, or its name. */
static const struct jinja_value *find_place(const struct jinja_arguments *arguments, const char *name, size_t size, int *next) {
  if (size == 0) return ommai_jinja_argument(arguments, (*next)++, NULL);
  if (size == 1 && name[0] >= '0' && name[0] <= '9') return ommai_jinja_argument(arguments, name[0] - '0', NULL);
  for (int i = 0; i < arguments->n; i++) {
    const struct jinja_argument *item = &arguments->items[i];
    if (item->name && item->name_size == size && !memcmp(item->name, name, size)) return &item->value;
  }
  return NULL;
}

/* Python's str.format, of places without a format of their own. */
static struct jinja_value format(struct jinja_context *context, const struct jinja_value *self,
                                 const struct jinja_arguments *arguments) {
  struct jinja_buffer out = {0};
  int next = 0;
  for (size_t at = 0; at < self->size && !context->failed; at++) {
    const char *mark = self->text + at, *end = self->text + self->size;
    bool brace = *mark == '{' || *mark == '}';
    if (!brace || (mark + 1 < end && mark[1] == *mark)) {
      ommai_jinja_append(context, &out, mark, 1);
      at += brace;
      continue;
    }
    const char *close = memchr(mark, '}', (size_t)(end - mark));
    const struct jinja_value *value =
        *mark == '{' && close ? find_place(arguments, mark + 1, (size_t)(close - mark) - 1, &next) : NULL;
    if (!value) return ommai_jinja_fail(context, "format: this is not supported, or a value is missing");
    struct jinja_value text = ommai_jinja_to_text(context, value);
    ommai_jinja_append(context, &out, text.text, text.size);
    at += (size_t)(close - mark);
  }
  return ommai_jinja_text(out.data, out.size);
}

static const struct jinja_function text_methods[] = {{"strip", strip, 1},
                                                     {"lstrip", strip_left, 1},
                                                     {"rstrip", strip_right, 1},
                                                     {"startswith", starts_with, 1},
                                                     {"endswith", ends_with, 1},
                                                     {"split", split, 2},
                                                     {"replace", replace, 3},
                                                     {"upper", upper, 0},
                                                     {"lower", lower, 0},
                                                     {"title", title, 0},
                                                     {"capitalize", capitalize, 0},
                                                     {"join", join, 1},
                                                     {"format", format, OMMAI_JINJA_MAX_ARGUMENTS},
                                                     {NULL, NULL, 0}};

/* ---- dicts ---- */

struct jinja_value ommai_jinja_dict_list(struct jinja_context *context, const struct jinja_value *dict, char what) {
  size_t n;
  const struct jinja_pair *pairs = ommai_jinja_dict_pairs(context, dict, &n);
  struct jinja_value *items = ommai_jinja_take_items(context, n), *tuples = NULL;
  if (what == 'i') tuples = ommai_jinja_take_items(context, 2 * n);
  for (size_t i = 0; i < n && !context->failed; i++) {
    items[i] = what == 'k' ? pairs[i].key : pairs[i].value;
    if (what != 'i') continue;
    tuples[2 * i] = pairs[i].key;
    tuples[2 * i + 1] = pairs[i].value;
    items[i] = ommai_jinja_tuple(tuples + 2 * i, 2);
  }
  return ommai_jinja_list(items, context->failed ? 0 : n);
}

static struct jinja_value items(struct jinja_context *context, const struct jinja_value *self,
                                const struct jinja_arguments *arguments) {
  (void)arguments;
  return ommai_jinja_view(ommai_jinja_dict_list(context, self, 'i'));
}

static struct jinja_value keys(struct jinja_context *context, const struct jinja_value *self,
                               const struct jinja_arguments *arguments) {
  (void)arguments;
  return ommai_jinja_view(ommai_jinja_dict_list(context, self, 'k'));
}

static struct jinja_value values(struct jinja_context *context, const struct jinja_value *self,
                                 const struct jinja_arguments *arguments) {
  (void)arguments;
  return ommai_jinja_view(ommai_jinja_dict_list(context, self, 'v'));
}

static struct jinja_value get(struct jinja_context *context, const struct jinja_value *self,
                              const struct jinja_arguments *arguments) {
  const struct jinja_value *key = ommai_jinja_argument(arguments, 0, NULL),
                           *standard = ommai_jinja_argument(arguments, 1, NULL);
  struct jinja_value found;
  if (!key) return ommai_jinja_fail(context, "get takes a key");
  if (ommai_jinja_dict_find(context, self, key, &found)) return found;
  return standard ? *standard : ommai_jinja_none();
}

static const struct jinja_function dict_methods[] = {
    {"items", items, 0}, {"keys", keys, 0}, {"values", values, 0}, {"get", get, 2}, {NULL, NULL, 0}};

const struct jinja_function *ommai_jinja_find_method(enum jinja_kind kind, const char *name, size_t size) {
  if (kind == JINJA_TEXT_VALUE) return ommai_jinja_find(text_methods, name, size);
  return kind == JINJA_DICT ? ommai_jinja_find(dict_methods, name, size) : NULL;
}
