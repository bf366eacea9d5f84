#include "server/core/field_value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"

enum { MAX_TEXT = 64 };

static const char DIGITS[] = "0123456789", BLANKS[] = " \t\n\r\f\v";

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* A string without blanks around it and underscores between digits; false where it is none or too
 * long. */
static bool plain_text(const json_t *value, char out[MAX_TEXT]) {
  const char *text = json_string_value(value);
  size_t n = 0;
  if (!text || strlen(text) != json_string_length(value)) return false;
  text += strspn(text, BLANKS);
  for (size_t i = 0; text[i]; i++) {
    if (text[i] == '_' && i && is_digit(text[i - 1]) && is_digit(text[i + 1])) continue;
    if (n + 1 == MAX_TEXT) return false;
    out[n++] = text[i];
  }
  while (n && strchr(BLANKS, out[n - 1])) n--;
  out[n] = 0;
  return n > 0;
}

bool ommai_value_boolean(const json_t *value, bool *out) {
  static const char *const words[2][6] = {{"false", "0", "no", "off", "f", "n"}, {"true", "1", "yes", "on", "t", "y"}};
  const char *text = json_string_value(value);
  if (json_is_boolean(value)) return *out = json_is_true(value), true;
  if (json_is_number(value) && (json_number_value(value) == 0 || json_number_value(value) == 1)) {
    return *out = json_number_value(value) == 1, true;
  }
  for (size_t i = 0; text && i < 2 * sizeof words[0] / sizeof words[0][0]; i++) {
    if (strcasecmp(text, words[i % 2][i / 2]) == 0) return *out = i % 2, strlen(text) == json_string_length(value);
  }
  return false;
}

bool ommai_value_integer(const json_t *value, int64_t *out) {
  char text[MAX_TEXT];
  if (json_is_boolean(value)) return *out = json_is_true(value), true;
  if (!plain_text(value, text)) return ommai_json_whole(value, out);
  size_t sign = text[0] == '+' || text[0] == '-', n = strspn(text + sign, DIGITS);
  const char *rest = text + sign + n;
  if (!n || (*rest && (rest[0] != '.' || !rest[1] || rest[1 + strspn(rest + 1, "0")]))) return false;
  errno = 0;
  int64_t number = strtoll(text, NULL, 10);
  if (errno) return false;
  return *out = number, true;
}

bool ommai_value_number(const json_t *value, double *out) {
  char text[MAX_TEXT], *end;
  if (json_is_number(value)) return *out = json_number_value(value), true;
  if (json_is_boolean(value)) return *out = json_is_true(value), true;
  if (ommai_json_large(value)) return *out = strtod(ommai_json_large(value), NULL), true;
  if (!plain_text(value, text) || strpbrk(text, "xX(_") || strspn(text, BLANKS)) return false;
  double number = strtod(text, &end);
  if (*end) return false;
  return *out = number, true;
}
