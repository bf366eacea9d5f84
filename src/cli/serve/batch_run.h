/* Runs the lines of a batch: reads, answers, writes them to a file that may hold lines of an
 * earlier run. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* The output file: what of it is there already, and further lines. */
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

/* Returns an exit code: that the file is on the disk is known only now. */
int ommai_batch_output_close(struct ommai_batch_output *output);

struct ommai_server;

struct ommai_batch_job {
  const char *input_path;
  int input;             /* a descriptor */
  int64_t n_lines;       /* that are not blank, for the progress; 0: not known */
  size_t max_line_bytes; /* longer lines are bad ones */
  size_t n_parallel;     /* requests that are under way at once */
  struct ommai_batch_output *output;
  struct ommai_server *server; /* offline */
};

struct ommai_batch_counts {
  int64_t n_answered, n_failed; /* in this run */
  int64_t n_earlier;            /* lines that had an answer or a failure before */
  double seconds;
};

/* Runs what is not in the output yet, until the end of the input or a signal (deferred by the
 * caller). Returns an exit code, DONE also after a signal and when lines failed; the error has
 * been printed. */
int ommai_batch_run(const struct ommai_batch_job *job, struct ommai_batch_counts *counts);
