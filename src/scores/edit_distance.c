#include "scores/edit_distance.h"

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

int64_t ommai_edit_distance(const struct ommai_points *a, const struct ommai_points *b) {
  int64_t *row = malloc((b->n + 1) * sizeof *row);
  if (!row) return -1;
  for (size_t j = 0; j <= b->n; j++) row[j] = (int64_t)j;
  for (size_t i = 1; i <= a->n; i++) {
    int64_t diagonal = row[0];
    row[0] = (int64_t)i;
    for (size_t j = 1; j <= b->n; j++) {
      int64_t replaced = diagonal + (a->values[i - 1] != b->values[j - 1]), above = row[j] + 1, left = row[j - 1] + 1;
      diagonal = row[j];
      row[j] = replaced < above ? replaced : above;
      if (left < row[j]) row[j] = left;
    }
  }
  int64_t distance = row[b->n];
  free(row);
  return distance;
}

double ommai_edit_distance_normalised(const struct ommai_points *a, const struct ommai_points *b) {
  size_t longer = a->n > b->n ? a->n : b->n;
  int64_t distance = ommai_edit_distance(a, b);
  return distance < 0 ? -1 : longer ? (double)distance / (double)longer : 0;
}
