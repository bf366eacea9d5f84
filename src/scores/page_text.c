#include "scores/page_text.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

static pcre2_code *compile(const char *pattern, enum ommai_pattern_kind kind) {
  uint32_t options = PCRE2_UTF | PCRE2_UCP;
  int code;
  PCRE2_SIZE at;
  if (kind == OMMAI_PATTERN_DOT_ALL) options |= PCRE2_DOTALL;
  if (kind == OMMAI_PATTERN_LINES) options |= PCRE2_MULTILINE;
  return pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, options, &code, &at, NULL);
}

char *ommai_page_text_replace(char *text, const char *pattern, enum ommai_pattern_kind kind, const char *replacement) {
  const uint32_t options = PCRE2_SUBSTITUTE_GLOBAL | PCRE2_SUBSTITUTE_OVERFLOW_LENGTH | PCRE2_SUBSTITUTE_UNSET_EMPTY;
  if (!text) return NULL;
  pcre2_code *compiled = compile(pattern, kind);
  PCRE2_SIZE size = strlen(text) + 1;
  char *out = compiled ? malloc(size) : NULL;
  int code = PCRE2_ERROR_NOMEMORY;
  for (int attempt = 0; attempt < 2 && out && code == PCRE2_ERROR_NOMEMORY; attempt++) {
    char *larger = realloc(out, size);
    if (!larger) break;
    out = larger;
    code = pcre2_substitute(compiled, (PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, 0, options, NULL, NULL, (PCRE2_SPTR)replacement,
                            PCRE2_ZERO_TERMINATED, (PCRE2_UCHAR *)out, &size);
  }
  pcre2_code_free(compiled);
  if (out && code < 0 && code != PCRE2_ERROR_NOMEMORY) { /* a limit of the matcher */
    free(out);
    return text;
  }
  free(text);
  if (code >= 0) return out;
  free(out);
  return NULL;
}

char *ommai_page_text_without(char *text, const char *part) {
  size_t size = strlen(part);
  for (char *at = text ? strstr(text, part) : NULL, *to = at; at;) {
    const char *next = strstr(at + size, part);
    size_t kept = next ? (size_t)(next - at) - size : strlen(at + size) + 1;
    memmove(to, at + size, kept);
    to += kept;
    at = next ? at + size + kept : NULL;
  }
  return text;
}

static bool is_blank(utf8proc_int32_t value) {
  return (value >= 0x9 && value <= 0xd) || (value >= 0x1c && value <= 0x1f) || value == 0x85 || value == 0x2028 ||
         value == 0x2029 || utf8proc_category(value) == UTF8PROC_CATEGORY_ZS;
}

static char *keep(char *text, size_t begin, size_t end) {
  memmove(text, text + begin, end - begin);
  text[end - begin] = '\0';
  return text;
}

char *ommai_page_text_strip(char *text) {
  if (!text) return NULL;
  size_t size = strlen(text), begin = 0, end = 0;
  bool begun = false;
  for (size_t at = 0; at < size;) {
    utf8proc_int32_t value;
    utf8proc_ssize_t length = utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(size - at), &value);
    bool blank = length > 0 && is_blank(value);
    if (!begun && !blank) begin = at;
    begun |= !blank;
    at += length > 0 ? (size_t)length : 1;
    if (!blank) end = at;
  }
  return keep(text, begun ? begin : 0, end);
}

char *ommai_page_text_strip_set(char *text, const char *set) {
  if (!text) return NULL;
  size_t begin = strspn(text, set), end = strlen(text);
  while (end > begin && strchr(set, text[end - 1])) end--;
  return keep(text, begin, end);
}

bool ommai_page_text_find(const char *text, size_t from, const char *pattern, enum ommai_pattern_kind kind,
                          struct ommai_pattern_match *match) {
  pcre2_code *compiled = compile(pattern, kind);
  pcre2_match_data *data = compiled ? pcre2_match_data_create_from_pattern(compiled, NULL) : NULL;
  int code = data ? pcre2_match(compiled, (PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, from, 0, data, NULL) : 0;
  for (int i = 0; i < OMMAI_PATTERN_GROUPS; i++) match->begin[i] = match->end[i] = SIZE_MAX;
  for (int i = 0; i < code && i < OMMAI_PATTERN_GROUPS; i++) {
    match->begin[i] = pcre2_get_ovector_pointer(data)[2 * i];
    match->end[i] = pcre2_get_ovector_pointer(data)[2 * i + 1];
  }
  pcre2_match_data_free(data);
  pcre2_code_free(compiled);
  return code > 0;
}

static bool begins_character(char byte) { return ((unsigned char)byte & 0xc0) != 0x80; }

size_t ommai_page_text_place(const char *text, size_t at) {
  size_t n = 0;
  for (size_t i = 0; i < at; i++) n += begins_character(text[i]);
  return n;
}

char *ommai_page_text_blank(char *text, size_t from, size_t to) {
  if (!text) return NULL;
  size_t n = 0, kept = 0;
  for (size_t i = 0; text[i]; i++) {
    bool begins = begins_character(text[i]), inside = n >= from + !begins && n < to + !begins;
    n += begins;
    if (!inside) text[kept++] = text[i];
    if (inside && begins) text[kept++] = ' ';
  }
  text[kept] = '\0';
  return text;
}
