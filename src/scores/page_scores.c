#include "scores/page_scores.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scores/assignment.h"
#include "scores/edit_distance.h"
#include "scores/latex_text.h"
#include "scores/normal_form.h"
#include "scores/page_pieces.h"
#include "scores/page_text.h"
#include "scores/quick_match.h"
#include "scores/table_tree.h"

#define NEAR_UNCOUNTED 0.25 /* what is so near to a caption, a header or the like is taken for it */

/* Edits and longer lengths of a page, by kind. */
struct sums {
  int64_t edits[OMMAI_N_SCORES], lengths[OMMAI_N_SCORES], n[OMMAI_N_SCORES];
};

/* A piece in the form that is compared. Pieces without letters are no lines. */
struct line {
  const struct ommai_piece *piece;
  struct ommai_points points;
};

/* The n-th line has the place and kind of the n-th piece, also where pieces before it are no lines:
 * the benchmark mixes them up so, and its figures depend on it. */
struct lines {
  struct line *list;
  size_t n;
  const struct ommai_pieces *pieces;
};

/* A true line, or several, with what was read as them. */
struct entry {
  enum ommai_piece_use use;
  struct ommai_points truth, read;
  const struct ommai_piece *first_read; /* NULL: nothing was read */
  size_t first_order, n_orders;         /* in the list of orders */
};

struct page {
  struct ommai_pieces truth, read, tables, read_tables;
  struct lines true_lines, read_lines;
  struct entry *entries;
  size_t n_entries;
  double *orders; /* of the true lines of all entries */
  size_t n_orders;
};

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

const json_t *ommai_truth_find(const json_t *truth, const char *name) {
  json_t *page;
  size_t i;
  json_array_foreach(truth, i, page) {
    const char *path = text_of(json_object_get(page, "page_info"), "image_path"), *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
    size_t size = dot && dot > base ? (size_t)(dot - base) : strlen(base);
    if (strcmp(base, name) == 0 || (strlen(name) == size && strncmp(base, name, size) == 0)) return page;
  }
  return NULL;
}

static struct ommai_points points_of(char *text) {
  struct ommai_points points = {NULL, 0};
  if (text) points = ommai_points_of(text, strlen(text));
  free(text);
  return points;
}

static bool add_sums(struct sums *sums, enum ommai_score_kind kind, const struct ommai_points *truth,
                     const struct ommai_points *read) {
  int64_t edits = ommai_edit_distance(truth, read);
  if (edits < 0) return false;
  sums->edits[kind] += edits;
  sums->lengths[kind] += (int64_t)(truth->n > read->n ? truth->n : read->n);
  sums->n[kind]++;
  return true;
}

/* ---- tables ---- */

/* The texts of a table's cells that have nothing but text, as pieces at its place: a table that no
 * true one is paired with may have been read of a text. */
static bool add_cells(struct ommai_pieces *pieces, const struct ommai_piece *table) {
  struct ommai_pattern_match match;
  static const char cell[] = "(?i)<td\\b[^>]*>(?:([^<]+)|<(\\w+)\\b[^>]*>([^<]+)</\\2>)</td>";
  for (size_t at = 0; ommai_page_text_find(table->text, at, cell, OMMAI_PATTERN_DOT_ALL, &match); at = match.end[0]) {
    int group = match.begin[1] != SIZE_MAX ? 1 : 3;
    char *text = ommai_unescaped(strndup(table->text + match.begin[group], match.end[group] - match.begin[group]));
    text = ommai_page_text_strip(ommai_page_text_without(text, "$\\cdot$"));
    if (!ommai_pieces_add(pieces, (struct ommai_piece){.place = table->place, .text = text})) return false;
  }
  return true;
}

