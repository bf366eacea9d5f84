#include "grammar/regex_class.h"

#include <string.h>

#include "base/error.h"
#include "base/text_buffer.h"
#include "text/utf8.h"

/* What \s may match: ASCII, and the rest of what ECMA-262 or Python take for a space. */
static const struct ommai_char_range ASCII_SPACES[] = {{'\t', '\r'}, {' ', ' '}};
static const struct ommai_char_range OTHER_SPACES[] = {{0x1c, 0x1f},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
                                                       {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f},
                                                       {0x3000, 0x3000}, {0xfeff, 0xfeff}};
static const struct ommai_char_range DIGITS[] = {{'0', '9'}};
static const struct ommai_char_range WORD[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const struct ommai_char_range NOT_ASCII[] = {{0x80, OMMAI_MAX_CODE_POINT}};
static const struct ommai_char_range LINE_ENDS[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

#define ADD_ALL(text, chars, table) add_all(text, chars, table, sizeof(table) / sizeof(table)[0])

static enum omma_status fail_at(const struct ommai_regex_text *text, enum omma_status status, const char *what,
                                struct omma_error *error) {
  return ommai_fail(error, status, "the pattern's byte %zu: %s", text->at, what);
}

static void add_all(struct ommai_regex_text *text, struct ommai_chars *chars, const struct ommai_char_range *ranges, size_t n) {
  for (size_t i = 0; i < n; i++) ommai_chars_add(text->scratch, chars, ranges[i].low, ranges[i].high);
}

/* \d \w \s: those that every engine takes; with `outer` those that any does. */
static void add_named(struct ommai_regex_text *text, char name, bool outer, struct ommai_chars *chars) {
  if (name == 's') ADD_ALL(text, chars, ASCII_SPACES);
  if (name == 'd') ADD_ALL(text, chars, DIGITS);
  if (name == 'w') ADD_ALL(text, chars, WORD);
  if (outer && name == 's') ADD_ALL(text, chars, OTHER_SPACES);
  if (outer && name != 's') ADD_ALL(text, chars, NOT_ASCII);
}

/* The same, and \D \W \S, which are all that the other bound of the small letter leaves. */
static void add_escaped_class(struct ommai_regex_text *text, char name, bool outer, struct ommai_chars *chars) {
  struct ommai_chars named = {0}, rest;
  if (name >= 'a') {
    add_named(text, name, outer, chars);
    return;
  }
  add_named(text, (char)(name - 'A' + 'a'), !outer, &named);
  ommai_chars_normalise(text->scratch, &named);
  ommai_chars_complement(text->scratch, &named, &rest);
  add_all(text, chars, rest.ranges, rest.n);
}

/* n hexadecimal digits. */
static bool take_hex(struct ommai_regex_text *text, size_t n, uint32_t *code) {
  uint32_t digit;
  for (*code = 0; n > 0; n--, text->at++) {
    if (text->at == text->size || !ommai_hex_read(text->bytes + text->at, 1, &digit)) return false;
    *code = *code * 16 + digit;
  }
  return true;
}

/* HHHH or {H...} after \u; two surrogates are one character. */
static bool take_unicode(struct ommai_regex_text *text, uint32_t *code) {
  uint32_t low, digit;
  if (text->at < text->size && text->bytes[text->at] == '{') {
    text->at++;
    for (*code = 0; take_hex(text, 1, &digit);) {
      *code = *code * 16 + digit;
      if (*code > OMMAI_MAX_CODE_POINT) return false;
    }
    return text->at < text->size && text->bytes[text->at++] == '}';
  }
  if (!take_hex(text, 4, code)) return false;
  if (*code < 0xd800 || *code > 0xdbff || text->size - text->at < 6 || memcmp(text->bytes + text->at, "\\u", 2)) return true;
  text->at += 2;
  if (!take_hex(text, 4, &low) || low < 0xdc00 || low > 0xdfff) return false;
  *code = 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00);
  return true;
}

/* An escape that is one character; the text stands after the backslash. */
static enum omma_status take_escape(struct ommai_regex_text *text, bool in_class, uint32_t *code, struct omma_error *error) {
  static const char LETTERS[] = "t\tn\nr\rf\fv\v";
  char c = text->bytes[text->at++];
  for (size_t i = 0; i + 1 < sizeof LETTERS; i += 2) {
    if (c == LETTERS[i]) return *code = (unsigned char)LETTERS[i + 1], OMMA_OK;
  }
  if (c == '0') return *code = 0, OMMA_OK;
  if (c == 'b' && in_class) return *code = '\b', OMMA_OK;
  if (c == 'x') return take_hex(text, 2, code) ? OMMA_OK : fail_at(text, OMMA_ERROR_FORMAT, "\\x needs two hex digits", error);
  if (c == 'u')
    return take_unicode(text, code) ? OMMA_OK : fail_at(text, OMMA_ERROR_FORMAT, "not a code point after \\u", error);
  if (c == 'c' && text->at < text->size && ((text->bytes[text->at] | 0x20) >= 'a') && ((text->bytes[text->at] | 0x20) <= 'z')) {
    return *code = (unsigned char)text->bytes[text->at++] % 32, OMMA_OK;
  }
  if ((c >= '1' && c <= '9') || c == 'k')
    return fail_at(text, OMMA_ERROR_UNSUPPORTED, "backreferences are not supported", error);
  if (c == 'b' || c == 'B') return fail_at(text, OMMA_ERROR_UNSUPPORTED, "\\b and \\B are not supported", error);
  if (c == 'p' || c == 'P') return fail_at(text, OMMA_ERROR_UNSUPPORTED, "Unicode properties (\\p) are not supported", error);
  if ((unsigned char)c >= 0x80 || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z')) {
    return fail_at(text, OMMA_ERROR_FORMAT, "an escape that is not known", error);
  }
  return *code = (unsigned char)c, OMMA_OK;
}

static uint32_t take_character(struct ommai_regex_text *text) {
  size_t length;
  uint32_t code = ommai_utf8_decode(text->bytes + text->at, &length);
  text->at += length;
  return code;
}

/* One member of a class, or one character outside of them: *is_set for \d and its like, which are
 * added to chars; else *code. */
static enum omma_status take_member(struct ommai_regex_text *text, bool in_class, bool outer, struct ommai_chars *chars,
                                    bool *is_set, uint32_t *code, struct omma_error *error) {
  *is_set = false;
  if (text->bytes[text->at] != '\\') return *code = take_character(text), OMMA_OK;
  text->at++;
  if (text->at == text->size) return fail_at(text, OMMA_ERROR_FORMAT, "a backslash at the end", error);
  char c = text->bytes[text->at];
  if (!memchr("dwsDWS", c, 6)) return take_escape(text, in_class, code, error);
  *is_set = true;
  text->at++;
  add_escaped_class(text, c, outer, chars);
  return OMMA_OK;
}

/* a, a-b or \d in brackets. */
static enum omma_status take_range(struct ommai_regex_text *text, bool outer, struct ommai_chars *chars,
                                   struct omma_error *error) {
  bool is_set, end_is_set = false;
  uint32_t low, high;
  OMMAI_TRY(take_member(text, true, outer, chars, &is_set, &low, error));
  if (is_set) return OMMA_OK;
  high = low;
  if (text->size - text->at >= 2 && text->bytes[text->at] == '-' && text->bytes[text->at + 1] != ']') {
    text->at++;
    OMMAI_TRY(take_member(text, true, outer, chars, &end_is_set, &high, error));
    if (end_is_set || high < low) return fail_at(text, OMMA_ERROR_FORMAT, "a range that ends before it begins", error);
  }
  ommai_chars_add(text->scratch, chars, low, high);
  return OMMA_OK;
}

static enum omma_status take_brackets(struct ommai_regex_text *text, struct ommai_chars *chars, struct omma_error *error) {
  struct ommai_chars inside = {0};
  bool negated = text->at < text->size && text->bytes[text->at] == '^';
  text->at += negated;
  while (text->at < text->size && text->bytes[text->at] != ']') OMMAI_TRY(take_range(text, negated, &inside, error));
  if (text->at == text->size) return fail_at(text, OMMA_ERROR_FORMAT, "a class without its closing bracket", error);
  text->at++;
  ommai_chars_normalise(text->scratch, &inside);
  *chars = inside;
  if (negated) ommai_chars_complement(text->scratch, &inside, chars);
  return OMMA_OK;
}

enum omma_status ommai_regex_class_read(struct ommai_regex_text *text, struct ommai_chars *chars, struct omma_error *error) {
  struct ommai_chars inside = {0};
  bool is_set;
  uint32_t code;
  if (text->bytes[text->at] == '[') {
    text->at++;
    OMMAI_TRY(take_brackets(text, chars, error));
  } else if (text->bytes[text->at] == '.') {
    text->at++;
    ADD_ALL(text, &inside, LINE_ENDS);
    ommai_chars_complement(text->scratch, &inside, chars);
  } else {
    OMMAI_TRY(take_member(text, false, false, &inside, &is_set, &code, error));
    if (!is_set) ommai_chars_add(text->scratch, &inside, code, code);
    ommai_chars_normalise(text->scratch, &inside);
    *chars = inside;
  }
  return ommai_scratch_check(text->scratch, error);
}
