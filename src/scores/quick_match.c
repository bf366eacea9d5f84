#include "scores/quick_match.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "scores/assignment.h"

/* Normalised distances. */
#define NEAR 0.25     /* below it two lines belong together for certain */
#define FAR 0.7       /* above it they do not */
#define PART_READ 0.6 /* how far a line that was read may be from a part of a true one */
#define PART_TRUE 0.4 /* how far a true line may be from a part of one that was read */

#define NONE SIZE_MAX

struct run {
  size_t first, n;
  double cost;
};

struct work {
  const struct ommai_points *truth, *read;
  size_t n_true, n_read;
  bool *near_true, *near_read; /* lines that are NEAR to another */
  struct run *runs;            /* of lines that were read: one for a true line at most */
  size_t n_runs;
  struct run *merged; /* all lines that were read, runs of them as one */
  size_t n_merged;
  struct ommai_matches *matches;
  size_t n_lines; /* in the matches' list */
  bool *matched_true, *matched_read;
  bool no_memory;
};

static void *allot(struct work *work, size_t n, size_t size) {
  void *memory = calloc(n + 1, size);
  work->no_memory |= !memory;
  return memory;
}

/* Lines that were read, with blanks between them. */
static struct ommai_points join(struct work *work, size_t first, size_t n) {
  struct ommai_points whole = {NULL, n - 1};
  for (size_t i = 0; i < n; i++) whole.n += work->read[first + i].n;
  whole.values = allot(work, whole.n, sizeof *whole.values);
  for (size_t i = 0, at = 0; i < n && whole.values; i++) {
    const struct ommai_points *line = &work->read[first + i];
    if (i) whole.values[at++] = ' ';
    memcpy(whole.values + at, line->values, line->n * sizeof *line->values);
    at += line->n;
  }
  return whole;
}

static double distance_to_run(struct work *work, size_t line, size_t first, size_t n) {
  struct ommai_points whole = join(work, first, n);
  double distance = whole.values ? ommai_edit_distance_normalised(&work->truth[line], &whole) : -1;
  work->no_memory |= distance < 0;
  free(whole.values);
  return distance;
}

/* The least distance of a part to as many characters of a text, as a share of them; infinite: it
 * is longer than the text, or above the limit. */
static double distance_inside(struct work *work, const struct ommai_points *text, const struct ommai_points *part,
                              double limit) {
  int64_t least = INT64_MAX;
  if (part->n > text->n || !part->n) return INFINITY;
  int64_t bound = ommai_edit_distance_inside(part, text);
  work->no_memory |= bound < 0;
  if ((double)bound / (double)part->n > limit) return INFINITY;
  for (size_t at = 0; at + part->n <= text->n && !work->no_memory; at++) {
    const struct ommai_points window = {text->values + at, part->n};
    int64_t distance = ommai_edit_distance(&window, part);
    work->no_memory |= distance < 0;
    if (distance < least) least = distance;
  }
  return (double)least / (double)part->n;
}

/* ---- lines that were read apart ---- */

/* Whether a run of n - 1 lines, which is a part of the true line, may have one more. *goes_on:
 * another may follow. */
static bool extends(struct work *work, size_t line, size_t first, size_t n, bool *goes_on) {
  const struct ommai_points *truth = &work->truth[line];
  if (distance_to_run(work, line, first, n) > distance_to_run(work, line, first, n - 1)) return false;
  for (size_t i = 0; i + 1 < n; i++) {
    if (distance_inside(work, truth, &work->read[first + i], PART_READ) > PART_READ) return false;
  }
  size_t length = n - 1;
  for (size_t i = 0; i < n; i++) length += work->read[first + i].n;
  *goes_on = length <= truth->n;
  return distance_inside(work, truth, &work->read[first + n - 1], PART_READ) < PART_READ;
}

static size_t longest_run(struct work *work, size_t line, size_t first) {
  size_t n = 1;
  bool goes_on = true;
  while (goes_on && first + n < work->n_read && !work->near_read[first + n] && !work->no_memory) {
    if (!extends(work, line, first, n + 1, &goes_on)) break;
    n++;
  }
  return n;
}

/* The nearest run for each true line that has no line near to it. */
static void find_runs(struct work *work) {
  for (size_t line = 0; line < work->n_true; line++) {
    struct run best = {.cost = INFINITY};
    if (work->near_true[line]) continue;
    for (size_t first = 0; first < work->n_read && !work->no_memory; first++) {
      if (work->near_read[first]) continue;
      struct run run = {first, longest_run(work, line, first), 0};
      run.cost = distance_to_run(work, line, first, run.n);
      if (run.cost < best.cost) best = run;
    }
    if (!best.n) continue;
    size_t at = work->n_runs++;
    for (; at && work->runs[at - 1].first > best.first; at--) work->runs[at] = work->runs[at - 1];
    work->runs[at] = best;
  }
}

static bool overlap(const struct run *a, const struct run *b) {
  return a->first < b->first + b->n && b->first < a->first + a->n;
}

