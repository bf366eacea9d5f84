/* A question that may have several lines: between """ and """. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Zero-initialise, add lines while it is open, release in every case. */
struct ommai_question {
  char *text;         /* without the quotes; NULL before the first line */
  size_t size, start; /* what stands between quotes begins at `start` */
  bool quoted;        /* it stood between quotes: no command, whatever it begins with */
  bool open;          /* the closing quotes have not come: the next line belongs to it */
};

/* Adds a line, which may have line ends in it. """ at its beginning, or after "/system ", opens the
 * quotes, and """ at its end, or at that of a later one, closes them; line ends next to the quotes
 * do not count. False when memory is out. */
bool ommai_question_add(struct ommai_question *question, const char *line);

void ommai_question_release(struct ommai_question *question);
