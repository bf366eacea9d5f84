/* Where the time of passes goes, for benchmarks: one clock per worker, each written by its worker alone. Without clocks (NULL)
 * nothing is read or written. */
#ifndef OMMAI_VISION_VISION_CLOCK_H
#define OMMAI_VISION_VISION_CLOCK_H

#include <stdalign.h>
#include <stddef.h>

#include "base/clock.h"

/* CUT: pixels to patches. EMBED: patches to the residual, positions included. ATTENTION: of all blocks, with the waiting at its
 * barriers, in which every worker takes part. LINEAR: the layers of blocks and mergers. What is left is the rest. */
enum ommai_vision_part {
  OMMAI_VISION_CUT,
  OMMAI_VISION_EMBED,
  OMMAI_VISION_ATTENTION,
  OMMAI_VISION_LINEAR,
  OMMAI_VISION_PARTS
};

struct ommai_vision_clock {
  alignas(64) int64_t ns[OMMAI_VISION_PARTS]; /* added up over passes */
};

static inline int64_t ommai_vision_clock_start(const struct ommai_vision_clock *clocks) {
  return clocks ? ommai_clock_ns() : 0;
}

/* The worker did `part` from `start` on. */
static inline void ommai_vision_clock_stop(struct ommai_vision_clock *clocks, int worker, enum ommai_vision_part part,
                                           int64_t start) {
  if (clocks) clocks[worker].ns[part] += ommai_clock_ns() - start;
}

/* Seconds of the n_workers workers' mean. */
static inline double ommai_vision_clock_seconds(const struct ommai_vision_clock *clocks, int n_workers,
                                                enum ommai_vision_part part) {
  int64_t sum = 0;
  for (int worker = 0; worker < n_workers; worker++) sum += clocks[worker].ns[part];
  return (double)sum * 1e-9 / n_workers;
}

#endif
