#include "scores/page_scores.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <utf8proc.h>

#include "scores/assignment.h"
#include "scores/edit_distance.h"
#include "scores/table_tree.h"

struct piece {
  char *text; /* as it is; by malloc */
  struct ommai_points points; /* what is compared */
  size_t place; /* of all that were read, or the truth's order */
};

struct pieces {
  struct piece *list;
  size_t n, capacity;
};

static bool add_piece(struct pieces *pieces, const char *text, size_t size, enum ommai_score_kind kind, size_t place) {
  if (pieces->n == pieces->capacity) {
    size_t capacity = pieces->capacity ? 2 * pieces->capacity : 16;
    struct piece *larger = realloc(pieces->list, capacity * sizeof *larger);
    if (!larger) return false;
    pieces->list = larger;
    pieces->capacity = capacity;
  }
  struct piece *piece = &pieces->list[pieces->n];
  *piece = (struct piece){strndup(text, size), ommai_points_of(text, size), place};
  if (!piece->text || !piece->points.values) {
    free(piece->text);
    free(piece->points.values);
    return false;
  }
  size_t n = 0;
  for (size_t i = 0; i < piece->points.n; i++) {
    uint32_t value = piece->points.values[i];
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)value);
    bool letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
    bool digit = category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
    bool blank = value == ' ' || value == '\n' || value == '\t' || value == '\r';
    if (kind == OMMAI_SCORE_TEXT ? letter || digit || value == '_' : !blank) piece->points.values[n++] = value;
  }
  piece->points.n = n;
  pieces->n++;
  return true;
}

static void free_pieces(struct pieces *pieces) {
  for (size_t i = 0; i < pieces->n; i++) {
    free(pieces->list[i].text);
    free(pieces->list[i].points.values);
  }
  free(pieces->list);
}

/* ---- what was read ---- */

static bool begins(const char *text, size_t size, const char *with) {
  return size >= strlen(with) && strncasecmp(text, with, strlen(with)) == 0;
}

/* A paragraph of the Markdown: without the marks of headings, formulas without theirs; images are
 * nothing. */
static bool add_paragraph(struct pieces kinds[OMMAI_SCORE_ORDER], const char *text, size_t size, size_t *place) {
  while (size && strchr(" \t\r\n", *text)) text++, size--;
  while (size && strchr(" \t\r\n", text[size - 1])) size--;
  if (!size || begins(text, size, "![")) return true;
  enum ommai_score_kind kind = OMMAI_SCORE_TEXT;
  if (begins(text, size, "<table")) {
    kind = OMMAI_SCORE_TABLE;
  } else if (size >= 4 && (begins(text, size, "\\[") || begins(text, size, "$$"))) {
    kind = OMMAI_SCORE_FORMULA;
    text += 2;
    size -= 4;
  }
  while (kind == OMMAI_SCORE_TEXT && size && (*text == '#' || *text == ' ')) text++, size--;
  return add_piece(&kinds[kind], text, size, kind, (*place)++);
}

static bool split_markdown(const char *markdown, struct pieces kinds[OMMAI_SCORE_ORDER]) {
  size_t place = 0;
  for (const char *at = markdown, *end; *at; at = end) {
    at += strspn(at, "\n");
    bool table = begins(at, strlen(at), "<table");
    const char *close = table ? strcasestr(at, "</table>") : NULL;
    end = close ? close + strlen("</table>") : strstr(at, "\n\n");
    if (!end) end = at + strlen(at);
    if (!add_paragraph(kinds, at, (size_t)(end - at), &place)) return false;
  }
  return true;
}

/* ---- the truth ---- */

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

/* What counts as text is what that benchmark counts so; headers, footers and captions are left
 * out. */