static bool score_table(struct ommai_page_scores *scores, struct sums *sums, const char *truth, const char *read) {
  char *normal[2] = {ommai_normal_table(truth), ommai_normal_table(read)};
  struct ommai_points points[2] = {{NULL, 0}, {NULL, 0}};
  struct ommai_table_tree trees[2] = {{.n = 0}, {.n = 0}};
  bool good = normal[0] && normal[1], readable = true;
  for (int i = 0; good && i < 2; i++) {
    enum ommai_table_reading reading = ommai_table_tree_read(normal[i], &trees[i]);
    points[i] = ommai_points_of(normal[i], strlen(normal[i]));
    good = points[i].values && reading != OMMAI_TABLE_NO_MEMORY;
    readable &= reading == OMMAI_TABLE_READ;
  }
  if (good && readable) {
    double similarity = ommai_table_similarity(&trees[1], &trees[0], false);
    double structure = ommai_table_similarity(&trees[1], &trees[0], true);
    good = !isnan(similarity) && !isnan(structure);
    scores->similarity += similarity;
    scores->structure += structure;
  }
  good = good && add_sums(sums, OMMAI_SCORE_TABLE, &points[0], &points[1]);
  scores->n_tables++;
  for (int i = 0; i < 2; i++) {
    ommai_table_tree_free(&trees[i]);
    free(points[i].values);
    free(normal[i]);
  }
  return good;
}

/* Tables one to one, with the least sum of distances of their HTML. Where more were read in LaTeX
 * than in HTML, none counts as read. */
static bool score_tables(struct ommai_page_scores *scores, struct sums *sums, struct page *page, size_t n_latex_tables) {
  const struct ommai_pieces *truth = &page->tables, *read = &page->read_tables;
  size_t n_read = n_latex_tables > read->n ? 0 : read->n;
  struct ommai_points *points = calloc(truth->n + n_read + 1, sizeof *points);
  double *costs = malloc((truth->n * n_read + 1) * sizeof *costs);
  size_t *column = malloc((truth->n + 1) * sizeof *column);
  bool good = points && costs && column, *paired = calloc(n_read + 1, sizeof *paired);
  for (size_t i = 0; good && i < truth->n + n_read; i++) {
    const char *text = i < truth->n ? truth->list[i].text : read->list[i - truth->n].text;
    points[i] = ommai_points_of(text, strlen(text));
    good = points[i].values != NULL;
  }
  for (size_t i = 0; good && i < truth->n * n_read; i++) {
    costs[i] = ommai_edit_distance_normalised(&points[i / n_read], &points[truth->n + i % n_read]);
    good = costs[i] >= 0;
  }
  good = good && paired && ommai_assign(costs, truth->n, n_read, column);
  for (size_t i = 0; good && i < truth->n; i++) {
    if (column[i] != SIZE_MAX) paired[column[i]] = true;
    good = score_table(scores, sums, truth->list[i].text, column[i] == SIZE_MAX ? "" : read->list[column[i]].text);
  }
  for (size_t i = 0; good && truth->n && i < n_read; i++) good = paired[i] || add_cells(&page->read, &read->list[i]);
  for (size_t i = 0; points && i < truth->n + n_read; i++) free(points[i].values);
  free(points);
  free(costs);
  free(column);
  free(paired);
  return good;
}

/* ---- texts and formulas ---- */

static bool make_lines(const struct ommai_pieces *pieces, struct lines *lines) {
  lines->pieces = pieces;
  lines->list = calloc(pieces->n + 1, sizeof *lines->list);
  for (size_t i = 0; lines->list && i < pieces->n; i++) {
    const struct ommai_piece *piece = &pieces->list[i];
    char *normal = piece->kind == OMMAI_PIECE_FORMULA ? ommai_normal_formula(piece->text) : ommai_normal_text(piece->text);
    struct line line = {piece, points_of(normal)};
    if (!line.points.values) return false;
    if (line.points.n) {
      lines->list[lines->n++] = line;
    } else {
      free(line.points.values);
    }
  }
  return lines->list != NULL;
}

static struct ommai_points join_points(const struct ommai_points *parts, const size_t *which, size_t first, size_t n) {
  struct ommai_points whole = {NULL, 0};
  for (size_t i = 0; i < n; i++) whole.n += parts[which ? which[i] : first + i].n;
  whole.values = malloc((whole.n + 1) * sizeof *whole.values);
  for (size_t i = 0, at = 0; whole.values && i < n; i++) {
    const struct ommai_points *part = &parts[which ? which[i] : first + i];
    memcpy(whole.values + at, part->values, part->n * sizeof *part->values);
    at += part->n;
  }
  return whole;
}

