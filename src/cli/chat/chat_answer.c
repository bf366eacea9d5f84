#include "cli/chat/chat_answer.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "cli/core/diagnostics.h"
#include "cli/core/interrupt.h"
#include "cli/core/json_out.h"
#include "cli/core/plain_text.h"
#include "cli/core/progress.h"

/* What the callbacks share; they run on the engine's thread while this one waits. */
struct listener {
  const struct ommai_answer_options *options;
  struct ommai_answer *answer;
  FILE *text;
  struct ommai_terminal_rest rest; /* of what was shown */
  enum omma_stage stage;
  struct ommai_progress progress;
  struct omma_error error;
  atomic_bool finished;
};

static const char *stage_name(enum omma_stage stage) {
  switch (stage) {
    case OMMA_STAGE_QUEUED: return "waiting";
    case OMMA_STAGE_ENCODE: return "looking";
    case OMMA_STAGE_PREFILL: return "reading";
    case OMMA_STAGE_DECODE: return "answering";
  }
  return "working";
}

static void on_progress(void *context, enum omma_stage stage, int64_t done, int64_t total) {
  struct listener *listener = context;
  if (stage == OMMA_STAGE_DECODE) {
    ommai_progress_end(&listener->progress);
    return;
  }
  if (stage != listener->stage) {
    ommai_progress_end(&listener->progress);
    ommai_progress_begin(&listener->progress, stage_name(stage));
    listener->stage = stage;
  }
  ommai_progress_update(&listener->progress, done, total);
}

static void begin_logprob(struct ommai_text *out, int32_t token, float logprob) {
  ommai_put_begin(out, NULL, "{");
  ommai_put_integer(out, "id", token);
  ommai_put_real(out, "logprob", logprob);
}

static void collect_logprob(struct ommai_text *out, const struct omma_token_event *event) {
  begin_logprob(out, event->token, event->logprob);
  ommai_put_begin(out, "top", "[");
  for (int i = 0; i < event->n_top; i++) {
    begin_logprob(out, event->top[i].token, event->top[i].logprob);
    ommai_put_end(out, "}");
  }
  ommai_put_end(out, "]}");
}

static bool on_token(void *context, const struct omma_token_event *event) {
  struct listener *listener = context;
  ommai_progress_end(&listener->progress);
  fwrite(event->text, 1, event->text_size, listener->text);
  if (listener->options->details) {
    ommai_put_integer(&listener->answer->ids, NULL, event->token);
    if (event->has_logprob) collect_logprob(&listener->answer->logprobs, event);
  }
  if (!listener->options->stream) return true;
  ommai_print_answer(stdout, &listener->rest, event->text, event->text_size);
  fflush(stdout);
  return !ferror(stdout);
}

static void on_finish(void *context, const struct omma_result *result) {
  struct listener *listener = context;
  listener->answer->result = *result;
  listener->answer->result.stop_string = NULL;
  listener->error = result->error;
  atomic_store(&listener->finished, true);
  ommai_interrupt_wake();
}

static int wait_for_end(struct omma_engine *engine, uint64_t id, struct listener *listener) {
  bool cancelled = false;
  while (!atomic_load(&listener->finished)) {
    ommai_interrupt_wait();
    if (ommai_interrupted() && !cancelled) {
      omma_engine_cancel(engine, id);
      cancelled = true;
    }
  }
  ommai_progress_end(&listener->progress);
  ommai_terminal_end(stdout, &listener->rest);
  listener->answer->interrupted = cancelled && listener->answer->result.finish == OMMA_FINISH_CANCELLED;
  return listener->answer->result.finish == OMMA_FINISH_ERROR ? ommai_failed_call(&listener->error) : OMMAI_EXIT_DONE;
}

static int submit(struct omma_engine *engine, const struct omma_request *request, struct listener *listener) {
  struct omma_callbacks callbacks = {
      .context = listener, .on_progress = on_progress, .on_token = on_token, .on_finish = on_finish};
  struct omma_error error;
  uint64_t id;
  ommai_progress_begin(&listener->progress, stage_name(listener->stage));
  ommai_interrupt_defer();
  int code;
  if (omma_engine_submit(engine, request, &callbacks, &id, &error) == OMMA_OK) {
    code = wait_for_end(engine, id, listener);
  } else {
    code = ommai_failed_call(&error);
  }
  ommai_interrupt_resume();
  return code;
}

static void collect_prompt(const struct omma_request *request, struct ommai_answer *answer) {
  size_t count;
  const int32_t *ids = omma_request_prompt(request, &count);
  for (size_t i = 0; i < count; i++) ommai_put_integer(&answer->prompt_ids, NULL, ids[i]);
}

int ommai_answer(struct omma_model *model, struct omma_engine *engine, const struct ommai_conversation *conversation,
                 const struct ommai_answer_options *options, struct ommai_answer *answer) {
  struct omma_request_options request_options = {.sampling = options->sampling,
                                                 .max_model_len = omma_engine_max_model_len(engine)};
  struct omma_request *request;
  struct omma_error error;
  const struct ommai_text empty = ommai_text_of(&ommai_default_allocator);
  *answer = (struct ommai_answer){.prompt_ids = empty, .ids = empty, .logprobs = empty};
  double start = ommai_clock_seconds();
  if (omma_request_create(model, conversation->messages, conversation->count, &request_options, &request, &error) != OMMA_OK) {
    answer->too_long = error.status == OMMA_ERROR_LIMIT && !strcmp(error.field, "input_tokens");
    answer->error = error;
    return answer->too_long ? OMMAI_EXIT_FAILED : ommai_failed_call(&error);
  }
  struct listener listener = {.options = options, .answer = answer};
  listener.text = open_memstream(&answer->text, &answer->text_size);
  int code;
  if (!listener.text) {
    code = ommai_failed("out of memory: the answer");
  } else {
    if (options->details) collect_prompt(request, answer);
    code = submit(engine, request, &listener);
    bool lost = ferror(listener.text) != 0;
    if ((fclose(listener.text) != 0 || lost) && code == OMMAI_EXIT_DONE)
      code = ommai_failed("out of memory: the answer's text");
  }
  omma_request_destroy(request);
  answer->seconds = ommai_clock_seconds() - start;
  return code;
}

void ommai_answer_note(const struct ommai_answer *answer, double decode_image) {
  const struct omma_result *result = &answer->result;
  const struct omma_timings *t = &result->timings;
  ommai_note(
      "%lld prompt tokens, %lld answer tokens; decode image %.3f s, preprocess %.3f s, encode %.3f s, prefill %.3f s, "
      "decode %.3f s (%.1f tokens/s), together %.3f s",
      (long long)result->n_prompt_tokens, (long long)result->n_completion_tokens, decode_image, t->preprocess, t->encode,
      t->prefill, t->decode, t->decode > 0 ? (double)result->n_completion_tokens / t->decode : 0.0,
      decode_image + answer->seconds);
}

void ommai_answer_release(struct ommai_answer *answer) {
  free(answer->text);
  ommai_text_free(&answer->prompt_ids);
  ommai_text_free(&answer->ids);
  ommai_text_free(&answer->logprobs);
  *answer = (struct ommai_answer){0};
}
