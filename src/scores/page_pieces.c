#include "scores/page_pieces.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scores/page_text.h"
#include "scores/pipe_tables.h"

bool ommai_pieces_add(struct ommai_pieces *pieces, struct ommai_piece piece) {
  if (pieces->n == pieces->capacity) {
    size_t capacity = pieces->capacity ? 2 * pieces->capacity : 16;
    struct ommai_piece *larger = realloc(pieces->list, capacity * sizeof *larger);
    if (larger) {
      pieces->list = larger;
      pieces->capacity = capacity;
    }
  }
  if (!piece.text || pieces->n == pieces->capacity) {
    free(piece.text);
    return false;
  }
  piece.index = pieces->n;
  pieces->list[pieces->n++] = piece;
  return true;
}

void ommai_pieces_free(struct ommai_pieces *pieces) {
  for (size_t i = 0; i < pieces->n; i++) free(pieces->list[i].text);
  free(pieces->list);
  *pieces = (struct ommai_pieces){0};
}

static int by_place(const void *a, const void *b) {
  const struct ommai_piece *first = a, *second = b;
  if (first->place != second->place) return first->place < second->place ? -1 : 1;
  return (first->index > second->index) - (first->index < second->index);
}

static int by_place_inline_last(const void *a, const void *b) {
  const struct ommai_piece *first = a, *second = b;
  return first->is_inline != second->is_inline ? (first->is_inline ? 1 : -1) : by_place(a, b);
}

void ommai_pieces_sort(struct ommai_pieces *pieces, bool inline_last) {
  for (size_t i = 0; i < pieces->n; i++) pieces->list[i].index = i;
  if (pieces->n) qsort(pieces->list, pieces->n, sizeof *pieces->list, inline_last ? by_place_inline_last : by_place);
}

bool ommai_pieces_split_arrays(struct ommai_pieces *pieces, bool truth) {
  struct ommai_pieces out = {0};
  struct ommai_pattern_match match;
  bool good = true;
  for (size_t i = 0; i < pieces->n; i++) {
    struct ommai_piece piece = pieces->list[i];
    const char *text = piece.text;
    bool array = piece.kind == OMMAI_PIECE_FORMULA &&
                 ommai_page_text_find(text, 0, "\\\\begin\\{array\\}\\{([\\s|]*[lcr][\\s|]*)\\}(.*?)\\\\end\\{array\\}",
                                      OMMAI_PATTERN_DOT_ALL, &match) &&
                 match.begin[0] == (size_t)(strstr(text, "\\begin{array}{") - text);
    if (!array) {
      good &= ommai_pieces_add(&out, piece);
      continue;
    }
    int n_lines = 0;
    for (size_t at = match.begin[2], next; at < match.end[2] && good; at = next) {
      const char *end = strstr(text + at, "\\\\");
      size_t size = end && (size_t)(end - text) < match.end[2] ? (size_t)(end - text) - at : match.end[2] - at;
      next = at + size + 2;
      char *line = ommai_page_text_strip(strndup(text + at, size));
      good = line != NULL;
      if (good && *line) {
        const char *first = strstr(text + at, line);
        struct ommai_piece part = piece;
        size_t room = strlen(line) + 5;
        part.text = malloc(room);
        if (part.text) snprintf(part.text, room, "\\[%s\\]", line);
        part.place += truth ? 0 : (double)ommai_page_text_place(text, (size_t)(first - text));
        if (truth) part.place = round((piece.place + ++n_lines / 10.0) * 10) / 10;
        good = ommai_pieces_add(&out, part);
      }
      free(line);
    }
    free(piece.text);
  }
  free(pieces->list);
  *pieces = out;
  return good;
}

/* ---- Markdown ---- */

struct span {
  size_t begin, end; /* in bytes */
};

struct nesting {
  const char *begin, *end; /* pattern; text */
  size_t step, inner;      /* how far the search goes on after either; and into one without end */
};

static const struct nesting html_tables = {"<table[^>]*>", "</table>", 8, 16},
                            latex_tables = {"\\\\begin\\{tabular\\}", "\\end{tabular}", 14, 16};

static size_t to_character(const char *text, size_t at) {
  size_t size = strlen(text);
  if (at > size) return size;
  while (((unsigned char)text[at] & 0xc0) == 0x80) at++;
  return at;
}

