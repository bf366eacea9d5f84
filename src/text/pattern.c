#include "text/pattern.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "text/unicode.h"
#include "text/utf8.h"

/* The general categories of Unicode: they share out all code points, so a union's complement is the
 * union of the others. */
static const char category_names[][3] = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl",
                                         "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc",
                                         "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};
enum { N_CATEGORIES = sizeof category_names / sizeof category_names[0] };

/* Scripts that split patterns name and whose members are known (tools/make_unicode_tables.py). */
static const char *const script_names[] = {"Han",   "Hiragana", "Katakana", "Hangul", "Latin",
                                           "Greek", "Hebrew",   "Thai",     "Lao",    "Khmer"};

struct reader {
  const char *pattern;
  size_t size, at;
  char *out;
  size_t used, capacity;
  struct omma_error *error;
};

static char peek(const struct reader *reader, size_t ahead) {
  return reader->at + ahead < reader->size ? reader->pattern[reader->at + ahead] : '\0';
}

static bool starts_with(const struct reader *reader, const char *text) {
  size_t n = strlen(text);
  return reader->size - reader->at >= n && memcmp(reader->pattern + reader->at, text, n) == 0;
}

static enum omma_status refuse(const struct reader *reader, const char *what) {
  size_t left = reader->size - reader->at;
  return ommai_fail(reader->error, OMMA_ERROR_UNSUPPORTED, "pattern: byte %zu: %s at \"%.*s\"", reader->at, what,
                    left < 12 ? (int)left : 12, reader->pattern + reader->at);
}

static enum omma_status put(struct reader *reader, const char *text, size_t n) {
  if (n >= reader->capacity - reader->used) {
    return ommai_fail(reader->error, OMMA_ERROR_LIMIT, "pattern: longer than %zu bytes after translation", reader->capacity);
  }
  memcpy(reader->out + reader->used, text, n);
  reader->used += n;
  reader->out[reader->used] = '\0';
  return OMMA_OK;
}

static enum omma_status put_text(struct reader *reader, const char *text) { return put(reader, text, strlen(text)); }

/* Passes on the next n bytes as they are. */
static enum omma_status copy(struct reader *reader, size_t n) {
  OMMAI_TRY(put(reader, reader->pattern + reader->at, n));
  reader->at += n;
  return OMMA_OK;
}

/* The categories, one bit each, that a name of one or two letters stands for; 0: not such a
 * name. */
static uint32_t category_bits(const char *name, size_t size) {
  uint32_t bits = 0;
  for (int i = 0; i < N_CATEGORIES; i++) {
    if ((size == 1 || size == 2) && memcmp(category_names[i], name, size) == 0) bits |= (uint32_t)1 << i;
  }
  return bits;
}

static bool is_script(const char *name, size_t size) {
  for (size_t i = 0; i < sizeof script_names / sizeof script_names[0]; i++) {
    if (strlen(script_names[i]) == size && memcmp(script_names[i], name, size) == 0) return true;
  }
  return false;
}

/* The name in \p{name} or \P{name} at the reader; NULL where the form is another one. */
static const char *property_name(const struct reader *reader, size_t *size) {
  enum { HEAD = 3 };
  const char *name = reader->pattern + reader->at + HEAD;
  if (peek(reader, 2) != '{') return NULL;
  const char *end = memchr(name, '}', reader->size - reader->at - HEAD);
  if (!end) return NULL;
  *size = (size_t)(end - name);
  return name;
}

/* \p{..} and \P{..}. PCRE2 reads a bare script name as script extensions, the official code as the
 * script. */
static enum omma_status property(struct reader *reader) {
  size_t size;
  const char *name = property_name(reader, &size);
  bool script = name && is_script(name, size);
  if (!name || (!script && !category_bits(name, size))) return refuse(reader, "unknown property");
  OMMAI_TRY(copy(reader, strlen("\\p{")));
  if (script) OMMAI_TRY(put_text(reader, "sc:"));
  return copy(reader, size + 1);
}

static enum omma_status escape(struct reader *reader) {
  char c = peek(reader, 1);
  if (c == 'p' || c == 'P') return property(reader);
  if (c == 's' || c == 'S') {
    /* PCRE2's own \s also takes U+180E, which has not been white space since Unicode 6.3. */
    reader->at += 2;
    return put_text(reader, c == 's' ? "\\p{White_Space}" : "\\P{White_Space}");
  }
  bool punctuation = c > ' ' && c < 0x7F && !strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", c);
  if (!punctuation && (c == '\0' || !strchr("rnt", c))) return refuse(reader, "unsupported escape");
  return copy(reader, 2);
}

/* The union of general categories that the class at the reader consists of, where it goes on with
 * "&&[^"; 0: another form. *end is the offset after "&&[^". */
