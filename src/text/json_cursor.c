#include "text/json_cursor.h"

#include <string.h>

#include "base/text_buffer.h"
#include "text/utf8.h"

static void skip_space(struct ommai_json_cursor *cursor) {
  while (cursor->at < cursor->size) {
    char c = cursor->text[cursor->at];
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return;
    cursor->at++;
  }
}

bool ommai_json_cursor_take(struct ommai_json_cursor *cursor, char c) {
  skip_space(cursor);
  if (cursor->at == cursor->size || cursor->text[cursor->at] != c) return false;
  cursor->at++;
  return true;
}

bool ommai_json_cursor_next(struct ommai_json_cursor *cursor, char end, bool *more) {
  *more = ommai_json_cursor_take(cursor, ',');
  return *more || ommai_json_cursor_take(cursor, end);
}

static bool hex4(struct ommai_json_cursor *cursor, uint32_t *value) {
  uint32_t digit;
  *value = 0;
  if (cursor->size - cursor->at < 4) return false;
  for (int i = 0; i < 4; i++) {
    if (!ommai_hex_read(cursor->text + cursor->at++, 1, &digit)) return false;
    *value = *value << 4 | digit;
  }
  return true;
}

/* The four digits after \u, and the second half of a surrogate pair. */
static bool unicode_escape(struct ommai_json_cursor *cursor, uint32_t *code_point) {
  uint32_t low;
  if (!hex4(cursor, code_point) || *code_point == 0) return false;
  if (*code_point < 0xD800 || *code_point > 0xDFFF) return true;
  if (*code_point > 0xDBFF || cursor->size - cursor->at < 2 || memcmp(cursor->text + cursor->at, "\\u", 2) != 0) return false;
  cursor->at += 2;
  if (!hex4(cursor, &low) || low < 0xDC00 || low > 0xDFFF) return false;
  *code_point = 0x10000 + ((*code_point - 0xD800) << 10) + (low - 0xDC00);
  return true;
}

/* Reads what stands after a backslash. */
static bool escape(struct ommai_json_cursor *cursor, uint32_t *code_point) {
  static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
  if (cursor->at == cursor->size) return false;
  char c = cursor->text[cursor->at++];
  if (c == 'u') return unicode_escape(cursor, code_point);
  const char *found = c ? strchr(letters, c) : NULL;
  if (!found) return false;
  *code_point = (uint32_t)meanings[found - letters];
  return true;
}

/* The number of bytes from the cursor on that stand for themselves: no quote, backslash, control
 * character or broken UTF-8. */
static size_t plain_bytes(const struct ommai_json_cursor *cursor) {
  const char *text = cursor->text + cursor->at;
  size_t left = cursor->size - cursor->at, n = 0;
  while (n < left && text[n] != '"' && text[n] != '\\' && (unsigned char)text[n] >= 0x20) {
    size_t length = 1;
    uint32_t code_point;
    if ((unsigned char)text[n] >= 0x80 && ommai_utf8_next(text + n, left - n, &length, &code_point) != OMMAI_UTF8_VALID) break;
    n += length;
  }
  return n;
}

bool ommai_json_cursor_string(struct ommai_json_cursor *cursor, char *out, size_t capacity, size_t *size) {
  size_t used = 0;
  if (!ommai_json_cursor_take(cursor, '"')) return false;
  for (;;) {
    size_t n = plain_bytes(cursor);
    if (capacity - used <= n + OMMAI_UTF8_MAX_BYTES) return false;
    memcpy(out + used, cursor->text + cursor->at, n);
    used += n;
    cursor->at += n;
    if (cursor->at == cursor->size) return false;
    char c = cursor->text[cursor->at];
    if (c != '"' && c != '\\') return false;
    cursor->at++;
    if (c == '"') break;
    uint32_t code_point;
    if (!escape(cursor, &code_point)) return false;
    used += ommai_utf8_encode(code_point, out + used);
  }
  out[used] = '\0';
  *size = used;
  return true;
}

bool ommai_json_cursor_number(struct ommai_json_cursor *cursor, int32_t *value) {
  skip_space(cursor);
  int64_t number = 0;
  size_t start = cursor->at;
  for (; cursor->at < cursor->size; cursor->at++) {
    char c = cursor->text[cursor->at];
    if (c < '0' || c > '9') break;
    number = number * 10 + (c - '0');
    if (number > INT32_MAX) return false;
  }
  size_t digits = cursor->at - start;
  *value = (int32_t)number;
  return digits == 1 || (digits > 1 && cursor->text[start] != '0');
}

/* Moves after the end of a string whose opening quote is taken. */
static bool skip_string(struct ommai_json_cursor *cursor) {
  while (cursor->at < cursor->size) {
    char c = cursor->text[cursor->at++];
    if (c == '"') return true;
    if (c == '\\') cursor->at++;
  }
  cursor->at = cursor->size;
  return false;
}

bool ommai_json_cursor_skip(struct ommai_json_cursor *cursor) {
  size_t depth = 0;
  skip_space(cursor);
  while (cursor->at < cursor->size) {
    char c = cursor->text[cursor->at];
    if (depth == 0 && (c == ',' || c == '}' || c == ']')) return true;
    cursor->at++;
    if (c == '"' && !skip_string(cursor)) return false;
    if (c == '{' || c == '[') depth++;
    if (c == '}' || c == ']') depth--;
  }
  return depth == 0;
}
