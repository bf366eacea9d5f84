/* The monotonic clock, and the calling thread's own. */
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

/* Nanoseconds of processor time that the calling thread has used. */
static inline int64_t ommai_clock_thread_ns(void) {
  struct timespec used;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

static inline double ommai_clock_seconds(void) { return (double)ommai_clock_ns() * 1e-9; }

#endif
