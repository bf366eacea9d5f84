#include "server/api/answer_object.h"

#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "server/http/access.h"
#include "server/http/call_trace.h"
#include "server/state/server_state.h"

static struct ommai_reply_part part_of(const struct ommai_answer_choice *choice) {
  return (struct ommai_reply_part){.index = choice->index,
                                   .text = choice->text.data,
                                   .text_size = choice->text.size,
                                   .reasoning = choice->reasoning.data,
                                   .reasoning_size = choice->reasoning.size,
                                   .in_reasoning = choice->in_reasoning && choice->answer->shows_reasoning,
                                   .logprobs = choice->answer->logprobs ? &choice->logprobs : NULL,
                                   .calls = choice->tools.calls,
                                   .n_calls = choice->tools.n_calls,
                                   .token_ids = choice->answer->token_ids ? &choice->token_ids : NULL,
                                   .prompt_ids = choice->prompt_ids,
                                   .prompt_logprobs = ommai_answer_choice_prompt_scores(choice),
                                   .stop_token = -1};
}

/* Like part_of, for a choice that has ended. */
static struct ommai_reply_part last_part_of(const struct ommai_answer_choice *choice) {
  struct ommai_reply_part part = part_of(choice);
  const struct ommai_tool_parser *tools = &choice->tools;
  bool calls = choice->finish == OMMA_FINISH_STOP && tools->format != OMMAI_TOOLS_NAMED && ommai_tool_parser_called(tools);
  part.finish_reason =
      /* a named function ends with "stop", as in OpenAI's API */
      calls ? "tool_calls" : ommai_finish_reason(choice->finish);
  part.stop_token = choice->stop_token;
  part.stop_string = choice->stop_string.size ? choice->stop_string.data : NULL;
  return part;
}

static struct ommai_usage usage_of(const struct ommai_call_answer *answer) {
  struct ommai_usage usage = {.prompt_tokens = answer->n_prompt_tokens,
                              .reasoning_tokens = answer->head.has_reasoning ? 0 : -1};
  for (int i = 0; i < answer->n_choices; i++) {
    usage.completion_tokens += answer->choices[i].n_tokens;
    usage.reasoning_tokens += answer->choices[i].n_reasoning_tokens;
    /* A prompt counts once, though further answers to it find all of it. */
    if (i % answer->n_per_prompt == 0) usage.cached_tokens += answer->choices[i].n_cached_tokens;
  }
  return usage;
}

/* Sends what `out` holds, if anything, in one piece and frees it. */
static bool push_event(struct ommai_call_answer *answer, struct ommai_text *out) {
  bool pushed = !out->failed;
  if (pushed && out->size) pushed = ommai_http_call_push(answer->call, out->data, out->size);
  ommai_text_free(out);
  return pushed;
}

static bool push_beginning(struct ommai_answer_choice *choice) {
  struct ommai_call_answer *answer = choice->answer;
  struct ommai_usage usage = {.prompt_tokens = answer->n_prompt_tokens, .cached_tokens = -1, .reasoning_tokens = -1};
  if (choice->begun || !answer->format->begin) return true;
  choice->begun = true;
  struct ommai_text out = ommai_text_of(answer->allocator);
  answer->format->begin(&out, &answer->head, choice->index, answer->continuous_usage ? &usage : NULL);
  return push_event(answer, &out);
}

static bool push_delta(struct ommai_answer_choice *choice, const struct ommai_reply_part *part) {
  struct ommai_call_answer *answer = choice->answer;
  struct ommai_usage usage = {.prompt_tokens = answer->n_prompt_tokens,
                              .completion_tokens = choice->n_tokens,
                              .cached_tokens = -1,
                              .reasoning_tokens = -1};
  struct ommai_text out = ommai_text_of(answer->allocator);
  answer->format->delta(&out, &answer->head, part, answer->continuous_usage ? &usage : NULL);
  return push_event(answer, &out);
}

/* A token of reasoning that is not to be sent. */
static bool is_hidden(const struct ommai_call_answer *answer, const struct omma_token_event *event) {
  return event->in_reasoning && !answer->shows_reasoning;
}

