#include "cli/model/scale_works.h"

#include "cli/core/diagnostics.h"
#include "cli/model/bench_inputs.h"

/* Answers of one work on the engine's thread. */
struct answers {
  struct ommai_scale_recorder *recorder;
  int64_t n, n_begun, n_tokens; /* tokens of steps since all have begun */
  bool steps, over;             /* steps are recorded, not the prompt; the recording is over */
};

/* Steps are recorded from when all answers have begun until one ends; a prompt until its token.
 * Answers go in order, so the first one's end is the first token of its step. */
static bool on_token(void *context, const struct omma_token_event *event) {
  struct answers *answers = context;
  bool all = answers->n_begun == answers->n;
  if (event->index == 0 && ++answers->n_begun == answers->n) {
    if (answers->steps) {
      ommai_scale_recorder_begin(answers->recorder);
    } else {
      ommai_scale_recorder_end(answers->recorder);
    }
  } else if (event->last && answers->steps) {
    ommai_scale_recorder_end(answers->recorder);
    answers->over = true;
  } else if (all && !answers->over && ++answers->n_tokens % answers->n == 0) {
    ommai_scale_recorder_step(answers->recorder);
  }
  return true;
}

/* A prompt that the engine has not seen, and n answers to it. */
static int run_text(struct ommai_scale_runner *runner, int64_t n_prompt, int64_t n_tokens, int64_t n) {
  struct omma_error error;
  struct omma_request *request;
  const struct omma_request_options options = {.sampling = {.max_tokens = n_tokens, .ignore_eos = true}};
  struct answers answers = {.recorder = &runner->recorder, .n = n, .steps = n_tokens > 1};
  const int32_t *tokens = runner->tokens + runner->next_prompt++;
  if (omma_request_create_tokens(runner->model, tokens, (size_t)n_prompt, &options, &request, &error) != OMMA_OK) {
    return ommai_failed_call(&error);
  }
  const struct omma_callbacks callbacks = {.context = &answers, .on_token = on_token};
  if (!answers.steps) ommai_scale_recorder_begin(&runner->recorder);
  enum omma_status status = ommai_ask_together(runner->engine, request, n, &callbacks, &error);
  omma_request_destroy(request);
  if (status != OMMA_OK) return ommai_failed_call(&error);
  if (answers.steps && answers.n_tokens < n)
    return ommai_failed("bench scale: the first answer ended before two steps of all: give more --tokens");
  return OMMAI_EXIT_DONE;
}

static int run_tower(struct ommai_scale_runner *runner) {
  struct omma_error error;
  struct omma_embeddings *embeddings;
  const struct omma_image *images[OMMAI_SCALE_MAX_IMAGES];
  struct omma_image_options limits = ommai_common_image_options(runner->common);
  for (int64_t i = 0; i < runner->n_images; i++) images[i] = runner->image;
  ommai_scale_recorder_begin(&runner->recorder);
  if (omma_encode(runner->engine, images, (size_t)runner->n_images, &limits, true, NULL, NULL, &embeddings, &error) !=
      OMMA_OK) {
    return ommai_failed_call(&error);
  }
  ommai_scale_recorder_end(&runner->recorder);
  omma_embeddings_destroy(embeddings);
  return OMMAI_EXIT_DONE;
}

static int run_once(struct ommai_scale_runner *runner, enum ommai_scale_work work) {
  switch (work) {
    case OMMAI_SCALE_TOWER: return run_tower(runner);
    case OMMAI_SCALE_PREFILL: return run_text(runner, runner->context, 1, 1);
    default:
      return run_text(runner, OMMAI_SCALE_STEP_PROMPT, runner->n_tokens,
                      work == OMMAI_SCALE_DECODE ? 1 : OMMAI_SCALE_MANY_ROWS);
  }
}

/* Once in each mode of the recorder, where steps do not alternate. */
int ommai_scale_runner_run(struct ommai_scale_runner *runner, enum ommai_scale_work work) {
  struct ommai_scale_recorder *recorder = &runner->recorder;
  int code = OMMAI_EXIT_DONE;
  recorder->mode = recorder->inner ? OMMAI_SCALE_IN_TURN : OMMAI_SCALE_ALONE;
  code = run_once(runner, work);
  if (code != OMMAI_EXIT_DONE || !recorder->inner || work >= OMMAI_SCALE_DECODE) return code;
  recorder->mode = OMMAI_SCALE_TOGETHER;
  return run_once(runner, work);
}

int ommai_scale_runner_open(struct ommai_scale_runner *runner) {
  enum { SLICE_MS = 60000 }; /* slices end where somebody waits, here nobody */
  struct omma_error error;
  const struct omma_engine_options options = {.max_sequences = OMMAI_SCALE_MANY_ROWS,
                                              .slice_ms = SLICE_MS,
                                              .slice_percent = 90,
                                              .encoder_cache_bytes = -1,
                                              .team = &runner->recorder.team};
  enum omma_status status = omma_engine_create(runner->model, &options, &runner->engine, &error);
  return status == OMMA_OK ? OMMAI_EXIT_DONE : ommai_failed_call(&error);
}

void ommai_scale_runner_close(struct ommai_scale_runner *runner) {
  omma_engine_destroy(runner->engine);
  runner->engine = NULL;
  ommai_scale_recorder_release(&runner->recorder);
}
