/* Runs the lines of a batch: reads, answers, writes. */
#pragma once

#include "cli/serve/batch_output.h"

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
