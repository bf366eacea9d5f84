/* A table in HTML as a tree, for the score of tables. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "scores/edit_distance.h"

#define OMMAI_MAX_TABLE_NODES 20000

/* Nodes in postorder: the order in which their ends come. */
struct ommai_table_node {
  char tag[16];
  int64_t colspan, rowspan; /* of cells; else 0 */
  struct ommai_points content; /* of a cell: characters, and tags inside as numbers above them */
  size_t first; /* the leftmost leaf below it, or itself */
};

struct ommai_table_tree {
  struct ommai_table_node *nodes;
  size_t n;
  int64_t n_elements; /* those below the table, elements inside of cells too */
};

enum ommai_table_reading { OMMAI_TABLE_READ, OMMAI_TABLE_NONE, OMMAI_TABLE_NO_MEMORY };

/* Reads the first table of a text. <th> counts as <td>. NONE: there is no table, or one of more
 * than OMMAI_MAX_TABLE_NODES. Free in every case. */
enum ommai_table_reading ommai_table_tree_read(const char *html, struct ommai_table_tree *tree);
void ommai_table_tree_free(struct ommai_table_tree *tree);

/* 1 - distance / elements of the larger table, of Zhong, ShafieiBavani and Jimeno Yepes,
 * "Image-based table recognition: data, model, and evaluation" (TEDS): the distance of Zhang and
 * Shasha between ordered trees, in which a cell costs the normalised edit distance of its content.
 * structure_only: contents are not looked at. It may be negative. NaN when memory is out. */
double ommai_table_similarity(const struct ommai_table_tree *a, const struct ommai_table_tree *b, bool structure_only);
