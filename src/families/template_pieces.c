#include "families/template_pieces.h"

#include <stdbool.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"

enum { FIRST_CAPACITY = 64 };

/* Where cutting stands. `text` ends before the one line end that jinja drops from a template's
 * end. */
struct cut {
  const char *text;
  size_t size, at;
  struct ommai_template_pieces *pieces;
  bool strip_next; /* the last tag removes all blanks after it */
  bool after_line; /* what was read last ends in a line end, or nothing was read */
  /* The line of text that goes on across comments. */
  uint32_t digest;
  size_t text_at, text_end;
  bool has_text;
};

static const uint32_t DIGEST_START = 2166136261u;

static uint32_t digest_byte(uint32_t digest, char byte) { return (digest ^ (unsigned char)byte) * 16777619u; }

/* Python's blanks within ASCII. */
static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f); }

static enum omma_status add_piece(struct cut *cut, uint32_t digest, size_t at, size_t end, struct omma_error *error) {
  struct ommai_template_pieces *pieces = cut->pieces;
  if (pieces->count == OMMAI_TEMPLATE_MAX_PIECES) {
    return ommai_fail(error, OMMA_ERROR_LIMIT, "more than %d lines of text and tags", OMMAI_TEMPLATE_MAX_PIECES);
  }
  if (pieces->count == pieces->capacity) {
    size_t capacity = pieces->capacity ? 2 * pieces->capacity : FIRST_CAPACITY;
    struct ommai_template_piece *larger = ommai_allocate(&pieces->allocator, capacity, sizeof *larger);
    if (!larger) return ommai_fail_memory(error, "chat template", capacity * sizeof *larger);
    if (pieces->count) memcpy(larger, pieces->items, pieces->count * sizeof *larger);
    ommai_release(&pieces->allocator, pieces->items, pieces->capacity, sizeof *larger);
    pieces->items = larger;
    pieces->capacity = capacity;
  }
  pieces->items[pieces->count++] = (struct ommai_template_piece){digest, at, end - at};
  return OMMA_OK;
}

static bool is_line_end(char c) { return c == '\n' || c == '\r'; }

static enum omma_status end_text(struct cut *cut, struct omma_error *error) {
  if (!cut->has_text) return OMMA_OK;
  cut->has_text = false;
  return add_piece(cut, cut->digest, cut->text_at, cut->text_end, error);
}

/* CR and CR LF count as LF, and each ends a piece. */
static enum omma_status add_text(struct cut *cut, size_t at, size_t end, struct omma_error *error) {
  for (size_t i = at; i < end; i++) {
    if (!cut->has_text) {
      cut->has_text = true;
      cut->text_at = i;
      cut->digest = digest_byte(DIGEST_START, '=');
    }
    cut->text_end = i + 1;
    if (cut->text[i] == '\r' && i + 1 < cut->size && cut->text[i + 1] == '\n') continue;
    cut->digest = digest_byte(cut->digest, cut->text[i] == '\r' ? '\n' : cut->text[i]);
    if (is_line_end(cut->text[i])) OMMAI_TRY(end_text(cut, error));
  }
  return OMMA_OK;
}

/* The end of a text before the tag at `open`: without the blanks that "{%-" removes, or those that
 * stand alone on the line of a statement or comment. */
static size_t trimmed_end(const struct cut *cut, size_t begin, size_t open) {
  char kind = cut->text[open + 1], sign = open + 2 < cut->size ? cut->text[open + 2] : 0;
  size_t end = open;
  if (sign == '-') {
    while (end > begin && is_blank(cut->text[end - 1])) end--;
    return end;
  }
  if (kind == '{' || sign == '+') return open;
  while (end > begin && is_blank(cut->text[end - 1]) && !is_line_end(cut->text[end - 1])) end--;
  return end > begin ? (is_line_end(cut->text[end - 1]) ? end : open) : (cut->after_line ? end : open);
}

/* The next "{{", "{%" or "{#" from `at` on; the size where there is none. */
static size_t find_open(const struct cut *cut, size_t at) {
  for (; at + 1 < cut->size; at++) {
    if (cut->text[at] == '{' && strchr("{%#", cut->text[at + 1]) && cut->text[at + 1]) return at;
  }
  return cut->size;
}

/* The end of what a tag holds: at its "-%}", "+%}" or "%}", quotes passed over but in comments; the
 * size where there is none. */