/* The letters of formulas, as a text: of one as it stands, of several as an array. */
static struct ommai_points letters_of_formulas(const struct lines *lines, const size_t *which, size_t n) {
  char *latex = NULL;
  size_t size;
  FILE *file = open_memstream(&latex, &size);
  if (!file) return (struct ommai_points){NULL, 0};
  for (size_t i = 0; i < n; i++) {
    const char *text = lines->list[which[i]].piece->text;
    char *inner = n > 1 ? ommai_page_text_strip_set(ommai_page_text_strip_set(strdup(text), "$"), "\n") : NULL;
    fprintf(file, n > 1 ? "%s{%s}" : "%s%s", n == 1 ? "" : i ? " \\\\ " : "\\begin{array}{l} ", inner ? inner : text);
    free(inner);
  }
  if (n > 1) fputs(" \\end{array}", file);
  bool good = fclose(file) == 0;
  char *letters = good ? ommai_normal_letters(ommai_latex_text(latex)) : NULL;
  struct ommai_points points;
  if (letters && !*letters) {
    free(letters);
    letters = strdup(latex);
  }
  free(latex);
  points = points_of(letters);
  return points;
}

/* Adds true lines with lines that were read, by their numbers among all lines of the page. */
static bool add_entry(struct page *page, const size_t *truth, size_t n_true, const struct ommai_points *true_points,
                      const size_t *read, size_t n_read, const struct ommai_points *read_points) {
  struct entry *entry = &page->entries[page->n_entries];
  size_t most = 0;
  *entry = (struct entry){.first_order = page->n_orders, .n_orders = n_true};
  for (size_t i = 0; i < n_true; i++) { /* the commonest category, of equals the first */
    size_t n = 0;
    const struct ommai_piece *piece = page->true_lines.list[truth[i]].piece;
    for (size_t j = 0; j < n_true; j++) n += page->true_lines.list[truth[j]].piece->category == piece->category;
    if (n > most) most = n, entry->use = piece->use;
    page->orders[page->n_orders++] = page->true_lines.pieces->list[truth[i]].place;
  }
  if (n_read) entry->first_read = &page->read_lines.pieces->list[read[0]];
  entry->truth = join_points(true_points, truth, 0, n_true);
  entry->read = join_points(read_points, read, 0, n_read);
  bool is_text = entry->first_read && entry->first_read->kind != OMMAI_PIECE_FORMULA;
  if (entry->use == OMMAI_USE_FORMULA && is_text) { /* it counts as a text */
    free(entry->truth.values);
    entry->truth = letters_of_formulas(&page->true_lines, truth, n_true);
  }
  page->n_entries++;
  return entry->truth.values && entry->read.values;
}

/* Lines that count and were not taken for what does not, through the quick match. */
static bool match_counted(struct page *page, const struct ommai_points *truth, const struct ommai_points *read) {
  size_t n_true = page->true_lines.n, n_read = page->read_lines.n, n_counted = 0, n_left = 0;
  struct ommai_points *counted = calloc(n_true + 1, sizeof *counted), *left = calloc(n_read + 1, sizeof *left);
  size_t *counted_at = calloc(n_true + 1, sizeof *counted_at), *left_at = calloc(n_read + 1, sizeof *left_at);
  size_t *numbers = calloc(n_true + n_read + 1, sizeof *numbers);
  bool good = counted && left && counted_at && left_at && numbers;
  struct ommai_matches matches = {0};
  for (size_t i = 0; good && i < n_true; i++) {
    if (page->true_lines.list[i].piece->use == OMMAI_USE_NONE) continue;
    counted_at[n_counted] = i;
    counted[n_counted++] = truth[i];
  }
  for (size_t i = 0; good && i < n_read; i++) {
    bool taken = false;
    for (size_t j = 0; good && j < n_true && !taken; j++) {
      double distance =
          page->true_lines.list[j].piece->use == OMMAI_USE_NONE ? ommai_edit_distance_normalised(&truth[j], &read[i]) : 1;
      good = distance >= 0;
      taken = distance < NEAR_UNCOUNTED;
    }
    if (taken) continue;
    left_at[n_left] = i;
    left[n_left++] = read[i];
  }
  good = good && ommai_quick_match(counted, n_counted, left, n_left, &matches);
  for (size_t i = 0; good && i < matches.n; i++) {
    const struct ommai_match *match = &matches.list[i];
    for (size_t j = 0; j < match->n_true; j++) numbers[j] = counted_at[matches.lines[match->first_true + j]];
    for (size_t j = 0; j < match->n_read; j++) numbers[match->n_true + j] = left_at[match->first_read + j];
    good = add_entry(page, numbers, match->n_true, truth, numbers + match->n_true, match->n_read, read);
  }
  ommai_matches_free(&matches);
  free(counted);
  free(left);
  free(counted_at);
  free(left_at);
  free(numbers);
  return good;
}

