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

/* Fills in a job what the values and the words give, and makes the list of documents of those; the
 * model's directory may be the first. *n_bad documents could not be opened and were named. Returns
 * an exit code; release the documents in every case. */
int ommai_read_settings_take(const char *command, struct ommai_read_values *values, const struct ommai_strings *arguments,
                             struct omma_server_options *options, struct ommai_read_job *job, int64_t *n_bad);

/* Prints what will be read and what memory it takes; the number of pages. */
int64_t ommai_read_settings_note(const char *command, const struct ommai_read_job *job);