static uint32_t categories_before_difference(const struct reader *reader, size_t *end) {
  struct reader ahead = *reader;
  uint32_t bits = 0;
  for (ahead.at++; starts_with(&ahead, "\\p");) {
    size_t size;
    const char *name = property_name(&ahead, &size);
    uint32_t more = name ? category_bits(name, size) : 0;
    if (!more) return 0;
    bits |= more;
    ahead.at = (size_t)(name - ahead.pattern) + size + 1;
  }
  if (!starts_with(&ahead, "&&[^")) return 0;
  *end = ahead.at + strlen("&&[^");
  return bits;
}

/* A character that stands for itself. Where the text has a younger one, the matcher sees its
 * stand-in: neither may be named. */
static enum omma_status literal(struct reader *reader) {
  size_t length;
  uint32_t c = ommai_utf8_decode(reader->pattern + reader->at, &length);
  if (ommai_unicode_stands_in(c) || ommai_unicode_stand_in(c) != c) return refuse(reader, "unsupported character");
  return copy(reader, length);
}

/* At the "-" in a class: with characters outside ASCII on either side it may be a range, which
 * younger ones could lie in. */
static bool is_wide_range(const struct reader *reader) {
  return peek(reader, 0) == '-' && ((reader->pattern[reader->at - 1] | peek(reader, 1)) & 0x80);
}

/* The items of a class up to its "]", which is left to the caller. */
static enum omma_status class_items(struct reader *reader) {
  if (peek(reader, 0) == ']') return refuse(reader, "empty class");
  while (reader->at < reader->size && peek(reader, 0) != ']') {
    if (peek(reader, 0) == '\\') {
      OMMAI_TRY(escape(reader));
    } else if (peek(reader, 0) == '[' || starts_with(reader, "&&") || is_wide_range(reader)) {
      return refuse(reader, "unsupported class");
    } else {
      OMMAI_TRY(literal(reader));
    }
  }
  return reader->at < reader->size ? OMMA_OK : refuse(reader, "unfinished class");
}

static enum omma_status category_difference(struct reader *reader, uint32_t bits, size_t items) {
  OMMAI_TRY(put_text(reader, "[^"));
  for (int i = 0; i < N_CATEGORIES; i++) {
    if (bits & (uint32_t)1 << i) continue;
    OMMAI_TRY(put_text(reader, "\\p{"));
    OMMAI_TRY(put_text(reader, category_names[i]));
    OMMAI_TRY(put_text(reader, "}"));
  }
  reader->at = items;
  OMMAI_TRY(class_items(reader));
  OMMAI_TRY(copy(reader, 1));
  if (peek(reader, 0) != ']') return refuse(reader, "unsupported class");
  reader->at++;
  return OMMA_OK;
}

static enum omma_status character_class(struct reader *reader) {
  size_t items;
  uint32_t bits = categories_before_difference(reader, &items);
  if (bits) return category_difference(reader, bits, items);
  OMMAI_TRY(copy(reader, peek(reader, 1) == '^' ? 2 : 1));
  OMMAI_TRY(class_items(reader));
  return copy(reader, 1);
}

static enum omma_status group(struct reader *reader) {
  static const char *const heads[] = {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!"};
  for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
    if (starts_with(reader, heads[i])) return copy(reader, strlen(heads[i]));
  }
  if (peek(reader, 1) == '?' || peek(reader, 1) == '*') return refuse(reader, "unsupported group");
  return copy(reader, 1);
}

/* {n}, {n,} or {n,m}. In this dialect "{n,m}+" repeats the repetition, "{n}?" makes it optional,
 * and "{,m}" counts from 0: all refused. */
static enum omma_status counted_quantifier(struct reader *reader) {
  size_t n = 1;
  while (peek(reader, n) >= '0' && peek(reader, n) <= '9') n++;
  if (n > 1 && peek(reader, n) == ',') n++;
  while (n > 1 && peek(reader, n) >= '0' && peek(reader, n) <= '9') n++;
  bool plain = peek(reader, n) == '}' && peek(reader, n + 1) != '+' && peek(reader, n + 1) != '?';
  if (n == 1 || !plain) return refuse(reader, "unsupported quantifier");
  return copy(reader, n + 1);
}

static enum omma_status one_item(struct reader *reader) {
  switch (peek(reader, 0)) {
    case '\\': return escape(reader);
    case '[': return character_class(reader);
    case '(': return group(reader);
    case '{': return counted_quantifier(reader);
    case '^':
    case '$': return refuse(reader, "unsupported anchor");
    default: return literal(reader);
  }
}

enum omma_status ommai_pattern_translate(const char *pattern, size_t size, char *out, size_t capacity,
                                         struct omma_error *error) {
  if (size > OMMAI_PATTERN_MAX_BYTES) {
    return ommai_fail(error, OMMA_ERROR_LIMIT, "pattern: %zu bytes, more than %d", size, OMMAI_PATTERN_MAX_BYTES);
  }
  if (memchr(pattern, '\0', size)) return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "pattern: holds a NUL character");
  struct reader reader = {pattern, size, 0, out, 0, capacity, error};
  OMMAI_TRY(put_text(&reader, ""));
  while (reader.at < reader.size) OMMAI_TRY(one_item(&reader));
  return OMMA_OK;
}
