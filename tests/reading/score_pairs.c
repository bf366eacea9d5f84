/* For tests/clients/test_scores.py: reads lines of JSON, {"kind": "text", "table" or
 * "assign", ...}, and prints a line of numbers for each. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scores/assignment.h"
#include "scores/edit_distance.h"
#include "scores/table_tree.h"

static const char *text_of(const json_t *pair, const char *key) { return json_string_value(json_object_get(pair, key)); }

static void print_text(const json_t *pair) {
  struct ommai_points a = ommai_points_of(text_of(pair, "a"), strlen(text_of(pair, "a")));
  struct ommai_points b = ommai_points_of(text_of(pair, "b"), strlen(text_of(pair, "b")));
  printf("%.17g\n", ommai_edit_distance_normalised(&a, &b));
  free(a.values);
  free(b.values);
}

static void print_table(const json_t *pair) {
  struct ommai_table_tree a, b;
  int read = ommai_table_tree_read(text_of(pair, "a"), &a) == OMMAI_TABLE_READ;
  read &= ommai_table_tree_read(text_of(pair, "b"), &b) == OMMAI_TABLE_READ;
  if (read) {
    printf("%.17g %.17g\n", ommai_table_similarity(&a, &b, false), ommai_table_similarity(&a, &b, true));
  } else {
    puts("none");
  }
  ommai_table_tree_free(&a);
  ommai_table_tree_free(&b);
}

static void print_assignment(const json_t *pair) {
  const json_t *rows = json_object_get(pair, "costs");
  size_t n_rows = json_array_size(rows), n_columns = json_array_size(json_array_get(rows, 0));
  double *costs = malloc((n_rows * n_columns + 1) * sizeof *costs), sum = 0;
  size_t *column = malloc((n_rows + 1) * sizeof *column);
  for (size_t i = 0; i < n_rows * n_columns; i++) {
    costs[i] = json_number_value(json_array_get(json_array_get(rows, i / n_columns), i % n_columns));
  }
  ommai_assign(costs, n_rows, n_columns, column);
  for (size_t i = 0; i < n_rows; i++) sum += column[i] == SIZE_MAX ? 0 : costs[i * n_columns + column[i]];
  printf("%.17g\n", sum);
  free(costs);
  free(column);
}

int main(void) {
  static char line[1 << 20];
  while (fgets(line, sizeof line, stdin)) {
    json_t *pair = json_loads(line, 0, NULL);
    const char *kind = text_of(pair, "kind");
    if (strcmp(kind, "text") == 0) print_text(pair);
    if (strcmp(kind, "table") == 0) print_table(pair);
    if (strcmp(kind, "assign") == 0) print_assignment(pair);
    json_decref(pair);
  }
  return 0;
}
