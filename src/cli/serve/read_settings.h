/* What `omma read` and `omma bench read` have in common on the command line. */
#pragma once

#include "cli/core/options.h"
#include "cli/serve/read_run.h"
#include "cli/serve/serving.h"

/* The beginning of both commands' values. */
struct ommai_read_values {
  struct ommai_serving serving;
  const char *pages, *prompt;
  struct ommai_optional_integer recipe;
  int64_t dpi, jobs, max_page_pixels;
};
extern const struct ommai_option_group ommai_read_options;

/* Fills in a job what the values and the words give, of which the first may be the model's
 * directory, makes its folder, prints what will be read and what memory that takes, and calls `run`
 * as ommai_serving_run_offline does, unless there is nothing to read. The job's documents are gone
 * when this returns. Returns an exit code, of run or for a document that could not be opened. */
int ommai_read_command_run(const char *command, struct ommai_read_values *values, const struct ommai_strings *arguments,
                           void (*log)(void *context, const char *line), struct ommai_read_job *job,
                           int (*run)(void *context, struct ommai_server *server, size_t n_parallel), void *context);
