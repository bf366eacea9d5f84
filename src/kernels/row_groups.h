/* How rows of a tile are shared out to a kernel that holds the sums of some in registers. */
#pragma once

#include <stdint.h>

/* How many of the rows that are left go together: as many as registers hold, but two of middling
 * size at the end rather than a small one, which waits for its own sums. */
static inline int ommai_next_rows(int64_t left, int max_rows) {
  if (left <= max_rows) return (int)left;
  return left < max_rows + max_rows / 2 ? (int)(left + 1) / 2 : max_rows;
}
