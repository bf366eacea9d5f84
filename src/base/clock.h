/* The monotonic clock, the calling thread's own, and the time of day. */
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
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

/* A condition whose pthread_cond_timedwait takes times of the monotonic clock. */
static inline void ommai_clock_condition_init(pthread_cond_t *condition) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &attributes);
  pthread_condattr_destroy(&attributes);
}

/* A time of the monotonic clock, or a span, as the C library takes it. */
static inline struct timespec ommai_clock_timespec(int64_t ns) { return (struct timespec){ns / 1000000000, ns % 1000000000}; }

/* The time of day in UTC, as lines of logs begin: 2026-01-31T12:34:56.789Z. */
#define OMMAI_CLOCK_UTC_SIZE 64
static inline void ommai_clock_utc(char text[OMMAI_CLOCK_UTC_SIZE]) {
  struct timespec now;
  struct tm parts;
  char day[32] = "";
  clock_gettime(CLOCK_REALTIME, &now);
  if (gmtime_r(&now.tv_sec, &parts)) strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
  snprintf(text, OMMAI_CLOCK_UTC_SIZE, "%s.%03ldZ", day, now.tv_nsec / 1000000);
}

static inline double ommai_clock_seconds(void) { return (double)ommai_clock_ns() * 1e-9; }
