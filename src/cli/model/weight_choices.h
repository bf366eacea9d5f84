/* What a model would take and how fast it would answer in each type and quantisation. */
#pragma once

#include <stdio.h>

#include "base/text_buffer.h"
#include "cli/model/model_options.h"

#define OMMAI_WEIGHT_CHOICES 16

struct ommai_weight_choice {
  /* "f32", "bf16" and the formats of omma_quantization_method; "f32", "as stored" of a checkpoint
   * that is quantised */
  const char *name;
  int64_t weight_bytes, other_bytes; /* other: all memory but weights, keys and values */
  double start_seconds;              /* to open it from the page cache */
  double tokens_per_second;          /* of one answer, at `context` */
};

struct ommai_weight_choices {
  struct ommai_weight_choice items[OMMAI_WEIGHT_CHOICES];
  size_t count;
  bool as_stored;  /* the checkpoint is quantised */
  int64_t context; /* tokens before the one that is estimated */
  double read_gbps;
};

/* Opens the model's configuration once for each choice, whatever --dtype and --quantization state,
 * for a machine that reads memory at read_gbps. `largest` is the patches of the largest image.
 * Returns an exit code; the error has been printed. */
int ommai_weight_choices_make(const struct ommai_common *common, const struct omma_engine_options *options, double read_gbps,
                              int64_t largest, struct ommai_weight_choices *choices);

void ommai_weight_choices_print(const struct ommai_weight_choices *choices);

/* `choices`, a list. */
void ommai_put_weight_choices(struct ommai_text *out, const struct ommai_weight_choices *choices);
