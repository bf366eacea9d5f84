#include "cli/model/scale_works.h"

#include "cli/core/diagnostics.h"
#include "cli/model/bench_inputs.h"

const char *const ommai_scale_work_names[OMMAI_SCALE_WORKS] = {"tower", "prefill", "decode, 1 row", "decode, 16 rows"};

/* Never while a pass is recorded, whose time it would be part of. */
static void show_progress(struct ommai_scale_runner *runner) {
  ommai_progress_update(&runner->progress, runner->n_done, runner->n_passes);
}

/* Answers of one work on the engine's thread. */
struct answers {
  struct ommai_scale_runner *runner;
  int64_t n, n_begun;
  int64_t n_steps;  /* to record; 0: the prompt */
  int64_t n_tokens; /* of steps since all have begun */
};

/* Steps are recorded from when all answers have begun, which the first ones do tokens earlier; then
 * all are given up. A prompt is recorded until its token. */
static bool on_token(void *context, const struct omma_token_event *event) {
  struct answers *answers = context;
  struct ommai_scale_recorder *recorder = &answers->runner->recorder;
  bool all = answers->n_begun == answers->n;
  if (event->index == 0 && ++answers->n_begun == answers->n) {
    if (answers->n_steps) {
      ommai_scale_recorder_begin(recorder);
    } else {
      ommai_scale_recorder_end(recorder);
    }
  } else if (!all) {
    show_progress(answers->runner);
  } else if (recorder->recording && ++answers->n_tokens % answers->n == 0) {
    if (answers->n_tokens < answers->n * answers->n_steps) {
      ommai_scale_recorder_step(recorder);
    } else {
      ommai_scale_recorder_end(recorder);
    }
  }
  return !all || recorder->recording;
}

/* A prompt that the engine has not seen, and n answers to it. */
static int run_text(struct ommai_scale_runner *runner, int64_t n_prompt, int64_t n_tokens, int64_t n) {
  struct omma_error error;
  struct omma_request *request;
  const int64_t n_ahead = n > 1 ? OMMAI_SCALE_AHEAD : 0;
  const struct omma_request_options options = {.sampling = {.max_tokens = n_tokens + n_ahead, .ignore_eos = true}};
  struct answers answers = {.runner = runner, .n = n, .n_steps = n_tokens - 1};
  const int32_t *tokens = runner->tokens + runner->next_prompt++;
  if (omma_request_create_tokens(runner->model, tokens, (size_t)n_prompt, &options, &request, &error) != OMMA_OK) {
    return ommai_failed_call(&error);
  }
  const struct omma_callbacks callbacks = {.context = &answers, .on_token = on_token};
  if (!answers.n_steps) ommai_scale_recorder_begin(&runner->recorder);
  enum omma_status status = ommai_ask_together(runner->engine, request, n, &callbacks, &error);
  omma_request_destroy(request);
  if (status != OMMA_OK) return ommai_failed_call(&error);
  if (answers.n_tokens < n * answers.n_steps)
    return ommai_failed("bench scale: the first of %lld answers ended before the last one had %lld tokens", (long long)n,
                        (long long)n_tokens);
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
  show_progress(runner);
  recorder->mode = recorder->inner ? OMMAI_SCALE_IN_TURN : OMMAI_SCALE_ALONE;
  int code = run_once(runner, work);
  if (code == OMMAI_EXIT_DONE && recorder->inner && work < OMMAI_SCALE_DECODE) {
    recorder->mode = OMMAI_SCALE_TOGETHER;
    code = run_once(runner, work);
  }
  runner->n_done++;
  show_progress(runner);
  return code;
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