/* The outermost elements of a kind, those inside of an unfinished one too; false: memory is out. */
static bool find_nested(const char *text, size_t from, const struct nesting *nesting, struct span **spans, size_t *n) {
  size_t at = from, depth = 0, first = 0;
  while (text[at]) {
    struct ommai_pattern_match match;
    const char *found = strstr(text + at, nesting->end);
    bool begins = ommai_page_text_find(text, at, nesting->begin, OMMAI_PATTERN_PLAIN, &match);
    size_t end = found ? (size_t)(found - text) : SIZE_MAX;
    if (!begins && !found) break;
    if (begins && match.begin[0] < end) {
      if (!depth++) first = match.begin[0];
      at = to_character(text, match.begin[0] + nesting->step);
      continue;
    }
    at = to_character(text, end + nesting->step);
    if (!depth || --depth) continue;
    struct span *larger = realloc(*spans, (*n + 1) * sizeof *larger);
    if (!larger) return false;
    *spans = larger;
    larger[(*n)++] = (struct span){first, at};
  }
  return !depth || find_nested(text, to_character(text, first + nesting->inner), nesting, spans, n);
}

/* Takes such elements out of a text; as pieces, or counted. */
static char *take_nested(char *text, const struct nesting *nesting, struct ommai_pieces *pieces, size_t *count) {
  struct span *spans = NULL;
  size_t n = 0;
  bool good = text && find_nested(text, 0, nesting, &spans, &n);
  char *whole = good ? strdup(text) : NULL;
  good = whole != NULL;
  for (size_t i = 0; i < n && good; i++) {
    size_t from = ommai_page_text_place(whole, spans[i].begin), to = ommai_page_text_place(whole, spans[i].end);
    if (count) ++*count;
    if (pieces) {
      good = ommai_pieces_add(pieces,
                              (struct ommai_piece){.kind = OMMAI_PIECE_TABLE,
                                                   .place = (double)from,
                                                   .text = strndup(whole + spans[i].begin, spans[i].end - spans[i].begin)});
    }
    text = ommai_page_text_blank(text, from, to);
  }
  free(whole);
  free(spans);
  if (good) return text;
  free(text);
  return NULL;
}

/* Takes what a pattern finds out of a text. */
static char *take_latex_floats(char *text, size_t *count) {
  struct ommai_pattern_match match;
  while (text && ommai_page_text_find(text, 0, "\\\\begin\\{table\\}(.*?)\\\\end\\{table\\}", OMMAI_PATTERN_DOT_ALL, &match)) {
    ++*count;
    text = ommai_page_text_blank(text, ommai_page_text_place(text, match.begin[0]), ommai_page_text_place(text, match.end[0]));
  }
  return text;
}

/* Formulas between $$ or \[ \] leave the text; those between $ or \( \) stay and are pieces too. */
static char *take_formulas(char *text, struct ommai_pieces *pieces) {
  static const char all[] = "\\$\\$(.*?)\\$\\$|\\\\\\[(.*?)\\\\\\]|\\$(.*?)\\$|\\\\\\((.*?)\\\\\\)";
  static const char dollars[] = "\\$\\$(.*?)\\$\\$|\\$(.*?)\\$|\\\\\\((.*?)\\\\\\)";
  struct ommai_pattern_match match, inner;
  char *whole = text ? strdup(text) : NULL;
  bool good = whole != NULL;
  for (size_t at = 0; good && ommai_page_text_find(whole, at, all, OMMAI_PATTERN_DOT_ALL, &match); at = match.end[0]) {
    char *line = ommai_page_text_strip(strndup(whole + match.begin[0], match.end[0] - match.begin[0]));
    for (char *c = line; c && *c; c++) *c = *c == '\n' ? ' ' : *c;
    size_t from = ommai_page_text_place(whole, match.begin[0]), to = ommai_page_text_place(whole, match.end[0]);
    bool other = line && ommai_page_text_find(line, 0, dollars, OMMAI_PATTERN_DOT_ALL, &inner);
    bool display = !other || (inner.begin[1] != SIZE_MAX && inner.end[1] > inner.begin[1]);
    if (other) line = ommai_page_text_replace(line, dollars, OMMAI_PATTERN_DOT_ALL, display ? "\\[${1}\\]" : "\\[${2}${3}\\]");
    if (display) text = ommai_page_text_blank(text, from, to);
    good = ommai_pieces_add(
        pieces, (struct ommai_piece){.kind = OMMAI_PIECE_FORMULA, .is_inline = !display, .place = (double)from, .text = line});
  }
  free(whole);
  if (good) return text;
  free(text);
  return NULL;
}