static bool match_lines(struct page *page) {
  size_t n_true = page->true_lines.n, n_read = page->read_lines.n, only = 0;
  struct ommai_points *truth = calloc(n_true + 1, sizeof *truth), *read = calloc(n_read + 1, sizeof *read);
  page->entries = calloc(n_true + 1, sizeof *page->entries);
  page->orders = calloc(n_true + 1, sizeof *page->orders);
  bool good = truth && read && page->entries && page->orders;
  for (size_t i = 0; good && i < n_true; i++) truth[i] = page->true_lines.list[i].points;
  for (size_t i = 0; good && i < n_read; i++) read[i] = page->read_lines.list[i].points;
  if (good && n_true == 1 && n_read == 1) { /* one line on each side is a pair, however far apart */
    good = add_entry(page, &only, 1, truth, &only, 1, read);
  } else if (good && n_read) {
    good = match_counted(page, truth, read);
  } else {
    for (size_t i = 0; good && i < n_true; i++) good = add_entry(page, &i, 1, truth, NULL, 0, read);
  }
  free(truth);
  free(read);
  return good;
}

/* ---- figures ---- */

static int by_value(const void *a, const void *b) {
  double first = *(const double *)a, second = *(const double *)b;
  return (first > second) - (first < second);
}

struct turn {
  const struct entry *entry;
  size_t index;
};

static int by_reading(const void *a, const void *b) {
  const struct turn *first = a, *second = b;
  double one = first->entry->first_read->place, other = second->entry->first_read->place;
  if (one != other) return one < other ? -1 : 1;
  return (first->index > second->index) - (first->index < second->index);
}

/* Orders as numbers that are equal where they are. */
static uint32_t number_of(double order) { return (uint32_t)lround(order * 10); }

/* The orders of all true texts, sorted, and those of the texts that were read, in the order of
 * reading. */
static bool add_order(struct sums *sums, const struct page *page) {
  double *sorted = malloc((page->n_orders + 1) * sizeof *sorted);
  struct turn *turns = malloc((page->n_entries + 1) * sizeof *turns);
  struct ommai_points truth = {malloc((page->n_orders + 1) * sizeof(uint32_t)), 0},
                      read = {malloc((page->n_orders + 1) * sizeof(uint32_t)), 0};
  bool good = sorted && turns && truth.values && read.values;
  size_t n_turns = 0, n_sorted = 0;
  for (size_t i = 0; good && i < page->n_entries; i++) {
    const struct entry *entry = &page->entries[i];
    if (entry->use != OMMAI_USE_TEXT) continue;
    if (entry->first_read) turns[n_turns++] = (struct turn){entry, i};
    for (size_t j = 0; j < entry->n_orders; j++) {
      double order = page->orders[entry->first_order + j];
      if (order != 0) sorted[n_sorted++] = order;
    }
  }
  if (good) qsort(sorted, n_sorted, sizeof *sorted, by_value);
  if (good) qsort(turns, n_turns, sizeof *turns, by_reading);
  for (size_t i = 0; good && i < n_sorted; i++) truth.values[truth.n++] = number_of(sorted[i]);
  for (size_t i = 0; good && i < n_turns; i++) {
    for (size_t j = 0; j < turns[i].entry->n_orders; j++) {
      double order = page->orders[turns[i].entry->first_order + j];
      if (order != 0) read.values[read.n++] = number_of(order);
    }
  }
  if (good && n_sorted) good = add_sums(sums, OMMAI_SCORE_ORDER, &truth, &read);
  free(sorted);
  free(turns);
  free(truth.values);
  free(read.values);
  return good;
}

