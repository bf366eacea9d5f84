#include "scores/normal_form.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "scores/latex_text.h"
#include "scores/page_text.h"

/* ---- texts ---- */

/* A formula's text, without the commands that stand for themselves (\_, \%, ...); NULL: it has
 * nothing that LaTeX would change, or memory is out, which *good tells. */
static char *formula_text(const char *content, size_t size, bool *good) {
  char *clean = ommai_page_text_replace(strndup(content, size), "\\\\[\\\\_&%^]", OMMAI_PATTERN_PLAIN, "");
  char *text = clean && strpbrk(clean, "\\^_") ? ommai_latex_text(clean) : NULL;
  *good = clean && (text || !strpbrk(clean, "\\^_"));
  free(clean);
  return ommai_page_text_strip(text);
}

char *ommai_normal_text(const char *text) {
  char *out = NULL;
  size_t size, at = 0;
  struct ommai_pattern_match match;
  bool good = true;
  FILE *file = open_memstream(&out, &size);
  if (!file) return NULL;
  while (good && ommai_page_text_find(text, at, "\\$(.*?)\\$|\\\\\\((.*?)\\\\\\)", OMMAI_PATTERN_PLAIN, &match)) {
    int group = match.begin[1] == SIZE_MAX ? 2 : 1;
    char *plain = formula_text(text + match.begin[group], match.end[group] - match.begin[group], &good);
    fwrite(text + at, 1, match.begin[0] - at, file);
    if (plain) fputs(plain, file);
    if (!plain) fwrite(text + match.begin[0], 1, match.end[0] - match.begin[0], file);
    free(plain);
    at = match.end[0];
  }
  fputs(text + at, file);
  if (fclose(file) == 0 && good) return ommai_normal_letters(out);
  free(out);
  return NULL;
}

char *ommai_normal_letters(char *text) {
  static const char *const parts[] = {"\\t", "\\n", "\t", "\n", "/t", "/n"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) text = ommai_page_text_without(text, parts[i]);
  if (!text) return NULL;
  size_t size = strlen(text), kept = 0;
  for (size_t at = 0; at < size;) {
    utf8proc_int32_t value;
    utf8proc_ssize_t length = utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(size - at), &value);
    utf8proc_category_t category = length > 0 ? utf8proc_category(value) : UTF8PROC_CATEGORY_CN;
    bool letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
    bool digit = category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
    size_t step = length > 0 ? (size_t)length : 1;
    if (letter || digit || text[at] == '_') {
      memmove(text + kept, text + at, step);
      kept += step;
    }
    at += step;
  }
  text[kept] = '\0';
  return text;
}

/* ---- formulas ---- */

static const char *const formula_patterns[] = {"\\\\tag\\{.*?\\}", "\\\\hspace\\{.*?\\}", "\\\\begin\\{.*?\\}",
                                               "\\\\end\\{.*?\\}", "\\\\arraycolsep.*?\\}"};
/* One after the other: what the removal of one leaves may be another. */
static const char formula_parts[] =
    "\\mathbf|\\mathrm|\\mathnormal|\\mathit|\\mathbb|\\mathcal|\\mathscr|\\mathfrak|\\mathsf|\\mathtt|\\textbf|\\text|"
    "\\boldmath|\\boldsymbol|\\operatorname|\\bm|\\symbfit|\\mathbfcal|\\symbf|\\scriptscriptstyle|\\notag|\\setlength|"
    "\\coloneqq|\\space|\\thickspace|\\thinspace|\\medspace|\\nobreakspace|\\negmedspace|\\quad|\\qquad|\\enspace|"
    "\\substackw| |$$|\\left|\\right|\\displaystyle|\\text|";

/* What stands between the delimiters. */
static char *inside(char *text) {
  struct ommai_pattern_match match;
  text = ommai_page_text_strip_set(ommai_page_text_strip_set(ommai_page_text_strip(text), "$"), "\n");
  if (!text || !ommai_page_text_find(text, 0, "\\\\\\[(.+?)(?<!\\\\)\\\\\\]", OMMAI_PATTERN_PLAIN, &match)) return text;
  char *inner = strndup(text + match.begin[1], match.end[1] - match.begin[1]);
  free(text);
  return ommai_page_text_strip(inner);
}

static char *lower(char *text) {
  utf8proc_ssize_t size = text ? (utf8proc_ssize_t)strlen(text) : 0, length;
  char *out = text ? malloc(4 * (size_t)size + 1) : NULL, *to = out;
  for (utf8proc_ssize_t at = 0; out && at < size; at += length) {
    utf8proc_int32_t value;
    length = utf8proc_iterate((const utf8proc_uint8_t *)text + at, size - at, &value);
    if (length < 1) length = 1, value = (unsigned char)text[at];
    to += utf8proc_encode_char(utf8proc_tolower(value), (utf8proc_uint8_t *)to);
  }
  if (out) *to = '\0';
  free(text);
  return out;
}

char *ommai_normal_formula(const char *latex) {
  char *text = inside(strdup(latex));
  for (size_t i = 0; i < sizeof formula_patterns / sizeof *formula_patterns; i++) {
    text = ommai_page_text_replace(text, formula_patterns[i], OMMAI_PATTERN_PLAIN, "");
  }
  text = ommai_page_text_strip_set(text, ".");
  for (const char *at = formula_parts; *at; at += strcspn(at, "|") + 1) {
    char part[24];
    snprintf(part, sizeof part, "%.*s", (int)strcspn(at, "|"), at);
    text = ommai_page_text_without(text, part);
  }
  return lower(text);
}

/* ---- tables ---- */