/* Tables that were made of lines with pipes. */
static char *take_pipe_tables(char *text, struct ommai_pieces *pieces) {
  struct ommai_pattern_match match;
  text = ommai_pipe_tables(text);
  while (text && ommai_page_text_find(text, 0, "<table.*?</table>", OMMAI_PATTERN_DOT_ALL, &match)) {
    size_t from = ommai_page_text_place(text, match.begin[0]);
    char *table = strndup(text + match.begin[0], match.end[0] - match.begin[0]);
    if (!ommai_pieces_add(pieces, (struct ommai_piece){.kind = OMMAI_PIECE_TABLE, .place = (double)from, .text = table})) {
      free(text);
      return NULL;
    }
    text = ommai_page_text_blank(text, from, ommai_page_text_place(text, match.end[0]));
  }
  return text;
}

static char *take_code(char *text, struct ommai_pieces *pieces) {
  struct ommai_pattern_match match;
  while (text && ommai_page_text_find(text, 0, "```(\\w+)\\n(.*?)```", OMMAI_PATTERN_DOT_ALL, &match)) {
    size_t from = ommai_page_text_place(text, match.begin[0]);
    char *code = ommai_page_text_strip(strndup(text + match.begin[2], match.end[2] - match.begin[2]));
    if (!ommai_pieces_add(pieces, (struct ommai_piece){.place = (double)from, .text = code})) {
      free(text);
      return NULL;
    }
    text = ommai_page_text_blank(text, from, ommai_page_text_place(text, match.end[0]));
  }
  return text;
}

/* A paragraph without the blanks around its lines. */
static char *trim_lines(char *text) {
  text = ommai_page_text_strip(text);
  char *out = text ? malloc(strlen(text) + 1) : NULL, *to = out;
  for (char *at = text; out && *at;) {
    size_t size = strcspn(at, "\n");
    char *line = ommai_page_text_strip(strndup(at, size));
    if (!line) {
      free(out);
      out = NULL;
      break;
    }
    if (*line && to > out) *to++ = '\n';
    memcpy(to, line, strlen(line));
    to += strlen(line);
    free(line);
    at += size + (at[size] == '\n');
  }
  if (out) *to = '\0';
  free(text);
  return out;
}

static bool ends(const char *text, const char *with) {
  return strlen(text) >= strlen(with) && strcmp(text + strlen(text) - strlen(with), with) == 0;
}

static bool add_paragraph(struct ommai_pieces *pieces, const char *at, size_t size, size_t place) {
  struct ommai_piece piece = {.place = (double)place, .text = trim_lines(strndup(at, size))};
  if (!piece.text) return false;
  if (strncmp(piece.text, "<table", 6) == 0 && ends(piece.text, "</table>")) {
    piece.kind = OMMAI_PIECE_TABLE;
  } else if (piece.text[0] == '$' && ends(piece.text, "$")) {
    char *rest = ommai_page_text_strip(ommai_page_text_without(strdup(piece.text), "$"));
    bool empty = rest && !*rest;
    free(rest);
    piece.kind = OMMAI_PIECE_FORMULA;
    if (empty) *piece.text = '\0';
  }
  if (*piece.text) return ommai_pieces_add(pieces, piece);
  free(piece.text);
  return true;
}

static bool add_paragraphs(struct ommai_pieces *pieces, const char *text) {
  const char *border = strstr(text, "\n\n") ? "\n\n" : "\n";
  size_t place = 0;
  for (const char *at = text; at;) {
    const char *end = strstr(at, border);
    size_t size = end ? (size_t)(end - at) : strlen(at);
    if (!add_paragraph(pieces, at, size, place)) return false;
    place += ommai_page_text_place(at, size);
    at = end ? end + strlen(border) : NULL;
  }
  return true;
}

