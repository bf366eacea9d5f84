#include "scores/edit_distance.h"

#include <stdbool.h>
#include <stdlib.h>

static size_t length_of(unsigned char first) {
  if (first < 0xc2) return 1;
  return first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 1;
}

struct ommai_points ommai_points_of(const char *text, size_t size) {
  struct ommai_points points = {malloc((size + 1) * sizeof *points.values), 0};
  for (size_t at = 0; points.values && at < size;) {
    const unsigned char *bytes = (const unsigned char *)text + at;
    size_t length = length_of(*bytes);
    for (size_t i = 1; i < length; i++) {
      if (at + i >= size || (bytes[i] & 0xc0) != 0x80) length = 1;
    }
    uint32_t value = length == 1 ? *bytes : *bytes & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) value = value << 6 | (bytes[i] & 0x3f);
    points.values[points.n++] = value;
    at += length;
  }
  return points;
}

/* A row for each element of a; row[0] costs nothing where a may begin anywhere in b. Ends with the
 * last row, by malloc; NULL: memory is out. */
static int64_t *last_row(const uint32_t *a, size_t n_a, const uint32_t *b, size_t n_b, bool anywhere) {
  int64_t *row = malloc((n_b + 1) * sizeof *row);
  for (size_t j = 0; row && j <= n_b; j++) row[j] = anywhere ? 0 : (int64_t)j;
  for (size_t i = 1; row && i <= n_a; i++) {
    int64_t diagonal = row[0];
    row[0] = (int64_t)i;
    for (size_t j = 1; j <= n_b; j++) {
      int64_t replaced = diagonal + (a[i - 1] != b[j - 1]), above = row[j] + 1, left = row[j - 1] + 1;
      diagonal = row[j];
      row[j] = replaced < above ? replaced : above;
      if (left < row[j]) row[j] = left;
    }
  }
  return row;
}

int64_t ommai_edit_distance(const struct ommai_points *a, const struct ommai_points *b) {
  const uint32_t *first = a->values, *second = b->values;
  size_t n_a = a->n, n_b = b->n;
  for (; n_a && n_b && first[n_a - 1] == second[n_b - 1]; n_a--) n_b--;
  for (; n_a && n_b && *first == *second; n_a--, n_b--) first++, second++;
  int64_t *row = last_row(first, n_a, second, n_b, false), distance = row ? row[n_b] : -1;
  free(row);
  return distance;
}

int64_t ommai_edit_distance_inside(const struct ommai_points *part, const struct ommai_points *whole) {
  int64_t *row = last_row(part->values, part->n, whole->values, whole->n, true), least = row ? row[0] : -1;
  for (size_t j = 1; row && j <= whole->n; j++) least = row[j] < least ? row[j] : least;
  free(row);
  return least;
}

double ommai_edit_distance_normalised(const struct ommai_points *a, const struct ommai_points *b) {
  size_t longer = a->n > b->n ? a->n : b->n;
  int64_t distance = ommai_edit_distance(a, b);
  return distance < 0 ? -1 : longer ? (double)distance / (double)longer : 0;
}
