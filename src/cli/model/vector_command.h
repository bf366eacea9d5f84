/* What `omma embed` and `omma rerank` have in common: options, and the way from inputs to a file.
 * */
#pragma once

#include "cli/model/model_options.h"
#include "cli/model/vector_file.h"
#include "cli/model/vector_items.h"

/* The first member of the command's struct of values. */
struct ommai_vector_values {
  struct ommai_common common;
  struct ommai_strings texts;
  const char *input, *instruction, *output;
  int64_t max_num_seqs, max_num_batched_tokens;
};

extern const struct ommai_option_group ommai_vector_engine_options;

struct ommai_vector_job {
  const char *command;
  const struct ommai_vector_values *values;
  bool scores; /* inputs get a score each, not vectors */
  /* Makes the request of an item. */
  enum omma_status (*make)(const void *context, const struct omma_model *model, const struct ommai_vector_item *item,
                           const struct omma_request_options *options, struct omma_request **request, struct omma_error *error);
  /* With scores, of a model that gives vectors: computes what inputs are compared with; returns an
   * exit code. And the score of an input that was embedded. */
  int (*prepare)(void *context, const struct omma_model *model, struct omma_engine *engine);
  float (*score)(const void *context, const struct omma_vectors *vectors);
  /* The following may be NULL. Of an input of a line before it is worked on; `line` is borrowed. Of
   * a score as it comes, in the order of the inputs, at most OMMAI_VECTOR_RUN_ROOM inputs later; or
   * why there is none. Return an exit code. */
  void (*note_line)(void *context, int64_t index, json_t *line);
  int (*take)(void *context, int64_t index, float value);
  int (*take_failure)(void *context, int64_t index, const char *reason);
  void *context;
  /* Afterwards: the words that were images, those of folders one by one, to be released by
   * ommai_expanded_release in every case; and inputs that failed. */
  struct ommai_strings images;
  int64_t n_failed;
};

/* Opens the model, which the first argument may name, runs all inputs, and writes the file (none
 * where values->output is NULL). Returns an exit code; the error has been printed. */
int ommai_vector_job_run(struct ommai_vector_job *job, const struct ommai_strings *arguments);