bool ommai_pieces_of_markdown(const char *markdown, struct ommai_pieces *pieces, size_t *n_latex_tables) {
  static const struct {
    const char *pattern, *replacement;
    enum ommai_pattern_kind kind;
  } before[] = {{"!\\[.*?\\]\\(.*?\\)", "", OMMAI_PATTERN_PLAIN},
                {"^```(?:markdown|html|latex)\\n?", "", OMMAI_PATTERN_LINES},
                {"```\\n?$", "", OMMAI_PATTERN_LINES},
                {"_{4,}", "____", OMMAI_PATTERN_PLAIN},
                {" {4,}", "    ", OMMAI_PATTERN_PLAIN},
                {"</?(?:html|body)>", "", OMMAI_PATTERN_PLAIN}},
    after[] = {{"\\\\title\\{(.*?)\\}", "$1", OMMAI_PATTERN_PLAIN},
               {"\\\\title\\s*\\{\\s*(.*?)\\s*\\}", "$1", OMMAI_PATTERN_DOT_ALL},
               {"\\\\text\\s*\\{\\s*(.*?)\\s*\\}", "$1", OMMAI_PATTERN_DOT_ALL},
               {"\\\\section\\*?\\{(.*?)\\}", "$1", OMMAI_PATTERN_PLAIN},
               {"\\\\section\\*?\\{\\s*(.*?)\\s*\\}", "$1", OMMAI_PATTERN_DOT_ALL}};
  char *text = strdup(markdown);
  *n_latex_tables = 0;
  for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
    text = ommai_page_text_replace(text, before[i].pattern, before[i].kind, before[i].replacement);
  }
  text = take_nested(take_latex_floats(text, n_latex_tables), &latex_tables, NULL, n_latex_tables);
  text = take_formulas(take_nested(text, &html_tables, pieces, NULL), pieces);
  text = take_code(take_pipe_tables(text, pieces), pieces);
  for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
    text = ommai_page_text_replace(text, after[i].pattern, after[i].kind, after[i].replacement);
  }
  bool good = text && add_paragraphs(pieces, text);
  free(text);
  ommai_pieces_sort(pieces, false);
  return good;
}

/* ---- the truth ---- */

static const struct {
  const char *name, *key;
  enum ommai_piece_kind kind;
  enum ommai_piece_use use;
} categories[OMMAI_N_CATEGORIES + 1] = {{"text_block", "text", OMMAI_PIECE_TEXT, OMMAI_USE_TEXT},
                                        {"title", "text", OMMAI_PIECE_TEXT, OMMAI_USE_TEXT},
                                        {"code_txt", "text", OMMAI_PIECE_TEXT, OMMAI_USE_TEXT},
                                        {"code_txt_caption", "text", OMMAI_PIECE_TEXT, OMMAI_USE_TEXT},
                                        {"reference", "text", OMMAI_PIECE_TEXT, OMMAI_USE_TEXT},
                                        {"equation_caption", "text", OMMAI_PIECE_TEXT, OMMAI_USE_NONE},
                                        {"figure_caption", "text", OMMAI_PIECE_TEXT, OMMAI_USE_NONE},
                                        {"figure_footnote", "text", OMMAI_PIECE_TEXT, OMMAI_USE_NONE},
                                        {"table_caption", "text", OMMAI_PIECE_TEXT, OMMAI_USE_NONE},
                                        {"table_footnote", "text", OMMAI_PIECE_TEXT, OMMAI_USE_NONE},
                                        {"code_algorithm", "text", OMMAI_PIECE_TEXT, OMMAI_USE_NONE},
                                        {"code_algorithm_caption", "text", OMMAI_PIECE_TEXT, OMMAI_USE_NONE},
                                        {"header", "text", OMMAI_PIECE_TEXT, OMMAI_USE_NONE},
                                        {"footer", "text", OMMAI_PIECE_TEXT, OMMAI_USE_NONE},
                                        {"page_footnote", "text", OMMAI_PIECE_TEXT, OMMAI_USE_NONE},
                                        {"page_number", "text", OMMAI_PIECE_TEXT, OMMAI_USE_NONE},
                                        {"equation_isolated", "latex", OMMAI_PIECE_FORMULA, OMMAI_USE_FORMULA},
                                        {"table", "html", OMMAI_PIECE_TABLE, OMMAI_USE_NONE}};

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