static size_t find_close(const struct cut *cut, size_t at, char kind) {
  char last = kind == '{' ? '}' : kind, quote = 0;
  for (; at < cut->size; at++) {
    char c = cut->text[at];
    if (quote) {
      if (c == '\\') at++;
      if (c == quote) quote = 0;
    } else if (kind != '#' && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == last && at + 1 < cut->size && cut->text[at + 1] == '}') {
      return at;
    }
  }
  return cut->size;
}

/* A tag's text with its outer blanks removed and each run of others as one; quoted strings stay. */
static uint32_t digest_tag(const struct cut *cut, size_t at, size_t end, char kind) {
  uint32_t digest = digest_byte(DIGEST_START, kind);
  char quote = 0;
  while (at < end && is_blank(cut->text[at])) at++;
  while (end > at && is_blank(cut->text[end - 1])) end--;
  for (; at < end; at++) {
    char c = cut->text[at];
    if (!quote && is_blank(c)) {
      if (!is_blank(cut->text[at - 1])) digest = digest_byte(digest, ' ');
      continue;
    }
    digest = digest_byte(digest, c);
    if (!quote && (c == '\'' || c == '"')) {
      quote = c;
    } else if (quote && c == '\\' && at + 1 < end) {
      digest = digest_byte(digest, cut->text[++at]);
    } else if (c == quote) {
      quote = 0;
    }
  }
  return digest;
}

/* After a tag: all blanks where the tag asks for it; else one line end after a statement or
 * comment. */
static void pass_close(struct cut *cut, size_t close, char kind) {
  char sign = cut->text[close - 1];
  cut->at = close + 2;
  cut->strip_next = sign == '-';
  if (!cut->strip_next && kind != '{' && sign != '+' && cut->at < cut->size && is_line_end(cut->text[cut->at])) {
    cut->at += cut->text[cut->at] == '\r' && cut->at + 1 < cut->size && cut->text[cut->at + 1] == '\n' ? 2 : 1;
  }
  while (cut->strip_next && cut->at < cut->size && is_blank(cut->text[cut->at])) cut->at++;
  cut->after_line = is_line_end(cut->text[cut->at - 1]);
}

/* The tag at `open`, which the text before it ended at. An open end is taken as text. */
static enum omma_status take_tag(struct cut *cut, size_t open, struct omma_error *error) {
  char kind = cut->text[open + 1];
  size_t begin = open + 2, close;
  if (begin < cut->size && (cut->text[begin] == '-' || cut->text[begin] == '+')) begin++;
  close = find_close(cut, begin, kind);
  if (close == cut->size) {
    cut->at = cut->size;
    return add_text(cut, open, cut->size, error);
  }
  size_t end =
      close > begin && (cut->text[close - 1] == '-' || (kind != '{' && cut->text[close - 1] == '+')) ? close - 1 : close;
  if (kind != '#') {
    OMMAI_TRY(end_text(cut, error));
    OMMAI_TRY(add_piece(cut, digest_tag(cut, begin, end, kind), open, close + 2, error));
  }
  pass_close(cut, close, kind);
  return OMMA_OK;
}

enum omma_status ommai_template_cut(const char *text, size_t size, const struct omma_allocator *allocator,
                                    struct ommai_template_pieces *pieces, struct omma_error *error) {
  struct cut cut = {.text = text, .size = size, .pieces = pieces, .after_line = true};
  *pieces = (struct ommai_template_pieces){.allocator = *allocator};
  if (size && is_line_end(text[size - 1])) cut.size -= size > 1 && text[size - 1] == '\n' && text[size - 2] == '\r' ? 2 : 1;
  while (cut.at < cut.size) {
    size_t open = find_open(&cut, cut.at);
    size_t end = open < cut.size ? trimmed_end(&cut, cut.at, open) : open;
    OMMAI_TRY(add_text(&cut, cut.at, end, error));
    if (open == cut.size) break;
    OMMAI_TRY(take_tag(&cut, open, error));
  }
  return end_text(&cut, error);
}

void ommai_template_pieces_free(struct ommai_template_pieces *pieces) {
  ommai_release(&pieces->allocator, pieces->items, pieces->capacity, sizeof *pieces->items);
  *pieces = (struct ommai_template_pieces){.allocator = pieces->allocator};
}

size_t ommai_template_line(const char *text, size_t size, size_t at) {
  size_t line = 1;
  for (size_t i = 0; i < at && i < size; i++) {
    if (text[i] == '\n' || (text[i] == '\r' && !(i + 1 < size && text[i + 1] == '\n'))) line++;
  }
  return line;
}
