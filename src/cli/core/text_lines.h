/* Lines of a file or a pipe, one after the other, with a limit on their length. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What ommai_text_lines_next comes back with. */
enum ommai_text_line {
  OMMAI_TEXT_LINE_READ,
  OMMAI_TEXT_LINE_LATER, /* a pipe has no more now */
  OMMAI_TEXT_LINE_END,
  OMMAI_TEXT_LINE_FAILED /* errno states why */
};

/* Set `file` and `limit`, zero the rest; release in every case. The descriptor stays the
 * caller's. */
struct ommai_text_lines {
  int file;
  size_t limit; /* bytes of a line, without its end; longer ones are cut there */
  char *line;   /* the last one read, without its end, with a NUL after it */
  size_t size, capacity;
  int64_t number; /* of that line, from 1 */
  int64_t end;    /* bytes of the file up to the end of that line */
  bool cut;       /* it is longer than the limit */
  bool complete;  /* it has an end */
  bool begun;     /* a part of the next line is in `line` */
  char *block;    /* what has been read */
  size_t block_at, block_size;
};

/* Reads the next line; never waits for a pipe. */
enum ommai_text_line ommai_text_lines_next(struct ommai_text_lines *lines);
void ommai_text_lines_release(struct ommai_text_lines *lines);

/* True when nothing but blanks stands in it. */
bool ommai_text_is_blank(const char *text, size_t size);
