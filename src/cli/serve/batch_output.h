/* The output file of a batch: what of it is there already, and further lines. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct ommai_batch_output {
  const char *path;
  int file;     /* -1: not open */
  json_t *done; /* an object whose keys are the custom_ids that have a line */
  /* one whose keys are the numbers of bad input lines that have a line */
  json_t *bad_lines;
  int64_t n_answered, n_failed; /* lines that were there */
};

/* Opens the file at `path`, making it where it is missing, for this program alone, and reads what
 * an earlier run has written: a last line without an end is cut off, and with `retry_failed` lines
 * of failures are taken out. A file that is not of a batch is refused and left as it is; what is
 * no regular file (a pipe) holds nothing, nor does standard output, which is "-". Returns an exit
 * code; the error has been printed. Close in every case. */
int ommai_batch_output_open(const char *path, bool retry_failed, struct ommai_batch_output *output);

/* Appends a line, given with its end, in one call: a program that is killed leaves at most the last
 * one torn. Returns an exit code. */
int ommai_batch_output_write(const struct ommai_batch_output *output, const char *line, size_t size);

/* Returns an exit code: that the file is on the disk is known only now. */
int ommai_batch_output_close(struct ommai_batch_output *output);
