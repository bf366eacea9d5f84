/* Zhang and Shasha, "Simple fast algorithms for the editing distance between trees and related
 * problems". Tables are flat, so that few subtrees are compared. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scores/table_tree.h"

struct comparing {
  const struct ommai_table_tree *a, *b;
  bool structure_only, no_memory;
  double *trees;  /* [a.n][b.n]: between subtrees */
  double *forest; /* [a.n + 1][b.n + 1]: between the beginnings of two subtrees */
};

static double replace(struct comparing *work, const struct ommai_table_node *a, const struct ommai_table_node *b) {
  if (strcmp(a->tag, b->tag) != 0 || a->colspan != b->colspan || a->rowspan != b->rowspan) return 1;
  if (work->structure_only || (!a->content.n && !b->content.n)) return 0;
  double distance = ommai_edit_distance_normalised(&a->content, &b->content);
  work->no_memory |= distance < 0;
  return distance;
}

static double least(double a, double b, double c) {
  double smaller = a < b ? a : b;
  return smaller < c ? smaller : c;
}

/* Fills `trees` for the subtrees of i and j that begin where these begin. */
static void compare(struct comparing *work, size_t i, size_t j) {
  const struct ommai_table_node *a = work->a->nodes, *b = work->b->nodes;
  const size_t from_a = a[i].first, from_b = b[j].first, width = work->b->n + 1;
  double *forest = work->forest;
  forest[0] = 0;
  for (size_t x = from_a; x <= i; x++) forest[(x - from_a + 1) * width] = forest[(x - from_a) * width] + 1;
  for (size_t y = from_b; y <= j; y++) forest[y - from_b + 1] = forest[y - from_b] + 1;
  for (size_t x = from_a; x <= i; x++) {
    for (size_t y = from_b; y <= j; y++) {
      double *here = &forest[(x - from_a + 1) * width + (y - from_b + 1)];
      double removed = here[-(ptrdiff_t)width] + 1, added = here[-1] + 1;
      double *tree = &work->trees[x * work->b->n + y];
      if (a[x].first == from_a && b[y].first == from_b) {
        *here = *tree = least(removed, added, here[-(ptrdiff_t)width - 1] + replace(work, &a[x], &b[y]));
      } else {
        *here = least(removed, added, forest[(a[x].first - from_a) * width + (b[y].first - from_b)] + *tree);
      }
    }
  }
}

/* Marks nodes that have a later one with the same first leaf; NULL when memory is out. */
static bool *mark_later(const struct ommai_table_tree *tree) {
  bool *has_later = calloc(tree->n, sizeof *has_later);
  bool *seen = calloc(tree->n, sizeof *seen);
  for (size_t i = tree->n; has_later && seen && i-- > 0;) {
    has_later[i] = seen[tree->nodes[i].first];
    seen[tree->nodes[i].first] = true;
  }
  free(seen);
  return has_later;
}

double ommai_table_similarity(const struct ommai_table_tree *a, const struct ommai_table_tree *b, bool structure_only) {
  struct comparing work = {a, b, structure_only, false, calloc(a->n * b->n, sizeof(double)),
                           malloc((a->n + 1) * (b->n + 1) * sizeof(double))};
  bool *later_a = mark_later(a), *later_b = mark_later(b);
  double similarity = NAN;
  if (work.trees && work.forest && later_a && later_b) {
    for (size_t i = 0; i < a->n; i++) {
      for (size_t j = 0; j < b->n && !later_a[i]; j++) {
        if (!later_b[j]) compare(&work, i, j);
      }
    }
    int64_t n = a->n_elements > b->n_elements ? a->n_elements : b->n_elements;
    similarity = n ? 1 - work.trees[a->n * b->n - 1] / (double)n : 1;
  }
  free(later_a);
  free(later_b);
  free(work.trees);
  free(work.forest);
  return work.no_memory ? NAN : similarity;
}
