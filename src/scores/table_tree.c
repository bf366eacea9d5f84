/* The reader takes what models and truths write: elements, attributes, entities. An end tag ends
 * what is open up to its like; rows and cells end those before them. */
#include "scores/table_tree.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_DEPTH 64
#define TAG_POINT 0x110000 /* the first number that is no character */

struct element {
  char tag[16];
  size_t first; /* number of nodes when it began */
  int64_t colspan, rowspan;
};

struct reader {
  const char *at;
  struct ommai_table_tree *tree;
  struct element open[MAX_DEPTH];
  size_t depth, cell; /* open elements; the depth of the cell, 0: none */
  struct ommai_points content; /* of the cell */
  size_t capacity;
  bool no_memory, too_large;
};

static bool is(const char *tag, const char *name) { return strcmp(tag, name) == 0; }

static void add_point(struct reader *reader, uint32_t value) {
  struct ommai_points *points = &reader->content;
  if (points->n == reader->capacity) {
    size_t capacity = reader->capacity ? 2 * reader->capacity : 64;
    uint32_t *larger = realloc(points->values, capacity * sizeof *larger);
    reader->no_memory |= !larger;
    if (!larger) return;
    points->values = larger;
    reader->capacity = capacity;
  }
  points->values[points->n++] = value;
}

/* A tag inside a cell as a number. */
static uint32_t point_of_tag(const char *tag, bool end) {
  uint32_t hash = end ? 5381u : 52711u;
  for (; *tag; tag++) hash = hash * 33 + (unsigned char)*tag;
  return TAG_POINT + hash % 0x7f000000u;
}

static void add_node(struct reader *reader, const struct element *element, bool is_cell) {
  struct ommai_table_tree *tree = reader->tree;
  if ((tree->n & (tree->n - 1)) == 0) {
    struct ommai_table_node *larger = realloc(tree->nodes, (tree->n ? 2 * tree->n : 1) * sizeof *larger);
    reader->no_memory |= !larger;
    if (!larger) return;
    tree->nodes = larger;
  }
  struct ommai_table_node *node = &tree->nodes[tree->n++];
  *node = (struct ommai_table_node){.first = element->first};
  memcpy(node->tag, element->tag, sizeof node->tag);
  if (!is_cell) return;
  node->colspan = element->colspan;
  node->rowspan = element->rowspan;
  node->content = reader->content;
  reader->content = (struct ommai_points){NULL, 0};
  reader->capacity = 0;
}

static void close_element(struct reader *reader) {
  const struct element *element = &reader->open[--reader->depth];
  if (reader->cell == reader->depth + 1) {
    add_node(reader, element, true);
    reader->cell = 0;
  } else if (reader->cell) {
    add_point(reader, point_of_tag(element->tag, true));
  } else {
    add_node(reader, element, false);
  }
}

/* Closes what is open down to the innermost element of that name, if there is one. */
static void close_through(struct reader *reader, const char *tag) {
  size_t depth = reader->depth;
  while (depth && !is(reader->open[depth - 1].tag, tag)) depth--;
  while (depth && reader->depth >= depth) close_element(reader);
}

static void open_element(struct reader *reader, const struct element *element) {
  static const char *const empty[] = {"br", "img", "hr", "input", "wbr", "col"};
  bool is_cell = is(element->tag, "td"), is_row = is(element->tag, "tr");
  if (is_cell) close_through(reader, "td");
  if (is_row) close_through(reader, "tr");
  reader->tree->n_elements += reader->depth > 0;
  reader->too_large |= reader->depth == MAX_DEPTH || reader->tree->n_elements > OMMAI_MAX_TABLE_NODES;
  if (reader->too_large) return;
  if (reader->cell) add_point(reader, point_of_tag(element->tag, false));
  reader->open[reader->depth] = *element;
  reader->open[reader->depth++].first = reader->tree->n;
  if (is_cell && !reader->cell) reader->cell = reader->depth;
  for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
    if (is(element->tag, empty[i])) close_element(reader);
  }
}

/* colspan and rowspan, of those that are there. */
static void read_attribute(const char *name, size_t size, const char *value, struct element *element) {
  int64_t number = strtoll(value, NULL, 10);
  if (size == 7 && strncasecmp(name, "colspan", 7) == 0) element->colspan = number;
  if (size == 7 && strncasecmp(name, "rowspan", 7) == 0) element->rowspan = number;
}

