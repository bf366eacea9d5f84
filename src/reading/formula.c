#include "reading/formula.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "reading/plain.h"

struct rule {
  const char *pattern, *replacement;
};

/* All matches of a rule replaced; a text that the rule cannot be applied to is copied. */
static char *apply(const struct rule *rule, const char *text) {
  int code;
  PCRE2_SIZE at, size = 0;
  pcre2_code *pattern =
      pcre2_compile((PCRE2_SPTR)rule->pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP | PCRE2_DOTALL, &code, &at, NULL);
  const uint32_t options = PCRE2_SUBSTITUTE_GLOBAL | PCRE2_SUBSTITUTE_OVERFLOW_LENGTH;
  code = pattern ? pcre2_substitute(pattern, (PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, 0, options, NULL, NULL,
                                    (PCRE2_SPTR)rule->replacement, PCRE2_ZERO_TERMINATED, NULL, &size)
                 : PCRE2_ERROR_NOMEMORY;
  char *out = code == PCRE2_ERROR_NOMEMORY && size ? malloc(size) : NULL;
  if (out) {
    code = pcre2_substitute(pattern, (PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, 0, options, NULL, NULL,
                            (PCRE2_SPTR)rule->replacement, PCRE2_ZERO_TERMINATED, (PCRE2_UCHAR *)out, &size);
  }
  pcre2_code_free(pattern);
  if (out && code >= 0) return out;
  free(out);
  return strdup(text);
}

static char *apply_all(char *text, const struct rule *rules, size_t n) {
  for (size_t i = 0; i < n && text; i++) {
    char *next = apply(&rules[i], text);
    free(text);
    text = next;
  }
  return text;
}

static bool is_escaped(const char *text, size_t at) {
  size_t n = 0;
  while (n < at && text[at - n - 1] == '\\') n++;
  return n % 2;
}

/* Removes in one direction the braces of one kind that come before their counterparts. */
static void drop_unmatched(char *text, char open, char close, bool backward) {
  size_t size = strlen(text), depth = 0, kept = 0;
  bool *drop = calloc(size + 1, sizeof *drop);
  for (size_t i = 0; drop && i < size; i++) {
    size_t at = backward ? size - 1 - i : i;
    if ((text[at] != open && text[at] != close) || is_escaped(text, at)) continue;
    drop[at] = text[at] == close && depth == 0;
    depth += text[at] == open;
    depth -= text[at] == close && depth;
  }
  for (size_t i = 0; drop && i < size; i++) {
    if (!drop[i]) text[kept++] = text[i];
  }
  if (drop) text[kept] = '\0';
  free(drop);
}

static char *copy_stripped(const char *text, size_t size) {
  struct ommai_plain plain = ommai_plain_strip(text, size);
  return strndup(plain.data, plain.size);
}

static char *without_delimiters(const char *latex) {
  struct ommai_plain plain = ommai_plain_strip(latex, strlen(latex));
  if (plain.size >= 2 && memcmp(plain.data, "\\[", 2) == 0) plain = (struct ommai_plain){plain.data + 2, plain.size - 2};
  if (plain.size >= 2 && memcmp(plain.data + plain.size - 2, "\\]", 2) == 0) plain.size -= 2;
  return copy_stripped(plain.data, plain.size);
}

char *ommai_formula_repair(const char *latex) {
  static const struct rule rules[] = {
      {"_\\s*\\{(?:[^{}]|\\{[^{}]*\\})*\\}\\s*_\\s*\\{(?:[^{}]|\\{[^{}]*\\})*\\}", ""},
      {"\\\\eqqcolon", "=:"},
      {"\\\\coloneqq", ":="},
      {"(\\\\[bB]igg?[rml]?) ?\\{([()\\[\\]|]|\\\\[{}|])\\}", "$1$2"},
      {"(\\\\[bB]igg?[rml]?) ?\\{(\\\\[lr]angle)\\}", "$1$2 "},
      {"\\\\bigtimes", "\\times"},
      {"<", "< "},
  };
  char *text = apply_all(without_delimiters(latex), rules, sizeof rules / sizeof *rules);
  if (text) drop_unmatched(text, '{', '}', false);
  if (text) drop_unmatched(text, '}', '{', true);
  return text;
}

/* Writes an inline formula (given without its ends); runs of three underscores and more leave
 * it. */
static void write_inline(FILE *out, const char *at, const char *end) {
  const char *separator = "";
  while (at < end) {
    const char *rest = at;
    while (rest < end && *rest == '_') rest++;
    bool line = rest - at >= 3;
    while (!line && rest < end && strncmp(rest, "___", 3) != 0) rest += *rest == '_' ? (ptrdiff_t)strspn(rest, "_") : 1;
    if (rest > end) rest = end;
    int size = (int)(rest - at);
    if (line) {
      fprintf(out, "%s%.*s", separator, size, at);
    } else if (ommai_plain_strip(at, (size_t)size).size) {
      fprintf(out, "%s\\(%.*s\\)", separator, size, at);
    } else {
      size = 0;
    }
    if (size) separator = " ";
    at = rest;
  }
}

/* Of \( ... \): macros are separated from a single letter after them. */
static char *repair_inline(const char *at, const char *end) {
  static const struct rule rule = {"(\\\\(?!(?:top|int|inf)(?![a-zA-Z]))(?:cong|to|times|subset|in))([a-zA-Z])(?![a-zA-Z])",
                                   "$1 $2"};
  char *inner = strndup(at, (size_t)(end - at));
  return inner ? apply_all(inner, &rule, 1) : NULL;
}

/* Applies the rules within the text's inline formulas. */
static char *repair_inlines(char *text) {
  char *result = NULL;
  size_t size;
  FILE *out = text ? open_memstream(&result, &size) : NULL;
  const char *at = text, *start, *end;
  while (out && (start = strstr(at, "\\(")) && start[2] && (end = strstr(start + 3, "\\)"))) {
    char *inner = repair_inline(start + 2, end);
    fprintf(out, "%.*s", (int)(start - at), at);
    if (inner && strstr(inner, "___")) {
      write_inline(out, inner, inner + strlen(inner));
    } else {
      fprintf(out, "\\(%s\\)", inner ? inner : "");
    }
    free(inner);
    at = end + 2;
  }
  if (out) fputs(at, out);
  if (out && fclose(out) != 0) result = NULL;
  free(text);
  return result;
}

char *ommai_formula_repair_text(const char *text) {
  static const struct rule inline_forms[] = {{"\\\\\\[(?![–\\d\\-,\\s]+\\\\\\])(.*?)\\\\\\]", "\\($1\\)"}};
  char *copy = strdup(text);
  return copy ? repair_inlines(apply_all(copy, inline_forms, 1)) : NULL;
}
