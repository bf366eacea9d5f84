/* Where the time of passes goes, for benchmarks: one profile per worker, each written by its worker
 * alone. Without profiles (NULL) nothing is read or written. */
#pragma once

#include <stdalign.h>
#include <stddef.h>

#include "base/clock.h"

/* CUT: pixels to patches. EMBED: patches to the residual, positions included. ATTENTION: of all
 * blocks, with the waiting at its barriers, in which every worker takes part. LINEAR: the layers
 * of blocks and mergers. What is left is the rest. */
enum ommai_vision_part {
  OMMAI_VISION_CUT,
  OMMAI_VISION_EMBED,
  OMMAI_VISION_ATTENTION,
  OMMAI_VISION_LINEAR,
  OMMAI_VISION_PARTS
};

struct ommai_vision_profile {
  alignas(64) int64_t ns[OMMAI_VISION_PARTS]; /* added up over passes */
};

static inline int64_t ommai_vision_profile_start(const struct ommai_vision_profile *profiles) {
  return profiles ? ommai_clock_ns() : 0;
}

/* The worker did `part` from `start` on. */
static inline void ommai_vision_profile_stop(struct ommai_vision_profile *profiles, int worker, enum ommai_vision_part part,
                                             int64_t start) {
  if (profiles) profiles[worker].ns[part] += ommai_clock_ns() - start;
}

/* Seconds of the n_workers workers' mean. */
static inline double ommai_vision_profile_seconds(const struct ommai_vision_profile *profiles, int n_workers,
                                                  enum ommai_vision_part part) {
  int64_t sum = 0;
  for (int worker = 0; worker < n_workers; worker++) sum += profiles[worker].ns[part];
  return (double)sum * 1e-9 / n_workers;
}