/* Ways to choose runs of a group that do not overlap: lists of their numbers. */
struct ways {
  size_t *lists, *lengths, n, n_runs;
};

/* Adds a run to each way that has room for it, or begins another. A cheaper run takes the place of
 * its equal, and the one behind that is not looked at any more. */
static void offer(struct ways *ways, const struct run *runs, size_t offered) {
  bool begins = true;
  for (size_t way = 0; way < ways->n; way++) {
    size_t *list = ways->lists + way * ways->n_runs, *length = &ways->lengths[way];
    bool taken = false, equal = false;
    for (size_t i = 0; i < *length; i++) {
      const struct run *run = &runs[list[i]], *other = &runs[offered];
      bool same = run->first == other->first && run->n == other->n;
      taken |= same || overlap(run, other);
      equal |= same;
      if (!same || !(run->cost > other->cost)) continue;
      memmove(list + i, list + i + 1, (*length - i - 1) * sizeof *list);
      list[*length - 1] = offered;
    }
    if (!taken) list[(*length)++] = offered;
    begins &= taken && !equal;
  }
  if (!begins) return;
  ways->lists[ways->n * ways->n_runs] = offered;
  ways->lengths[ways->n++] = 1;
}

/* Of runs that overlap one after the other, those whose mean cost is least; marked in chosen. */
static void choose(struct work *work, const struct run *runs, size_t n, bool *chosen) {
  struct ways ways = {.lists = allot(work, n * n, sizeof(size_t)), .lengths = allot(work, n, sizeof(size_t)), .n_runs = n};
  double least = INFINITY;
  size_t best = 0;
  for (size_t i = 0; i < n && !work->no_memory; i++) offer(&ways, runs, i);
  for (size_t way = 0; way < ways.n; way++) {
    double sum = 0;
    for (size_t i = 0; i < ways.lengths[way]; i++) sum += runs[ways.lists[way * n + i]].cost;
    if (!(sum / (double)ways.lengths[way] < least)) continue;
    least = sum / (double)ways.lengths[way];
    best = way;
  }
  for (size_t i = 0; ways.n && i < ways.lengths[best]; i++) chosen[ways.lists[best * n + i]] = true;
  free(ways.lists);
  free(ways.lengths);
}

static void merge_runs(struct work *work) {
  bool *chosen = allot(work, work->n_runs, sizeof *chosen);
  for (size_t first = 0, n; first < work->n_runs && !work->no_memory; first += n) {
    bool connected = true;
    for (n = 1; first + n < work->n_runs && connected; n += connected) {
      connected = false;
      for (size_t i = 0; i < n; i++) connected |= overlap(&work->runs[first + i], &work->runs[first + n]);
    }
    choose(work, work->runs + first, n, chosen ? chosen + first : NULL);
  }
  for (size_t line = 0; line < work->n_read && !work->no_memory;) {
    struct run run = {line, 1, 0};
    for (size_t i = 0; i < work->n_runs; i++) {
      if (chosen[i] && work->runs[i].first == line) run = work->runs[i];
    }
    work->merged[work->n_merged++] = run;
    line += run.n;
  }
  free(chosen);
}

/* ---- pairs ---- */

/* column[i] of the true lines of a list, among columns, with the least sum of distances. */
static void assign(struct work *work, double *costs, size_t n_rows, size_t n_columns, size_t *column) {
  if (!work->no_memory) work->no_memory = !ommai_assign(costs, n_rows, n_columns, column);
}

static struct ommai_match *add_match(struct work *work, size_t first_read, size_t n_read) {
  struct ommai_match *match = &work->matches->list[work->matches->n++];
  *match = (struct ommai_match){work->n_lines, 0, first_read, n_read};
  for (size_t i = 0; i < n_read; i++) work->matched_read[first_read + i] = true;
  return match;
}

/* The true line joins the last match, or one before it whose lines are then moved. */
static void add_line(struct work *work, struct ommai_match *match, size_t line) {
  struct ommai_matches *matches = work->matches;
  size_t at = match->first_true + match->n_true;
  while (at > match->first_true && matches->lines[at - 1] > line) at--;
  memmove(matches->lines + at + 1, matches->lines + at, (work->n_lines - at) * sizeof *matches->lines);
  matches->lines[at] = line;
  match->n_true++;
  work->n_lines++;
  work->matched_true[line] = true;
  for (size_t i = 0; i < matches->n; i++) {
    if (&matches->list[i] > match) matches->list[i].first_true++;
  }
}

/* True lines with the line or run that the assignment gives them, unless they are FAR apart. */
static void pair_runs(struct work *work) {
  size_t n = work->n_merged;
  double *costs = allot(work, work->n_true * n, sizeof *costs);
  size_t *column = allot(work, work->n_true, sizeof *column);
  for (size_t i = 0; i < work->n_true * n && !work->no_memory; i++) {
    costs[i] = distance_to_run(work, i / n, work->merged[i % n].first, work->merged[i % n].n);
  }
  assign(work, costs, work->n_true, n, column);
  for (size_t line = 0; line < work->n_true && !work->no_memory; line++) {
    if (column[line] == NONE || costs[line * n + column[line]] > FAR) continue;
    const struct run *run = &work->merged[column[line]];
    add_line(work, add_match(work, run->first, run->n), line);
  }
  free(costs);
  free(column);
}

