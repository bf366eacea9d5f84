/* Numbers that jansson refuses: as strings of a noncharacter and the number's text. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/allocator.h"
#include "base/json.h"

#define MARK "\xef\xb7\x90"    /* U+FDD0 */
#define INSTEAD "\xef\xbf\xbd" /* U+FFFD, of as many bytes */
#define MARK_ESCAPE "\\ufdd0"

enum { MARK_SIZE = sizeof MARK - 1, ESCAPE_SIZE = sizeof MARK_ESCAPE - 1, N_DIGITS = 19, MAX_REAL = 400 };

static const char NUMBER_CHARS[] = "+-.0123456789Ee";

static bool is_number_char(char c) { return c && strchr(NUMBER_CHARS, c); }

/* Beyond int64, or a real beyond a double. */
static bool is_large(const char *text, size_t size) {
  bool negative = text[0] == '-';
  char copy[MAX_REAL + 1];
  if (!memchr(text, '.', size) && !memchr(text, 'e', size) && !memchr(text, 'E', size)) {
    size_t n = size - negative;
    if (n != N_DIGITS) return n > N_DIGITS && text[negative] != '0';
    return memcmp(text + negative, negative ? "9223372036854775808" : "9223372036854775807", N_DIGITS) > 0;
  }
  if (size > MAX_REAL) return false;
  memcpy(copy, text, size);
  copy[size] = 0;
  double value = strtod(copy, NULL);
  return value - value != 0;
}

/* The value of the four digits of an escape of a surrogate at text, or 0. */
static unsigned surrogate_at(const char *text, const char *end) {
  char digits[5] = "", *after;
  if (end - text < 6 || text[0] != '\\' || text[1] != 'u') return 0;
  memcpy(digits, text + 2, 4);
  unsigned long code = strtoul(digits, &after, 16);
  return after == digits + 4 && code >= 0xd800 && code <= 0xdfff ? (unsigned)code : 0;
}

/* The bytes of an escape; *lone: it is half of a pair. */
static size_t escape_size(const char *text, const char *end, bool *lone) {
  unsigned first = surrogate_at(text, end), second = first ? surrogate_at(text + 6, end) : 0;
  *lone = first && !(first < 0xdc00 && second >= 0xdc00);
  return first ? (*lone ? 6 : 12) : end - text > 1 ? 2 : 1;
}

struct rewriting {
  char *out; /* NULL: bytes are counted only */
  size_t size;
  bool halves, changed;
};

static void put(struct rewriting *rewriting, const char *bytes, size_t size) {
  if (rewriting->out) memcpy(rewriting->out + rewriting->size, bytes, size);
  rewriting->size += size;
}

/* The bytes of the mark, as it is or as an escape, at text; 0: it is not there. */
static size_t mark_size(const char *text, const char *end) {
  if (end - text >= MARK_SIZE && memcmp(text, MARK, MARK_SIZE) == 0) return MARK_SIZE;
  return end - text >= ESCAPE_SIZE && strncasecmp(text, MARK_ESCAPE, ESCAPE_SIZE) == 0 ? ESCAPE_SIZE : 0;
}

/* Whether a string may begin with it. */
static bool may_be_marked(const char *text, size_t size) {
  const char *end = text + size, *at = text;
  while ((at = memchr(at, '"', (size_t)(end - at))) != NULL) {
    if (mark_size(++at, end)) return true;
  }
  return false;
}

/* A string from its quotation mark on. */
static const char *put_string(struct rewriting *rewriting, const char *at, const char *end) {
  put(rewriting, at++, 1);
  size_t marked = mark_size(at, end);
  if (marked) put(rewriting, INSTEAD, MARK_SIZE);
  rewriting->changed |= marked > 0;
  at += marked;
  while (at < end && *at != '"') {
    bool lone = false;
    size_t size = *at == '\\' ? escape_size(at, end, &lone) : 1;
    lone = lone && rewriting->halves;
    put(rewriting, lone ? "\\ufffd" : at, size);
    rewriting->changed |= lone;
    at += size;
  }
  if (at < end) put(rewriting, at++, 1);
  return at;
}

static const char *put_number(struct rewriting *rewriting, const char *at, const char *end) {
  size_t size = 1;
  while (at + size < end && is_number_char(at[size])) size++;
  bool large = is_large(at, size);
  if (large) put(rewriting, "\"" MARK, MARK_SIZE + 1);
  put(rewriting, at, size);
  if (large) put(rewriting, "\"", 1);
  rewriting->changed |= large;
  return at + size;
}

static void rewrite(struct rewriting *rewriting, const char *text, size_t size) {
  const char *at = text, *end = text + size;
  rewriting->size = 0;
  while (at < end) {
    if (*at == '"') {
      at = put_string(rewriting, at, end);
    } else if (*at == '-' || (*at >= '0' && *at <= '9')) {
      at = put_number(rewriting, at, end);
    } else {
      put(rewriting, at++, 1);
    }
  }
}

json_t *ommai_json_parse_large(const char *text, size_t size, size_t flags, bool halves, json_error_t *reason,
                               bool *no_memory) {
  json_t *value = ommai_json_parse(text, size, flags, reason, no_memory);
  struct rewriting rewriting = {.halves = halves};
  if (*no_memory || (value && !may_be_marked(text, size))) return value;
  rewrite(&rewriting, text, size);
  if (!rewriting.changed) return value;
  json_decref(value);
  const size_t n_bytes = rewriting.size;
  rewriting.out = ommai_allocate(&ommai_default_allocator, n_bytes, 1);
  *no_memory = !rewriting.out;
  if (*no_memory) return NULL;
  rewrite(&rewriting, text, size);
  value = ommai_json_parse(rewriting.out, rewriting.size, flags, reason, no_memory);
  ommai_release(&ommai_default_allocator, rewriting.out, n_bytes, 1);
  return value;
}

const char *ommai_json_large(const json_t *value) {
  const char *text = json_string_value(value);
  size_t size = json_string_length(value);
  if (size <= MARK_SIZE || memcmp(text, MARK, MARK_SIZE) != 0) return NULL;
  return strspn(text + MARK_SIZE, NUMBER_CHARS) == size - MARK_SIZE ? text + MARK_SIZE : NULL;
}

bool ommai_json_is_text(const json_t *value) { return json_is_string(value) && !ommai_json_large(value); }

void ommai_json_unmark(char *text, size_t size) {
  if (size >= MARK_SIZE && memcmp(text, MARK, MARK_SIZE) == 0) memcpy(text, INSTEAD, MARK_SIZE);
}

char *ommai_json_dump_large(const json_t *value, size_t flags) {
  char *text = json_dumps(value, flags);
  if (text) text[ommai_json_restore(text, strlen(text))] = 0;
  return text;
}

size_t ommai_json_restore(char *text, size_t size) {
  size_t n = 0;
  for (size_t at = 0; at < size;) {
    size_t digits = 0;
    if (size - at > MARK_SIZE + 2 && memcmp(text + at, "\"" MARK, MARK_SIZE + 1) == 0) {
      while (at + MARK_SIZE + 1 + digits < size && is_number_char(text[at + MARK_SIZE + 1 + digits])) digits++;
    }
    bool large = digits && at + MARK_SIZE + 1 + digits < size && text[at + MARK_SIZE + 1 + digits] == '"';
    size_t length = large ? digits : 1;
    memmove(text + n, text + at + (large ? MARK_SIZE + 1 : 0), length);
    n += length;
    at += large ? digits + MARK_SIZE + 2 : 1;
  }
  return n;
}
