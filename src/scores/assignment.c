#include "scores/assignment.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* Shortest augmenting paths over reduced costs, row after row, as in D. F. Crouse, "On implementing
 * 2D rectangular assignment algorithms" (2016). Which of several cheapest assignments it finds is
 * part of the figures that are made with it, so columns are looked at as SciPy's
 * linear_sum_assignment looks at them: from the last, a free one first among equal ones, and the
 * last that is left moves to where one was taken. */
struct work {
  const double *costs;
  size_t n_rows, n_columns; /* rows are not more than columns */
  bool turned;
  double *row_potential, *column_potential, *least;
  size_t *row_of, *column_of, *way, *left;
  bool *row_seen, *column_seen;
};

static double cost(const struct work *work, size_t row, size_t column) {
  return work->turned ? work->costs[column * work->n_rows + row] : work->costs[row * work->n_columns + column];
}

/* The free column that the cheapest path from a row ends at, and what the path costs; SIZE_MAX:
 * there is none. */
static size_t find_path(struct work *work, size_t row, double *path_cost) {
  size_t n_left = work->n_columns;
  double reached = 0;
  for (size_t i = 0; i < work->n_columns; i++) {
    work->left[i] = work->n_columns - 1 - i;
    work->least[i] = INFINITY;
    work->column_seen[i] = false;
  }
  for (size_t i = 0; i < work->n_rows; i++) work->row_seen[i] = false;
  for (;;) {
    size_t next = SIZE_MAX;
    double lowest = INFINITY;
    work->row_seen[row] = true;
    for (size_t i = 0; i < n_left; i++) {
      size_t column = work->left[i];
      double reduced = reached + cost(work, row, column) - work->row_potential[row] - work->column_potential[column];
      if (reduced < work->least[column]) {
        work->least[column] = reduced;
        work->way[column] = row;
      }
      if (work->least[column] < lowest || (work->least[column] == lowest && work->row_of[column] == SIZE_MAX)) {
        lowest = work->least[column];
        next = i;
      }
    }
    if (next == SIZE_MAX || lowest == INFINITY) return SIZE_MAX;
    size_t column = work->left[next];
    reached = lowest;
    work->column_seen[column] = true;
    work->left[next] = work->left[--n_left];
    if (work->row_of[column] == SIZE_MAX) {
      *path_cost = reached;
      return column;
    }
    row = work->row_of[column];
  }
}

static bool assign_row(struct work *work, size_t row) {
  double path_cost;
  size_t column = find_path(work, row, &path_cost);
  if (column == SIZE_MAX) return false;
  work->row_potential[row] += path_cost;
  for (size_t i = 0; i < work->n_rows; i++) {
    if (work->row_seen[i] && i != row) work->row_potential[i] += path_cost - work->least[work->column_of[i]];
  }
  for (size_t i = 0; i < work->n_columns; i++) {
    if (work->column_seen[i]) work->column_potential[i] -= path_cost - work->least[i];
  }
  for (size_t other = SIZE_MAX, before; other != row; column = before) {
    other = work->way[column];
    before = work->column_of[other];
    work->row_of[column] = other;
    work->column_of[other] = column;
  }
  return true;
}

bool ommai_assign(const double *costs, size_t n_rows, size_t n_columns, size_t *column) {
  struct work work = {.costs = costs, .turned = n_rows > n_columns};
  work.n_rows = work.turned ? n_columns : n_rows;
  work.n_columns = work.turned ? n_rows : n_columns;
  double *numbers = calloc(3 * work.n_columns + 1, sizeof *numbers);
  size_t *places = malloc((4 * work.n_columns + 1) * sizeof *places);
  bool *seen = calloc(2 * work.n_columns + 1, sizeof *seen);
  bool good = numbers && places && seen;
  if (good) {
    work.row_potential = numbers;
    work.column_potential = numbers + work.n_columns;
    work.least = numbers + 2 * work.n_columns;
    work.row_of = places;
    work.column_of = places + work.n_columns;
    work.way = places + 2 * work.n_columns;
    work.left = places + 3 * work.n_columns;
    work.row_seen = seen;
    work.column_seen = seen + work.n_columns;
    for (size_t i = 0; i < 2 * work.n_columns; i++) places[i] = SIZE_MAX;
  }
  for (size_t row = 0; good && row < work.n_rows; row++) good = assign_row(&work, row);
  for (size_t i = 0; i < n_rows; i++) column[i] = good && !work.turned ? work.column_of[i] : SIZE_MAX;
  for (size_t i = 0; good && work.turned && i < work.n_rows; i++) column[work.column_of[i]] = i;
  free(numbers);
  free(places);
  free(seen);
  return good;
}