static void count_tools(const struct ommai_call_answer *answer, bool found) {
  enum ommai_tool_caller caller = answer->format == &ommai_chat_reply_format        ? OMMAI_CALLER_CHAT
                                  : answer->format == &ommai_responses_reply_format ? OMMAI_CALLER_RESPONSES
                                                                                    : OMMAI_CALLER_OTHER;
  ommai_metrics_count_tools(&answer->call->server->metrics, caller, answer->stream, found);
}

/* Keeps a token's text, id and log-probabilities in the choice. */
static bool gather(struct ommai_answer_choice *choice, const struct omma_token_event *event) {
  struct ommai_call_answer *answer = choice->answer;
  if (answer->prompt_only) return !ommai_answer_choice_failed(choice);
  choice->in_reasoning = event->in_reasoning;
  if (answer->token_ids && !is_hidden(answer, event)) ommai_put_integer(&choice->token_ids, NULL, event->token);
  if (answer->stream && answer->has_tools) {
    ommai_tool_parser_feed(&choice->tools, event->text, event->text_size, &choice->text);
    count_tools(answer, ommai_tool_parser_has_news(&choice->tools));
  } else {
    ommai_text_append(&choice->text, event->text, event->text_size);
  }
  if (answer->shows_reasoning) ommai_text_append(&choice->reasoning, event->reasoning, event->reasoning_size);
  bool has_logprob = answer->logprobs && !is_hidden(answer, event) && !(answer->format->as_items && event->in_reasoning);
  if (has_logprob) answer->format->add_logprob(&choice->logprobs, answer->call->server->config.model, event);
  return !ommai_answer_choice_failed(choice);
}

/* The text that was kept is out. */
static void forget(struct ommai_answer_choice *choice) {
  choice->text.size = choice->reasoning.size = choice->token_ids.size = 0;
  choice->prompt_ids = NULL;
  ommai_tool_parser_forget(&choice->tools);
  for (int i = 0; i < OMMAI_LOGPROB_LISTS; i++) choice->logprobs.lists[i].size = 0;
}

static void measure_token(struct ommai_answer_choice *choice, const struct omma_token_event *event) {
  struct ommai_http_call *call = choice->answer->call;
  int64_t now = ommai_clock_ns() - call->created_ns;
  if (event->index == 0) {
    choice->first_token_ns = now;
    ommai_call_trace_token(call, call->created_ns + now);
    ommai_metrics_observe(&call->server->metrics, event->engine, OMMAI_TIME_TO_FIRST_TOKEN, (double)now * 1e-9);
  } else {
    ommai_metrics_observe(&call->server->metrics, event->engine, OMMAI_INTER_TOKEN_LATENCY,
                          (double)(now - choice->last_token_ns) * 1e-9);
  }
  choice->last_token_ns = now;
}

/* Lines of the log, except of requests that wait, and comments, which clients that do not know them
 * pass over. */
static void on_progress(void *context, enum omma_stage stage, int64_t done, int64_t total) {
  struct ommai_answer_choice *choice = context;
  struct ommai_call_answer *answer = choice->answer;
  if (stage == OMMA_STAGE_DECODE) return;
  if (stage != OMMA_STAGE_QUEUED) ommai_access_log_progress(answer->call, stage, done, total, answer->n_images);
  if (!answer->stream || !answer->own.progress || !ommai_own_progress_is_due(&answer->progress, stage, done, total)) return;
  struct ommai_text out = ommai_text_of(answer->allocator);
  ommai_own_add_progress_comment(&out, stage, done, total);
  push_event(answer, &out);
}

void ommai_call_answer_push_images(struct ommai_call_answer *answer) {
  struct ommai_text out = ommai_text_of(answer->allocator);
  ommai_own_add_media_comment(&out, &answer->images, answer->call->server->config.info.box_unit);
  push_event(answer, &out);
}

/* Where the answers begin with their prompt, each has its own list; else one stands for all. */
static void on_prompt_token(void *context, const struct omma_prompt_token_event *event) {
  struct ommai_answer_choice *choice = context;
  struct ommai_call_answer *answer = choice->answer;
  const struct omma_model *model = answer->call->server->config.model;
  const struct omma_token_event as_answer = {.token = event->token,
                                             .has_logprob = true,
                                             .logprob = event->logprob,
                                             .top = event->top,
                                             .n_top = event->n_top < answer->n_top ? event->n_top : answer->n_top};
  if (answer->echo_logprobs) answer->format->add_logprob(&choice->logprobs, model, &as_answer);
  if (choice->index % answer->n_per_prompt == 0)
    ommai_reply_add_prompt_logprob(ommai_answer_choice_prompt_scores(choice), model, event);
}