static const char *read_attributes(const char *at, struct element *element) {
  at += strspn(at, " \t\r\n");
  while (*at && *at != '>') {
    const char *name = at, *value;
    size_t size = strcspn(at, " \t\r\n=>/");
    at += size;
    at += strspn(at, " \t\r\n");
    if (*at == '=') {
      at += 1 + strspn(at + 1, " \t\r\n");
      char quote = *at == '"' || *at == '\'' ? *at : '\0';
      value = at += quote != '\0';
      at += quote ? strcspn(at, quote == '"' ? "\"" : "'") : strcspn(at, " \t\r\n>");
      read_attribute(name, size, value, element);
      at += quote && *at;
    } else if (!size) {
      at++;
    }
    at += strspn(at, " \t\r\n");
  }
  return at;
}

/* At "<"; false: it is no tag. */
static bool read_tag(struct reader *reader) {
  const char *at = reader->at + 1;
  struct element element = {.colspan = 1, .rowspan = 1};
  bool end = *at == '/';
  at += end;
  if (strncmp(at, "!--", 3) == 0) {
    const char *close = strstr(at, "-->");
    reader->at = close ? close + 3 : at + strlen(at);
    return true;
  }
  if (!isalpha((unsigned char)*at)) return false;
  size_t size = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
  for (size_t i = 0; i < size && i < sizeof element.tag - 1; i++) element.tag[i] = (char)tolower((unsigned char)at[i]);
  if (is(element.tag, "th")) memcpy(element.tag, "td", 3);
  at = read_attributes(at + size, &element);
  reader->at = at + (*at == '>');
  if (end) {
    close_through(reader, element.tag);
  } else {
    open_element(reader, &element);
  }
  return true;
}

/* At "&"; a name that is not known stays as it is. */
static void read_entity(struct reader *reader) {
  static const struct {
    const char *name;
    uint32_t value;
  } names[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}, {"&nbsp;", 0xa0}};
  char *end;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strncmp(reader->at, names[i].name, strlen(names[i].name)) != 0) continue;
    reader->at += strlen(names[i].name);
    return add_point(reader, names[i].value);
  }
  bool hexadecimal = reader->at[1] == '#' && (reader->at[2] | 32) == 'x';
  if (reader->at[1] == '#') {
    unsigned long value = strtoul(reader->at + 2 + hexadecimal, &end, hexadecimal ? 16 : 10);
    if (*end == ';' && value > 0 && value < TAG_POINT) {
      reader->at = end + 1;
      return add_point(reader, (uint32_t)value);
    }
  }
  add_point(reader, (unsigned char)*reader->at++);
}

static void read_text(struct reader *reader) {
  size_t size = 1 + strcspn(reader->at + 1, "<&");
  if (reader->cell) {
    struct ommai_points points = ommai_points_of(reader->at, size);
    reader->no_memory |= !points.values;
    for (size_t i = 0; i < points.n; i++) add_point(reader, points.values[i]);
    free(points.values);
  }
  reader->at += size;
}

enum ommai_table_reading ommai_table_tree_read(const char *html, struct ommai_table_tree *tree) {
  *tree = (struct ommai_table_tree){.n = 0};
  struct reader reader = {.at = strcasestr(html, "<table"), .tree = tree};
  if (!reader.at) return OMMAI_TABLE_NONE;
  bool begun = false;
  while (*reader.at && !reader.no_memory && !reader.too_large && (reader.depth || !begun)) {
    bool tag = *reader.at == '<' && read_tag(&reader);
    begun = true;
    if (tag) continue;
    if (*reader.at == '&' && reader.cell) {
      read_entity(&reader);
    } else {
      read_text(&reader);
    }
  }
  while (reader.depth && !reader.no_memory && !reader.too_large) close_element(&reader);
  free(reader.content.values);
  return reader.no_memory ? OMMAI_TABLE_NO_MEMORY : reader.too_large ? OMMAI_TABLE_NONE : OMMAI_TABLE_READ;
}

void ommai_table_tree_free(struct ommai_table_tree *tree) {
  for (size_t i = 0; i < tree->n; i++) free(tree->nodes[i].content.values);
  free(tree->nodes);
  *tree = (struct ommai_table_tree){.n = 0};
}
