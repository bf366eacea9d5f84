/* The works that are timed, each on an engine whose team is a recorder. */
#pragma once

#include <omma/omma.h>

#include "cli/core/progress.h"
#include "cli/model/model_options.h"
#include "cli/model/scale_model.h"

enum ommai_scale_work {
  OMMAI_SCALE_TOWER,
  OMMAI_SCALE_PREFILL,
  OMMAI_SCALE_DECODE,      /* steps of one answer */
  OMMAI_SCALE_DECODE_MANY, /* of OMMAI_SCALE_MANY_ROWS */
  OMMAI_SCALE_WORKS
};
extern const char *const ommai_scale_work_names[OMMAI_SCALE_WORKS];
enum { OMMAI_SCALE_MANY_ROWS = 16, OMMAI_SCALE_STEP_PROMPT = 64, OMMAI_SCALE_MAX_IMAGES = 64 };

/* Tokens that an answer may have before the last of OMMAI_SCALE_MANY_ROWS has begun. Their prompts
 * have 1,024 tokens in all; while answers go on, nine tenths of the time are the prompts', and a
 * step takes as long as a prompt's token at least: some 120 steps, and some more for chunks. */
enum { OMMAI_SCALE_AHEAD = 256 };

/* All but recorder and engine is the caller's, and filled in by it. */
struct ommai_scale_runner {
  const struct ommai_common *common; /* limits of the images' sizes */
  struct omma_model *model;
  struct omma_image *image; /* of which a pass of the tower has n_images */
  int64_t n_images;
  int64_t context;  /* of the prompt */
  int64_t n_tokens; /* of each answer while all go on, 3 or more */
  int32_t *tokens;  /* prompts begin one further each time, so that the engine has seen none */
  size_t next_prompt;
  struct ommai_progress progress; /* begun, with the details of the pass; counts passes */
  int64_t n_done, n_passes;
  struct ommai_scale_recorder recorder;
  struct omma_engine *engine;
};

/* An engine on the recorder's team. Returns an exit code; closed either way. */
int ommai_scale_runner_open(struct ommai_scale_runner *runner);
/* What was recorded goes with it. */
void ommai_scale_runner_close(struct ommai_scale_runner *runner);

/* Runs a work and records it: alone, or, of a recorder with another team, in turn and together.
 * Returns an exit code. */
int ommai_scale_runner_run(struct ommai_scale_runner *runner, enum ommai_scale_work work);