/* Whether a token has nothing to be sent yet: one of reasoning that is not sent, or of what may
 * become a call. */
static bool is_held_back(const struct ommai_answer_choice *choice, const struct omma_token_event *event) {
  const struct ommai_call_answer *answer = choice->answer;
  if (choice->text.size) return false;
  if (event->in_reasoning) return !answer->shows_reasoning;
  return answer->has_tools && !choice->reasoning.size && !ommai_tool_parser_has_news(&choice->tools);
}

/* A stream sends each token as it comes, but for the last: its event carries the reasons of the
 * end, known to on_finish alone. */
static bool on_token(void *context, const struct omma_token_event *event) {
  struct ommai_answer_choice *choice = context;
  struct ommai_call_answer *answer = choice->answer;
  choice->n_tokens = event->index + 1;
  measure_token(choice, event);
  if (!answer->stream) return gather(choice, event) && !ommai_http_call_is_gone(answer->call);
  if (!push_beginning(choice) || !gather(choice, event)) return false;
  if (event->last) return true;
  if (is_held_back(choice, event)) return !ommai_http_call_is_gone(answer->call);
  struct ommai_reply_part part = part_of(choice);
  bool pushed = push_delta(choice, &part);
  forget(choice);
  return pushed;
}

/* Vocabulary's own end markers are not a stop reason; those that the request named are. */
static int32_t stop_reason_token(const struct ommai_call_answer *answer, int32_t token) {
  for (size_t i = 0; i < answer->n_stop_token_ids; i++) {
    if (answer->stop_token_ids[i] == token) return token;
  }
  return -1;
}

static void take_end(struct ommai_answer_choice *choice, const struct omma_result *result) {
  /* as vLLM */
  const char *stop = result->finish == OMMA_FINISH_REPETITION ? "repetition_detected" : result->stop_string;
  choice->finish = result->finish;
  choice->n_tokens = result->n_completion_tokens;
  choice->n_cached_tokens = result->n_cached_tokens;
  choice->n_reasoning_tokens = result->n_reasoning_tokens;
  choice->stop_token = stop_reason_token(choice->answer, result->stop_token);
  if (stop) ommai_text_append(&choice->stop_string, stop, strlen(stop) + 1);
}

/* What is sent after the usage. All choices are over. */
static void add_details(struct ommai_call_answer *answer, struct ommai_text *own, struct ommai_usage *usage) {
  struct ommai_http_call *call = answer->call;
  double first_token = (double)answer->choices[0].first_token_ns * 1e-9;
  double total = (double)(ommai_clock_ns() - call->created_ns) * 1e-9;
  *own = ommai_text_of(answer->allocator);
  if (!answer->own.details) return;
  pthread_mutex_lock(&call->lock);
  const struct ommai_access access = call->access;
  pthread_mutex_unlock(&call->lock);
  ommai_own_add_details(own, &access, first_token, total, &answer->images, call->server->config.info.box_unit);
  if (!own->failed) usage->own = own;
}

static bool finish_stream(struct ommai_call_answer *answer) {
  struct ommai_usage usage = usage_of(answer);
  struct ommai_text out = ommai_text_of(answer->allocator), own;
  if (answer->include_usage) {
    add_details(answer, &own, &usage);
    answer->format->usage(&out, &answer->head, &usage);
    ommai_text_free(&own);
    if (!push_event(answer, &out)) return false;
  }
  ommai_http_call_end(answer->call);
  return true;
}

static void finish_whole(struct ommai_call_answer *answer) {
  struct ommai_usage usage = usage_of(answer);
  struct ommai_reply_part parts[OMMAI_MAX_CHOICES];
  struct ommai_text own;
  for (int i = 0; i < answer->n_choices; i++) parts[i] = last_part_of(&answer->choices[i]);
  struct ommai_text out = ommai_text_of(answer->allocator);
  add_details(answer, &own, &usage);
  answer->head.prompt_logprobs = ommai_answer_choice_prompt_scores(&answer->choices[0]);
  answer->format->whole(&out, &answer->head, parts, answer->n_choices, &usage);
  ommai_text_free(&own);
  ommai_http_call_reply(answer->call, 200, "application/json", &out);
}