static bool take_truth(const json_t *truth, struct pieces kinds[OMMAI_SCORE_ORDER]) {
  static const char *const texts[] = {"text_block", "title", "code_txt", "reference", "code_algorithm"};
  const json_t *elements = json_object_get(truth, "layout_dets");
  json_t *element;
  size_t i;
  json_array_foreach(elements, i, element) {
    const char *type = text_of(element, "category_type"), *text = text_of(element, "text");
    enum ommai_score_kind kind = OMMAI_N_SCORES;
    size_t place = (size_t)json_integer_value(json_object_get(element, "order"));
    for (size_t j = 0; j < sizeof texts / sizeof *texts; j++) {
      if (strcmp(type, texts[j]) == 0) kind = OMMAI_SCORE_TEXT;
    }
    if (strcmp(type, "table") == 0) kind = OMMAI_SCORE_TABLE, text = text_of(element, "html");
    if (strcmp(type, "equation_isolated") == 0) kind = OMMAI_SCORE_FORMULA, text = text_of(element, "latex");
    if (kind == OMMAI_N_SCORES || json_is_true(json_object_get(element, "ignore"))) continue;
    size_t size = strlen(text);
    if (kind == OMMAI_SCORE_FORMULA && size >= 4 && begins(text, size, "$$")) text += 2, size -= 4;
    if (!add_piece(&kinds[kind], text, size, kind, place)) return false;
  }
  return true;
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

/* ---- comparing ---- */

/* partner[i]: the truth's piece for piece i of the reading, or SIZE_MAX. */
static bool match(const struct pieces *read, const struct pieces *truth, size_t *partner) {
  double *costs = malloc((read->n * truth->n + 1) * sizeof *costs);
  bool good = costs != NULL;
  for (size_t i = 0; good && i < read->n; i++) {
    for (size_t j = 0; good && j < truth->n; j++) {
      double cost = ommai_edit_distance_normalised(&read->list[i].points, &truth->list[j].points);
      costs[i * truth->n + j] = cost;
      good = cost >= 0;
    }
  }
  good = good && ommai_assign(costs, read->n, truth->n, partner);
  free(costs);
  return good;
}

/* Edits and longer lengths of all pairs, and of those that have no partner. */
static bool add_distances(struct ommai_page_scores *scores, enum ommai_score_kind kind, const struct pieces *read,
                          const struct pieces *truth, const size_t *partner) {
  int64_t edits = 0, lengths = 0, matched = 0;
  for (size_t i = 0; i < read->n; i++) {
    const struct ommai_points *points = &read->list[i].points;
    const struct ommai_points *other = partner[i] == SIZE_MAX ? NULL : &truth->list[partner[i]].points;
    int64_t distance = other ? ommai_edit_distance(points, other) : (int64_t)points->n;
    if (distance < 0) return false;
    edits += distance;
    lengths += (int64_t)(other && other->n > points->n ? other->n : points->n);
    if (other) matched += (int64_t)other->n;
  }
  for (size_t j = 0; j < truth->n; j++) matched -= (int64_t)truth->list[j].points.n;
  edits -= matched; /* what of the truth has no partner */
  lengths -= matched;
  if (!lengths) return true;
  scores->n_pages[kind]++;
  scores->distance[kind] += (double)edits / (double)lengths;
  return true;
}

static bool add_tables(struct ommai_page_scores *scores, const struct pieces *read, const struct pieces *truth,
                       const size_t *partner) {
  bool good = true;
  for (size_t j = 0; j < truth->n && good; j++) {
    struct ommai_table_tree a = {.n = 0}, b;
    size_t i = 0;
    while (i < read->n && partner[i] != j) i++;
    scores->n_tables++;
    enum ommai_table_reading first = i < read->n ? ommai_table_tree_read(read->list[i].text, &a) : OMMAI_TABLE_NONE;
    enum ommai_table_reading second = ommai_table_tree_read(truth->list[j].text, &b);
    good = first != OMMAI_TABLE_NO_MEMORY && second != OMMAI_TABLE_NO_MEMORY;
    if (first == OMMAI_TABLE_READ && second == OMMAI_TABLE_READ) {
      double similarity = ommai_table_similarity(&a, &b, false), structure = ommai_table_similarity(&a, &b, true);
      good = similarity >= 0 && structure >= 0;
      scores->similarity += similarity;
      scores->structure += structure;
    }
    ommai_table_tree_free(&a);
    ommai_table_tree_free(&b);
  }
  return good;
}

struct pair {
  size_t read, truth;
};

static int by_reading(const void *a, const void *b) {
  const struct pair *first = a, *second = b;
  return (first->read > second->read) - (first->read < second->read);
}

static int by_truth(const void *a, const void *b) {
  const struct pair *first = a, *second = b;
  return (first->truth > second->truth) - (first->truth < second->truth);
}

/* The edit distance between the orders of what was matched. */
static bool add_order(struct ommai_page_scores *scores, struct pair *pairs, size_t n) {
  struct ommai_points orders[2] = {{malloc((n + 1) * sizeof(uint32_t)), n}, {malloc((n + 1) * sizeof(uint32_t)), n}};
  bool good = orders[0].values && orders[1].values;
  for (int side = 0; good && side < 2; side++) {
    qsort(pairs, n, sizeof *pairs, side ? by_truth : by_reading);
    for (size_t i = 0; i < n; i++) orders[side].values[i] = (uint32_t)pairs[i].truth;
  }
  double distance = good ? ommai_edit_distance_normalised(&orders[0], &orders[1]) : -1;
  free(orders[0].values);
  free(orders[1].values);
  if (distance < 0) return false;
  scores->n_pages[OMMAI_SCORE_ORDER] += n > 0;
  scores->distance[OMMAI_SCORE_ORDER] += distance;
  return true;
}

static bool compare(struct ommai_page_scores *scores, const struct pieces *read, const struct pieces *truth) {
  size_t n_all = 1, n_pairs = 0;
  for (int kind = 0; kind < OMMAI_SCORE_ORDER; kind++) n_all += read[kind].n;
  struct pair *pairs = malloc(n_all * sizeof *pairs);
  size_t *partner = malloc(n_all * sizeof *partner);
  bool good = pairs && partner;
  for (int kind = 0; kind < OMMAI_SCORE_ORDER && good; kind++) {
    const struct pieces *left = &read[kind], *right = &truth[kind];
    good = match(left, right, partner) && add_distances(scores, (enum ommai_score_kind)kind, left, right, partner);
    if (good && kind == OMMAI_SCORE_TABLE) good = add_tables(scores, left, right, partner);
    for (size_t i = 0; good && i < left->n; i++) {
      if (partner[i] != SIZE_MAX) pairs[n_pairs++] = (struct pair){left->list[i].place, right->list[partner[i]].place};
    }
  }
  good = good && add_order(scores, pairs, n_pairs);
  free(pairs);
  free(partner);
  return good;
}

bool ommai_page_scores_add(struct ommai_page_scores *scores, const char *markdown, const json_t *truth) {
  struct pieces read[OMMAI_SCORE_ORDER] = {{NULL}}, wanted[OMMAI_SCORE_ORDER] = {{NULL}};
  bool good = split_markdown(markdown, read) && take_truth(truth, wanted) && compare(scores, read, wanted);
  for (int kind = 0; kind < OMMAI_SCORE_ORDER; kind++) {
    free_pieces(&read[kind]);
    free_pieces(&wanted[kind]);
  }
  return good;
}
