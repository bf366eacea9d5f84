/* Levenshtein's distance: the fewest insertions, deletions and replacements that make one sequence
 * of another. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Characters, or tokens of any other kind, as numbers; by malloc. */
struct ommai_points {
  uint32_t *values;
  size_t n;
};

/* The code points of UTF-8; a byte that is none counts as itself. values is NULL when memory is
 * out. */
struct ommai_points ommai_points_of(const char *text, size_t size);

/* The distance; negative when memory is out. Time and memory: the product, and the sum, of the
 * lengths. */
int64_t ommai_edit_distance(const struct ommai_points *a, const struct ommai_points *b);

/* The least distance between a part and any span of a whole; negative when memory is out. */
int64_t ommai_edit_distance_inside(const struct ommai_points *part, const struct ommai_points *whole);

/* ommai_edit_distance divided by the longer length; 0 of two empty ones. Negative when memory is
 * out. */
double ommai_edit_distance_normalised(const struct ommai_points *a, const struct ommai_points *b);