/* The first choice that ends badly fails the whole request and stops the other choices. */
static void fail_answer(struct ommai_call_answer *answer, const struct omma_result *result) {
  static const struct omma_error cancelled = {.status = OMMA_ERROR_CANCELLED};
  ommai_http_call_fail_from(answer->call, "generation", result->finish == OMMA_FINISH_ERROR ? &result->error : &cancelled);
  ommai_http_call_cancel_engine(answer->call);
}

/* What the request asked for, as vLLM counts it: of answers that ended by themselves. Those to a
 * prompt may end at several engines at once. */
static void measure_parameters(struct ommai_answer_choice *choice, const struct omma_result *result) {
  struct ommai_call_answer *answer = choice->answer;
  struct ommai_server *server = answer->call->server;
  int n = answer->n_per_prompt, prompt = choice->index / n;
  int64_t room = server->config.info.max_model_len - result->n_prompt_tokens, largest = 0;
  if (!ommai_finish_reason(result->finish)) return;
  ommai_metrics_observe(&server->metrics, result->engine, OMMAI_MAX_TOKENS,
                        (double)(answer->max_tokens ? ommai_min_i64(answer->max_tokens, room) : room));
  if (atomic_fetch_add(&answer->n_ended[prompt], 1) + 1 < n) return;
  for (int i = 0; i < n; i++) largest = ommai_max_i64(largest, answer->choices[prompt * n + i].n_tokens);
  ommai_metrics_finish_prompt(&server->metrics, result->engine, n, largest);
}

static void measure_end(struct ommai_answer_choice *choice, const struct omma_result *result) {
  bool first = choice->index % choice->answer->n_per_prompt == 0;
  ommai_access_add(choice->answer->call, result, first, (double)choice->first_token_ns * 1e-9);
  measure_parameters(choice, result);
}

/* An answer that is sent as a whole is text alone where a call in it is broken. */
static bool find_calls(struct ommai_answer_choice *choice) {
  struct ommai_tool_parser *tools = &choice->tools;
  struct ommai_text content = ommai_text_of(choice->answer->allocator);
  bool good = ommai_tool_parser_feed(tools, choice->text.data, choice->text.size, &content) &&
              ommai_tool_parser_finish(tools, &content);
  if (ommai_tool_parser_is_text(tools)) {
    ommai_tool_parser_free(tools);
  } else {
    struct ommai_text whole = choice->text;
    choice->text = content;
    content = whole;
  }
  ommai_text_free(&content);
  count_tools(choice->answer, tools->n_calls > 0);
  return good;
}

static bool end_calls(struct ommai_answer_choice *choice) {
  if (!choice->answer->has_tools) return true;
  return choice->answer->stream ? ommai_tool_parser_finish(&choice->tools, &choice->text) : find_calls(choice);
}

static void on_finish(void *context, const struct omma_result *result) {
  struct ommai_answer_choice *choice = context;
  struct ommai_call_answer *answer = choice->answer;
  take_end(choice, result);
  measure_end(choice, result);
  bool good = ommai_finish_reason(result->finish) && !choice->stop_string.failed && end_calls(choice);
  if (good && answer->stream) {
    struct ommai_reply_part part = last_part_of(choice);
    good = push_beginning(choice) && push_delta(choice, &part);
  }
  bool all_over = atomic_fetch_sub(&answer->n_open, 1) == 1;
  if (good && all_over) {
    if (answer->stream) {
      good = finish_stream(answer);
    } else {
      finish_whole(answer);
    }
  }
  if (!good) fail_answer(answer, result);
  ommai_call_answer_release(answer);
}

struct omma_callbacks ommai_answer_choice_callbacks(struct ommai_answer_choice *choice) {
  struct omma_callbacks callbacks = {.context = choice, .on_token = on_token, .on_finish = on_finish};
  if (choice->answer->prompt_logprobs) callbacks.on_prompt_token = on_prompt_token;
  if (choice->index == 0) callbacks.on_progress = on_progress;
  return callbacks;
}
