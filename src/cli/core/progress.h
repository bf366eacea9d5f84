/* One line of progress on stderr where it is a terminal; where it is not, long stages write a line
 * now and then. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ommai_progress {
  bool enabled; /* stderr is a terminal */
  bool lines;   /* it is not, and the stage is a long one */
  bool drawn;   /* a line stands on the screen */
  const char *stage;
  double started, last_drawn;
  char details[80]; /* shown after the time; may be set before each update */
};

/* Starts a stage: `stage` is a constant string. Nothing is drawn before a first moment has
 * passed. */
void ommai_progress_begin(struct ommai_progress *progress, const char *stage);

/* The same for a stage that takes minutes: where stderr is no terminal, it writes a line after 10
 * seconds, and one for each further 30. */
void ommai_progress_begin_long(struct ommai_progress *progress, const char *stage);

/* Draws, at most some times a second. An omma_progress callback: `context` is the struct
 * ommai_progress. A `total` below 0 is not known: no share is shown. Not thread-safe: calls must
 * not overlap. */
void ommai_progress_update(void *context, int64_t done, int64_t total);

/* The same of things that are counted: the details are their number, how many of them failed, how
 * many were done in a second and how long the rest takes. `done` includes the `earlier` ones, which
 * took no time. */
void ommai_progress_count(struct ommai_progress *progress, int64_t done, int64_t earlier, int64_t n_failed, int64_t total);

/* Wipes the line. */
void ommai_progress_end(struct ommai_progress *progress);
