/* Which of a page's true lines were read as what: the rule that OmniDocBench calls quick match.
 * Lines that were read apart are joined where they resemble a true one better so, several true
 * lines may be found in one that was read, and what remains is paired with the least sum of
 * distances. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "scores/edit_distance.h"

struct ommai_match {
  size_t first_true, n_true; /* in the list of true lines */
  size_t first_read, n_read; /* lines that follow one another; none: it was not read */
};

struct ommai_matches {
  struct ommai_match *list; /* each true line is in one of them */
  size_t n;
  size_t *lines; /* the true lines of all of them */
};

/* Lines are not empty. False: memory is out. Free in every case. */
bool ommai_quick_match(const struct ommai_points *truth, size_t n_true, const struct ommai_points *read, size_t n_read,
                       struct ommai_matches *matches);
void ommai_matches_free(struct ommai_matches *matches);