static bool add_figures(struct sums *sums, const struct page *page) {
  for (size_t i = 0; i < page->n_entries; i++) {
    const struct entry *entry = &page->entries[i];
    if (entry->use == OMMAI_USE_NONE) continue;
    bool as_text = entry->use == OMMAI_USE_TEXT || (entry->first_read && entry->first_read->kind != OMMAI_PIECE_FORMULA);
    if (!add_sums(sums, as_text ? OMMAI_SCORE_TEXT : OMMAI_SCORE_FORMULA, &entry->truth, &entry->read)) return false;
  }
  return add_order(sums, page);
}

/* Texts and formulas one after the other: the kind that comes first on the page, then the other,
 * which decides between pieces of the same place. Tables apart. */
static bool sort_out(struct ommai_pieces *all, struct ommai_pieces *mixed, struct ommai_pieces *tables) {
  enum ommai_piece_kind first = OMMAI_PIECE_TABLE;
  bool good = true;
  for (size_t i = 0; i < all->n && first == OMMAI_PIECE_TABLE; i++) first = all->list[i].kind;
  for (int pass = 0; pass < 3; pass++) {
    for (size_t i = 0; i < all->n; i++) {
      struct ommai_piece *piece = &all->list[i];
      int turn = piece->kind == OMMAI_PIECE_TABLE ? 2 : piece->kind != first;
      if (turn == pass) good &= ommai_pieces_add(pass == 2 ? tables : mixed, *piece);
    }
  }
  free(all->list);
  *all = (struct ommai_pieces){0};
  return good;
}

static void free_lines(struct lines *lines) {
  for (size_t i = 0; i < lines->n; i++) free(lines->list[i].points.values);
  free(lines->list);
}

static void free_page(struct page *page) {
  for (size_t i = 0; i < page->n_entries; i++) {
    free(page->entries[i].truth.values);
    free(page->entries[i].read.values);
  }
  free(page->entries);
  free(page->orders);
  free_lines(&page->true_lines);
  free_lines(&page->read_lines);
  ommai_pieces_free(&page->truth);
  ommai_pieces_free(&page->read);
  ommai_pieces_free(&page->tables);
  ommai_pieces_free(&page->read_tables);
}

bool ommai_page_scores_add(struct ommai_page_scores *scores, const char *markdown, const json_t *truth) {
  struct page page = {.n_entries = 0};
  struct ommai_pieces all = {0}, wanted = {0};
  struct sums sums = {.n = {0}};
  size_t n_latex_tables;
  bool good = ommai_pieces_of_markdown(markdown, &all, &n_latex_tables);
  good = sort_out(&all, &page.read, &page.read_tables) && good && ommai_pieces_of_truth(truth, &wanted);
  good = sort_out(&wanted, &page.truth, &page.tables) && good;
  if (good) ommai_pieces_sort(&page.truth, false);
  good = good && score_tables(scores, &sums, &page, n_latex_tables);
  if (good) ommai_pieces_sort(&page.read, true);
  good = good && ommai_pieces_split_arrays(&page.truth, true) && ommai_pieces_split_arrays(&page.read, false);
  good = good && make_lines(&page.truth, &page.true_lines) && make_lines(&page.read, &page.read_lines);
  good = good && match_lines(&page) && add_figures(&sums, &page);
  for (int kind = 0; good && kind < OMMAI_N_SCORES; kind++) {
    if (!sums.n[kind] || !sums.lengths[kind]) continue;
    scores->n_pages[kind]++;
    scores->distance[kind] += (double)sums.edits[kind] / (double)sums.lengths[kind];
  }
  free_page(&page);
  return good;
}