/* Unmatched true lines that are a part of one line that was read. */
static void find_parts(struct work *work) {
  bool *unmatched = allot(work, work->n_true, sizeof *unmatched);
  for (size_t line = 0; line < work->n_true && !work->no_memory; line++) unmatched[line] = !work->matched_true[line];
  for (size_t whole = 0; whole < work->n_read && !work->no_memory; whole++) {
    struct ommai_match *match = NULL;
    for (size_t line = 0; line < work->n_true && !work->no_memory; line++) {
      if (!unmatched[line]) continue;
      if (!(distance_inside(work, &work->read[whole], &work->truth[line], PART_TRUE) < PART_TRUE)) continue;
      for (size_t i = 0; i < work->matches->n && !match; i++) {
        struct ommai_match *other = &work->matches->list[i];
        if (other->first_read == whole && other->n_read == 1) match = other;
      }
      if (!match) match = add_match(work, whole, 1);
      if (!work->matched_true[line]) add_line(work, match, line);
    }
  }
  free(unmatched);
}

/* What remains on both sides; then each true line that has nothing. */
static void pair_rest(struct work *work) {
  size_t n_rows = 0, n_columns = 0, *rows = allot(work, work->n_true, sizeof *rows),
         *columns = allot(work, work->n_read, sizeof *columns);
  for (size_t i = 0; rows && i < work->n_true; i++) {
    if (!work->matched_true[i]) rows[n_rows++] = i;
  }
  for (size_t i = 0; columns && i < work->n_read; i++) {
    if (!work->matched_read[i]) columns[n_columns++] = i;
  }
  double *costs = allot(work, n_rows * n_columns, sizeof *costs);
  size_t *column = allot(work, n_rows, sizeof *column);
  for (size_t i = 0; i < n_rows * n_columns && !work->no_memory; i++) {
    costs[i] = ommai_edit_distance_normalised(&work->truth[rows[i / n_columns]], &work->read[columns[i % n_columns]]);
    work->no_memory |= costs[i] < 0;
  }
  assign(work, costs, n_rows, n_columns, column);
  for (size_t i = 0; i < n_rows && !work->no_memory; i++) {
    if (column[i] != NONE) add_line(work, add_match(work, columns[column[i]], 1), rows[i]);
  }
  for (size_t i = 0; i < n_rows && !work->no_memory; i++) {
    if (column[i] == NONE) add_line(work, add_match(work, 0, 0), rows[i]);
  }
  free(rows);
  free(columns);
  free(costs);
  free(column);
}

static void find_near(struct work *work) {
  for (size_t i = 0; i < work->n_true; i++) {
    for (size_t j = 0; j < work->n_read && !work->no_memory; j++) {
      if (!(distance_to_run(work, i, j, 1) < NEAR)) continue;
      work->near_true[i] = work->near_read[j] = true;
    }
  }
}

/* Matches without a true line kept what was read from the rest. */
static void drop_empty(struct ommai_matches *matches) {
  size_t kept = 0;
  for (size_t i = 0; i < matches->n; i++) {
    if (matches->list[i].n_true) matches->list[kept++] = matches->list[i];
  }
  matches->n = kept;
}

bool ommai_quick_match(const struct ommai_points *truth, size_t n_true, const struct ommai_points *read, size_t n_read,
                       struct ommai_matches *matches) {
  struct work work = {.truth = truth, .read = read, .n_true = n_true, .n_read = n_read, .matches = matches};
  *matches = (struct ommai_matches){0};
  work.near_true = allot(&work, n_true, sizeof(bool));
  work.near_read = allot(&work, n_read, sizeof(bool));
  work.matched_true = allot(&work, n_true, sizeof(bool));
  work.matched_read = allot(&work, n_read, sizeof(bool));
  work.runs = allot(&work, n_true, sizeof *work.runs);
  work.merged = allot(&work, n_read, sizeof *work.merged);
  matches->list = allot(&work, n_true + n_read, sizeof *matches->list);
  matches->lines = allot(&work, n_true, sizeof *matches->lines);
  if (!work.no_memory) find_near(&work);
  if (!work.no_memory) find_runs(&work);
  if (!work.no_memory) merge_runs(&work);
  if (!work.no_memory) pair_runs(&work);
  if (!work.no_memory) find_parts(&work);
  if (!work.no_memory) pair_rest(&work);
  if (!work.no_memory) drop_empty(matches);
  free(work.near_true);
  free(work.near_read);
  free(work.matched_true);
  free(work.matched_read);
  free(work.runs);
  free(work.merged);
  return !work.no_memory;
}

void ommai_matches_free(struct ommai_matches *matches) {
  free(matches->list);
  free(matches->lines);
  *matches = (struct ommai_matches){0};
}
