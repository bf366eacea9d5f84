/* The monotonic clock. */
#ifndef OMMAI_BASE_CLOCK_H
#define OMMAI_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds since an arbitrary start. */
static inline int64_t ommai_clock_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline double ommai_clock_seconds(void) { return (double)ommai_clock_ns() * 1e-9; }

#endif