char *ommai_unescaped(char *text) {
  static const struct {
    const char *name;
    uint32_t value;
  } names[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}, {"&nbsp;", 0xa0}};
  if (!text) return NULL;
  char *to = text;
  for (const char *at = text; *at;) {
    char *end = NULL;
    uint32_t value = 0;
    if (at[0] == '&' && at[1] == '#') {
      bool hexadecimal = (at[2] | 32) == 'x';
      unsigned long number = strtoul(at + 2 + hexadecimal, &end, hexadecimal ? 16 : 10);
      if (*end == ';' && utf8proc_codepoint_valid((utf8proc_int32_t)number) && number) value = (uint32_t)number;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names && !value; i++) {
      if (strncmp(at, names[i].name, strlen(names[i].name)) == 0) {
        value = names[i].value;
        end = (char *)at + strlen(names[i].name) - 1;
      }
    }
    if (value) {
      to += utf8proc_encode_char((utf8proc_int32_t)value, (utf8proc_uint8_t *)to);
      at = end + 1;
    } else {
      *to++ = *at++;
    }
  }
  *to = '\0';
  return text;
}

/* Attributes as name="value"; at the end of the tag's name. */
static const char *write_attributes(FILE *file, const char *at) {
  for (at += strspn(at, " \t\r\n/"); *at && *at != '>'; at += strspn(at, " \t\r\n/")) {
    size_t size = strcspn(at, " \t\r\n=>/"), length;
    fprintf(file, " %.*s=\"", (int)size, at);
    at += size ? size : 1;
    at += strspn(at, " \t\r\n");
    if (*at == '=') {
      at += 1 + strspn(at + 1, " \t\r\n");
      char quote = *at == '"' || *at == '\'' ? *at++ : '\0';
      length = strcspn(at, quote == '"' ? "\"" : quote ? "'" : " \t\r\n>");
      fprintf(file, "%.*s", (int)length, at);
      at += length;
      at += quote && *at == quote;
    }
    fputc('"', file);
  }
  return at + (*at == '>');
}

/* Blanks alone are one. */
static void write_text(FILE *file, const char *text, size_t size) {
  if (strspn(text, " \t\r\n\f") < size) {
    fwrite(text, 1, size, file);
  } else {
    fputc(memchr(text, '\n', size) ? '\n' : ' ', file);
  }
}

/* Tags as they are compared: <th> as <td>, without those of sections and spans, empty elements
 * closed. */
static char *plain_tags(const char *html) {
  static const char *const empty[] = {"br", "img", "hr", "input", "wbr", "col"};
  char *out = NULL;
  size_t size, length;
  FILE *file = open_memstream(&out, &size);
  if (!file) return NULL;
  for (const char *at = html; *at; at += length) {
    length = 1 + strcspn(at + 1, "<");
    size_t begin = 1 + (*at == '<' && at[1] == '/');
    if (*at != '<' || !isalpha((unsigned char)at[begin])) {
      write_text(file, at, length);
      continue;
    }
    char name[16] = "";
    size_t n = 0, whole = strspn(at + begin, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
    for (; n < whole && n < sizeof name - 1; n++) name[n] = (char)tolower((unsigned char)at[begin + n]);
    if (strcmp(name, "th") == 0) name[1] = 'd';
    if (strcmp(name, "thead") == 0 || strcmp(name, "span") == 0) {
      length = strcspn(at, ">");
      length += at[length] == '>';
      continue;
    }
    fprintf(file, "<%s%s", begin == 2 ? "/" : "", name);
    const char *end = write_attributes(file, at + begin + whole);
    bool closes = false;
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) closes |= strcmp(name, empty[i]) == 0;
    fputs(closes ? "/>" : ">", file);
    length = (size_t)(end - at);
  }
  if (fclose(file) == 0) return out;
  free(out);
  return NULL;
}

char *ommai_normal_table(const char *html) {
  static const struct {
    const char *pattern, *replacement;
    enum ommai_pattern_kind kind;
  } rules[] = {{"^(?!.*<table\\b[^>]*>.*</table>).*\\z", "", OMMAI_PATTERN_DOT_ALL},
               {"\\A.*?<table\\b[^>]*>(.*)</table>.*\\z", "$1", OMMAI_PATTERN_DOT_ALL},
               {" style=\".*?\"", "", OMMAI_PATTERN_PLAIN},
               {" height=\".*?\"", "", OMMAI_PATTERN_PLAIN},
               {" width=\".*?\"", "", OMMAI_PATTERN_PLAIN},
               {" align=\".*?\"", "", OMMAI_PATTERN_PLAIN},
               {" class=\".*?\"", "", OMMAI_PATTERN_PLAIN},
               {"</?tbody>", "", OMMAI_PATTERN_PLAIN},
               {"\\s+", " ", OMMAI_PATTERN_PLAIN},
               {"\\A(?s:(.*))\\z", "<html><body><table border=\"1\" >$1</table></body></html>", OMMAI_PATTERN_PLAIN},
               {"</?(?:sup|sub|span|div|p)>", "", OMMAI_PATTERN_PLAIN},
               {"<colgroup>.*?</colgroup>", "", OMMAI_PATTERN_PLAIN}};
  if (!strstr(html, "<table")) return strdup("");
  char *text = ommai_page_text_without(ommai_unescaped(plain_tags(html)), "\n");
  char *composed = text ? (char *)utf8proc_NFKC((const utf8proc_uint8_t *)text) : NULL;
  free(text);
  text = ommai_page_text_strip(composed);
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    text = ommai_page_text_replace(text, rules[i].pattern, rules[i].kind, rules[i].replacement);
  }
  return text;
}