static bool add_element(struct ommai_pieces *pieces, int category, const json_t *element, char *text) {
  return ommai_pieces_add(pieces, (struct ommai_piece){.kind = categories[category].kind,
                                                       .category = category,
                                                       .use = categories[category].use,
                                                       .place = json_number_value(json_object_get(element, "order")),
                                                       .text = text});
}

static const json_t *element_of(const json_t *page, const json_t *id) {
  json_t *element;
  size_t i;
  json_array_foreach(json_object_get(page, "layout_dets"), i, element) {
    if (json_equal(json_object_get(element, "anno_id"), id)) return element;
  }
  return NULL;
}

static bool holds(const json_t *list, const json_t *value) {
  json_t *item;
  size_t i;
  json_array_foreach(list, i, item) {
    if (json_equal(item, value)) return true;
  }
  return false;
}

/* Lists of the ids that are one block. A relation that continues one adds both its ids, so that
 * the text between three parts is there twice: the benchmark does it so. */
static json_t *truncated_lists(const json_t *page) {
  json_t *lists = json_array(), *relation, *list;
  size_t i, j;
  json_array_foreach(json_object_get(json_object_get(page, "extra"), "relation"), i, relation) {
    json_t *ids[] = {json_object_get(relation, "source_anno_id"), json_object_get(relation, "target_anno_id")};
    bool found = false;
    if (strcmp(text_of(relation, "relation_type"), "truncated") != 0 || !ids[0] || !ids[1]) continue;
    json_array_foreach(lists, j, list) {
      if (!holds(list, ids[0]) && !holds(list, ids[1])) continue;
      json_array_append(list, ids[0]);
      json_array_append(list, ids[1]);
      found = true;
    }
    if (!found) json_array_append_new(lists, json_pack("[O,O]", ids[0], ids[1]));
  }
  return lists;
}

static double order_of(const json_t *element) { return json_number_value(json_object_get(element, "order")); }

/* One block of the elements of a list, by their order. */
static bool add_merged(struct ommai_pieces pieces[OMMAI_N_CATEGORIES + 1], const json_t *page, const json_t *list) {
  const json_t *first = NULL;
  char *text = strdup("");
  bool *used = calloc(json_array_size(list) + 1, sizeof *used);
  for (size_t n = 0; text && used && n < json_array_size(list); n++) {
    const json_t *next = NULL;
    size_t at = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
      const json_t *element = used[i] ? NULL : element_of(page, json_array_get(list, i));
      if (element && (!next || order_of(element) < order_of(next))) next = element, at = i;
    }
    if (!next) break;
    used[at] = true;
    if (!first) first = next;
    size_t size = strlen(text), more = strlen(text_of(next, "text"));
    char *larger = realloc(text, size + more + 1);
    if (!larger) free(text);
    if (larger) memcpy(larger + size, text_of(next, "text"), more + 1);
    text = larger;
  }
  bool good = text && used;
  free(used);
  for (int i = 0; good && first && i <= OMMAI_N_CATEGORIES; i++) {
    if (strcmp(categories[i].name, text_of(first, "category_type")) == 0) return add_element(&pieces[i], i, first, text);
  }
  free(text);
  return good;
}

bool ommai_pieces_of_truth(const json_t *page, struct ommai_pieces *pieces) {
  struct ommai_pieces kinds[OMMAI_N_CATEGORIES + 1] = {{0}};
  json_t *lists = truncated_lists(page), *element, *list;
  bool good = lists != NULL;
  size_t i, j;
  json_array_foreach(json_object_get(page, "layout_dets"), i, element) {
    bool merged = false;
    json_array_foreach(lists, j, list) merged |= holds(list, json_object_get(element, "anno_id"));
    for (int k = 0; good && !merged && k <= OMMAI_N_CATEGORIES; k++) {
      if (strcmp(categories[k].name, text_of(element, "category_type")) != 0) continue;
      good = add_element(&kinds[k], k, element, strdup(text_of(element, categories[k].key)));
    }
  }
  json_array_foreach(lists, j, list) good = good && add_merged(kinds, page, list);
  for (int k = 0; k <= OMMAI_N_CATEGORIES; k++) {
    for (i = 0; i < kinds[k].n; i++) good &= ommai_pieces_add(pieces, kinds[k].list[i]);
    free(kinds[k].list);
  }
  json_decref(lists);
  ommai_pieces_sort(pieces, false);
  return good;
}
