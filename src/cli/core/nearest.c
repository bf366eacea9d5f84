#include "cli/core/nearest.h"

#include <string.h>

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

/* The restricted edit distance of Damerau and Levenshtein, by the three rows it needs. */
static size_t edit_distance(const char *a, size_t a_size, const char *b, size_t b_size) {
  size_t rows[3][OMMAI_NEAREST_MAX_NAME + 1];
  for (size_t j = 0; j <= b_size; j++) rows[0][j] = j;
  for (size_t i = 1; i <= a_size; i++) {
    size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *second = rows[(i + 1) % 3];
    row[0] = i;
    for (size_t j = 1; j <= b_size; j++) {
      size_t changed = above[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = min_size(changed, min_size(above[j], row[j - 1]) + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = min_size(row[j], second[j - 2] + 1);
    }
  }
  return rows[a_size % 3][b_size];
}

void ommai_nearest_offer(struct ommai_nearest *search, const char *name) {
  size_t wanted_size = strlen(search->wanted), size = strlen(name);
  if (wanted_size < 2 || wanted_size > OMMAI_NEAREST_MAX_NAME || size > OMMAI_NEAREST_MAX_NAME) return;
  size_t distance = edit_distance(search->wanted, wanted_size, name, size);
  size_t shared = min_size(wanted_size, size);
  if (shared >= 3 && memcmp(search->wanted, name, shared) == 0) distance = min_size(distance, 2);
  size_t longest = wanted_size > size ? wanted_size : size;
  if (distance > 1 + longest / 4 || distance >= longest) return;
  if (search->best && distance >= search->distance) return;
  search->best = name;
  search->distance = distance;
}
