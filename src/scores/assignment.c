#include "scores/assignment.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* Lines are paired one after the other, each by the cheapest path over pairs that exist; line 0 and
 * place 0 stand for none. */
struct work {
  const double *costs;
  size_t n_lines, n_places; /* lines are not more than places */
  bool turned;              /* lines are columns */
  double *line_potential, *place_potential, *least;
  size_t *line_of, *way;
  bool *used;
};

static double cost(const struct work *work, size_t line, size_t place) {
  return work->turned ? work->costs[(place - 1) * work->n_lines + line - 1] : work->costs[(line - 1) * work->n_places + place - 1];
}

static size_t advance(struct work *work, size_t place) {
  size_t line = work->line_of[place], next = 0;
  double step = INFINITY;
  work->used[place] = true;
  for (size_t other = 1; other <= work->n_places; other++) {
    if (work->used[other]) continue;
    double reduced = cost(work, line, other) - work->line_potential[line] - work->place_potential[other];
    if (reduced < work->least[other]) {
      work->least[other] = reduced;
      work->way[other] = place;
    }
    if (work->least[other] < step) {
      step = work->least[other];
      next = other;
    }
  }
  for (size_t other = 0; other <= work->n_places; other++) {
    if (work->used[other]) {
      work->line_potential[work->line_of[other]] += step;
      work->place_potential[other] -= step;
    } else {
      work->least[other] -= step;
    }
  }
  return next;
}

static void pair_line(struct work *work, size_t line) {
  size_t place = 0;
  work->line_of[0] = line;
  for (size_t i = 0; i <= work->n_places; i++) {
    work->least[i] = INFINITY;
    work->used[i] = false;
  }
  do place = advance(work, place);
  while (work->line_of[place]);
  for (; place; place = work->way[place]) work->line_of[place] = work->line_of[work->way[place]];
}

bool ommai_assign(const double *costs, size_t n_rows, size_t n_columns, size_t *column) {
  struct work work = {.costs = costs, .turned = n_rows > n_columns};
  work.n_lines = work.turned ? n_columns : n_rows;
  work.n_places = work.turned ? n_rows : n_columns;
  work.line_potential = calloc(work.n_lines + 1, sizeof(double));
  work.place_potential = calloc(work.n_places + 1, sizeof(double));
  work.least = calloc(work.n_places + 1, sizeof(double));
  work.line_of = calloc(work.n_places + 1, sizeof(size_t));
  work.way = calloc(work.n_places + 1, sizeof(size_t));
  work.used = calloc(work.n_places + 1, sizeof(bool));
  bool good = work.line_potential && work.place_potential && work.least && work.line_of && work.way && work.used;
  for (size_t line = 1; good && line <= work.n_lines; line++) pair_line(&work, line);
  for (size_t i = 0; i < n_rows; i++) column[i] = SIZE_MAX;
  for (size_t place = 1; good && place <= work.n_places; place++) {
    size_t line = work.line_of[place];
    if (line) column[work.turned ? place - 1 : line - 1] = work.turned ? line - 1 : place - 1;
  }
  free(work.line_potential);
  free(work.place_potential);
  free(work.least);
  free(work.line_of);
  free(work.way);
  free(work.used);
  return good;
}
