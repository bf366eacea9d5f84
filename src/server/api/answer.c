/* One answer holds one call and up to OMMAI_MAX_CHOICES requests, a prompt's choice i drawn with
 * seed + i. The worker that makes it and every submitted request hold a reference; the last
 * reference, wherever it is dropped, hands the answer to a worker to be freed. Choices are touched
 * by the worker until they are submitted and by the engine's thread afterwards. */
#include "server/api/answer.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/clock.h"
#include "server/api/request_log.h"
#include "server/http/access.h"
#include "server/http/call_trace.h"
#include "server/state/server_state.h"

#define ID_PREFIX_SIZE 16

struct answer;

struct choice {
  struct answer *answer;
  int index;
  struct omma_request *request;
  bool begun; /* the event before its text is out */
  /* sent once, with the first event; NULL: not asked for, or already sent */
  const struct ommai_text *prompt_ids;
  /* Not sent: the last token's of a stream, else everything. */
  struct ommai_text text, reasoning;
  bool in_thought; /* so was the last token */
  /* of a stream from its beginning, else when all of the text is there */
  struct ommai_tool_parser tools;
  struct ommai_logprobs logprobs;
  struct ommai_text token_ids;
  int64_t n_tokens, n_cached_tokens, n_reasoning_tokens;
  int64_t first_token_ns, last_token_ns; /* since the request arrived */
  struct ommai_text stop_string;
  int32_t stop_token;
  enum omma_finish finish;
  bool ended; /* by itself */
};

struct answer {
  struct ommai_job job; /* that frees it; first */
  struct ommai_http_call *call;
  const struct omma_allocator *allocator;
  atomic_int references;
  atomic_int n_open; /* choices without an end */
  char id[ID_PREFIX_SIZE + OMMAI_REQUEST_ID_SIZE];
  char *model;
  const struct ommai_reply_format *format;
  bool has_tools;
  struct ommai_reply_head head;
  struct ommai_reply_state reply_state; /* engine's thread */
  struct ommai_text request_fields;
  bool stream, include_usage, continuous_usage, logprobs, token_ids, prompt_logprobs, echo_logprobs, prompt_only,
      shows_reasoning;
  int32_t stop_token_ids[OMMAI_FIELD_MAX_STOP_TOKENS];
  size_t n_stop_token_ids;
  int64_t n_prompt_tokens, max_tokens; /* max_tokens: of each answer; 0: the context that is left */
  int n_choices, n_per_prompt;
  int n_top; /* of log-probabilities in answers */
  int64_t n_images;
  double decode_image; /* seconds that its images took */
  struct ommai_own_wishes own;
  /* of the first choice; engine's thread */
  struct ommai_own_progress progress;
  /* as ommai_own_add_image writes them */
  struct ommai_text images;
  /* of the prompts */
  struct ommai_text prompt_ids[OMMAI_MAX_CHOICES], prompt_scores[OMMAI_MAX_CHOICES];
  struct choice choices[OMMAI_MAX_CHOICES];
};

static void free_answer(struct answer *answer) {
  if (!answer) return;
  for (int i = 0; i < OMMAI_MAX_CHOICES; i++) {
    struct choice *choice = &answer->choices[i];
    omma_request_destroy(choice->request);
    ommai_text_free(&choice->text);
    ommai_text_free(&choice->reasoning);
    ommai_tool_parser_free(&choice->tools);
    ommai_text_free(&choice->token_ids);
    ommai_text_free(&answer->prompt_ids[i]);
    ommai_text_free(&answer->prompt_scores[i]);
    for (int j = 0; j < OMMAI_LOGPROB_LISTS; j++) ommai_text_free(&choice->logprobs.lists[j]);
    ommai_text_free(&choice->stop_string);
  }
  ommai_text_free(&answer->images);
  ommai_text_free(&answer->request_fields);
  ommai_reply_state_free(&answer->reply_state);
  if (answer->model) ommai_release(answer->allocator, answer->model, strlen(answer->model) + 1, 1);
  ommai_http_call_release(answer->call);
  ommai_release(answer->allocator, answer, 1, sizeof *answer);
}

static void free_answer_job(struct ommai_job *job) { free_answer((struct answer *)job); }

/* Freeing returns an image's megabytes to the system, which takes time that the engine's thread has
 * better use for. */
static void release_answer(struct answer *answer) {
  if (atomic_fetch_sub(&answer->references, 1) != 1) return;
  answer->job.run = free_answer_job;
  ommai_job_queue_push_urgent(answer->call->server->jobs, &answer->job);
}

static void fail_from(struct answer *answer, const char *what, const struct omma_error *cause) {
  struct ommai_api_error error;
  ommai_api_fail_from(&error, cause);
  if (error.status == 500) ommai_server_log(answer->call->config, what, cause);
  ommai_http_call_fail(answer->call, &error);
}

/* Those of a prompt, for all its answers. */
static struct ommai_text *scores_of(const struct choice *choice) {
  struct answer *answer = choice->answer;
  return answer->prompt_logprobs ? &answer->prompt_scores[choice->index / answer->n_per_prompt] : NULL;
}

static struct ommai_reply_part part_of(const struct choice *choice) {
  return (struct ommai_reply_part){.index = choice->index,
                                   .text = choice->text.data,
                                   .text_size = choice->text.size,
                                   .reasoning = choice->reasoning.data,
                                   .reasoning_size = choice->reasoning.size,
                                   .in_thought = choice->in_thought && choice->answer->shows_reasoning,
                                   .logprobs = choice->answer->logprobs ? &choice->logprobs : NULL,
                                   .calls = choice->tools.calls,
                                   .n_calls = choice->tools.n_calls,
                                   .token_ids = choice->answer->token_ids ? &choice->token_ids : NULL,
                                   .prompt_ids = choice->prompt_ids,
                                   .prompt_logprobs = scores_of(choice),
                                   .stop_token = -1};
}

/* Like part_of, for a choice that has ended. */
static struct ommai_reply_part last_part_of(const struct choice *choice) {
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

static struct ommai_usage usage_of(const struct answer *answer) {
  struct ommai_usage usage = {.prompt_tokens = answer->n_prompt_tokens, .reasoning_tokens = answer->head.has_thoughts ? 0 : -1};
  for (int i = 0; i < answer->n_choices; i++) {
    usage.completion_tokens += answer->choices[i].n_tokens;
    usage.reasoning_tokens += answer->choices[i].n_reasoning_tokens;
    /* A prompt counts once, though further answers to it find all of it. */
    if (i % answer->n_per_prompt == 0) usage.cached_tokens += answer->choices[i].n_cached_tokens;
  }
  return usage;
}

/* Sends what `out` holds, if anything, in one piece and frees it. */
static bool push_event(struct answer *answer, struct ommai_text *out) {
  bool pushed = !out->failed;
  if (pushed && out->size) pushed = ommai_http_call_push(answer->call, out->data, out->size);
  ommai_text_free(out);
  return pushed;
}

static bool push_beginning(struct choice *choice) {
  struct answer *answer = choice->answer;
  struct ommai_usage usage = {.prompt_tokens = answer->n_prompt_tokens, .cached_tokens = -1, .reasoning_tokens = -1};
  struct ommai_text out;
  if (choice->begun || !answer->format->begin) return true;
  choice->begun = true;
  ommai_text_init(&out, answer->allocator);
  answer->format->begin(&out, &answer->head, choice->index, answer->continuous_usage ? &usage : NULL);
  return push_event(answer, &out);
}

static bool push_delta(struct choice *choice, const struct ommai_reply_part *part) {
  struct answer *answer = choice->answer;
  struct ommai_usage usage = {.prompt_tokens = answer->n_prompt_tokens,
                              .completion_tokens = choice->n_tokens,
                              .cached_tokens = -1,
                              .reasoning_tokens = -1};
  struct ommai_text out;
  ommai_text_init(&out, answer->allocator);
  answer->format->delta(&out, &answer->head, part, answer->continuous_usage ? &usage : NULL);
  return push_event(answer, &out);
}

static bool has_failed(const struct choice *choice) {
  const struct ommai_text *scores = scores_of(choice);
  bool failed = choice->text.failed || choice->token_ids.failed || choice->reasoning.failed || choice->tools.failed ||
                (scores && scores->failed);
  for (int i = 0; i < OMMAI_LOGPROB_LISTS; i++) failed |= choice->logprobs.lists[i].failed;
  return failed;
}

/* A token of a thought that is not to be sent. */
static bool is_hidden(const struct answer *answer, const struct omma_token_event *event) {
  return event->in_thought && !answer->shows_reasoning;
}

static void count_tools(const struct answer *answer, bool found) {
  enum ommai_tool_caller caller = answer->format == &ommai_chat_reply_format        ? OMMAI_CALLER_CHAT
                                  : answer->format == &ommai_responses_reply_format ? OMMAI_CALLER_RESPONSES
                                                                                    : OMMAI_CALLER_OTHER;
  ommai_metrics_count_tools(&answer->call->server->metrics, caller, answer->stream, found);
}

/* Keeps a token's text, id and log-probabilities in the choice. */
static bool gather(struct choice *choice, const struct omma_token_event *event) {
  struct answer *answer = choice->answer;
  if (answer->prompt_only) return !has_failed(choice);
  choice->in_thought = event->in_thought;
  if (answer->token_ids && !is_hidden(answer, event)) ommai_put_integer(&choice->token_ids, NULL, event->token);
  if (answer->stream && answer->has_tools) {
    ommai_tool_parser_feed(&choice->tools, event->text, event->text_size, &choice->text);
    count_tools(answer, ommai_tool_parser_has_news(&choice->tools));
  } else {
    ommai_text_append(&choice->text, event->text, event->text_size);
  }
  if (answer->shows_reasoning) ommai_text_append(&choice->reasoning, event->reasoning, event->reasoning_size);
  bool has_logprob = answer->logprobs && !is_hidden(answer, event) && !(answer->format->as_items && event->in_thought);
  if (has_logprob) answer->format->add_logprob(&choice->logprobs, answer->call->server->config.model, event);
  return !has_failed(choice);
}

/* The text that was kept is out. */
static void forget(struct choice *choice) {
  choice->text.size = choice->reasoning.size = choice->token_ids.size = 0;
  choice->prompt_ids = NULL;
  ommai_tool_parser_forget(&choice->tools);
  for (int i = 0; i < OMMAI_LOGPROB_LISTS; i++) choice->logprobs.lists[i].size = 0;
}

static void measure_token(struct choice *choice, const struct omma_token_event *event) {
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
  struct choice *choice = context;
  struct answer *answer = choice->answer;
  struct ommai_text out;
  if (stage == OMMA_STAGE_DECODE) return;
  if (stage != OMMA_STAGE_QUEUED) ommai_access_log_progress(answer->call, stage, done, total, answer->n_images);
  if (!answer->stream || !answer->own.progress || !ommai_own_progress_is_due(&answer->progress, stage, done, total)) return;
  ommai_text_init(&out, answer->allocator);
  ommai_own_add_progress_comment(&out, stage, done, total);
  push_event(answer, &out);
}

static void push_images(struct answer *answer) {
  struct ommai_text out;
  ommai_text_init(&out, answer->allocator);
  ommai_own_add_media_comment(&out, &answer->images, answer->call->server->config.info.box_unit);
  push_event(answer, &out);
}

/* Where the answers begin with their prompt, each has its own list; else one stands for all. */
static void on_prompt_token(void *context, const struct omma_prompt_token_event *event) {
  struct choice *choice = context;
  struct answer *answer = choice->answer;
  const struct omma_model *model = answer->call->server->config.model;
  const struct omma_token_event as_answer = {.token = event->token,
                                             .has_logprob = true,
                                             .logprob = event->logprob,
                                             .top = event->top,
                                             .n_top = event->n_top < answer->n_top ? event->n_top : answer->n_top};
  if (answer->echo_logprobs) answer->format->add_logprob(&choice->logprobs, model, &as_answer);
  if (choice->index % answer->n_per_prompt == 0) ommai_reply_add_prompt_logprob(scores_of(choice), model, event);
}

/* Whether a token has nothing to be sent yet: one of a thought that is not sent, or of what may
 * become a call. */
static bool is_held_back(const struct choice *choice, const struct omma_token_event *event) {
  const struct answer *answer = choice->answer;
  if (choice->text.size) return false;
  if (event->in_thought) return !answer->shows_reasoning;
  return answer->has_tools && !choice->reasoning.size && !ommai_tool_parser_has_news(&choice->tools);
}

/* A stream sends each token as it comes, but for the last: its event carries the reasons of the
 * end, known to on_finish alone. */
static bool on_token(void *context, const struct omma_token_event *event) {
  struct choice *choice = context;
  struct answer *answer = choice->answer;
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
static int32_t stop_reason_token(const struct answer *answer, int32_t token) {
  for (size_t i = 0; i < answer->n_stop_token_ids; i++) {
    if (answer->stop_token_ids[i] == token) return token;
  }
  return -1;
}

static void take_end(struct choice *choice, const struct omma_result *result) {
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
static void add_details(struct answer *answer, struct ommai_text *own, struct ommai_usage *usage) {
  struct ommai_http_call *call = answer->call;
  double first_token = (double)answer->choices[0].first_token_ns * 1e-9;
  double total = (double)(ommai_clock_ns() - call->created_ns) * 1e-9;
  ommai_text_init(own, answer->allocator);
  if (!answer->own.details) return;
  pthread_mutex_lock(&call->lock);
  const struct ommai_access access = call->access;
  pthread_mutex_unlock(&call->lock);
  ommai_own_add_details(own, &access, first_token, total, &answer->images, call->server->config.info.box_unit);
  if (!own->failed) usage->own = own;
}

static bool finish_stream(struct answer *answer) {
  struct ommai_usage usage = usage_of(answer);
  struct ommai_text out, own;
  if (answer->include_usage) {
    ommai_text_init(&out, answer->allocator);
    add_details(answer, &own, &usage);
    answer->format->usage(&out, &answer->head, &usage);
    ommai_text_free(&own);
    if (!push_event(answer, &out)) return false;
  }
  ommai_http_call_end(answer->call);
  return true;
}

static void finish_whole(struct answer *answer) {
  struct ommai_usage usage = usage_of(answer);
  struct ommai_reply_part parts[OMMAI_MAX_CHOICES];
  struct ommai_text out, own;
  for (int i = 0; i < answer->n_choices; i++) parts[i] = last_part_of(&answer->choices[i]);
  ommai_text_init(&out, answer->allocator);
  add_details(answer, &own, &usage);
  answer->head.prompt_logprobs = scores_of(&answer->choices[0]);
  answer->format->whole(&out, &answer->head, parts, answer->n_choices, &usage);
  ommai_text_free(&own);
  ommai_http_call_reply(answer->call, 200, "application/json", &out);
}

/* The first choice that ends badly fails the whole request and stops the other choices. */
static void fail_answer(struct answer *answer, const struct omma_result *result) {
  static const struct omma_error cancelled = {.status = OMMA_ERROR_CANCELLED};
  fail_from(answer, "generation", result->finish == OMMA_FINISH_ERROR ? &result->error : &cancelled);
  ommai_http_call_cancel_engine(answer->call);
}

/* What the request asked for, as vLLM counts it: of answers that ended by themselves. */
static void measure_parameters(struct choice *choice, const struct omma_result *result) {
  struct answer *answer = choice->answer;
  struct ommai_server *server = answer->call->server;
  struct choice *first = choice - choice->index % answer->n_per_prompt;
  int64_t room = server->config.info.max_model_len - result->n_prompt_tokens, largest = 0;
  if (!ommai_finish_reason(result->finish)) return;
  ommai_metrics_observe(&server->metrics, result->engine, OMMAI_MAX_TOKENS,
                        (double)(answer->max_tokens ? ommai_min_i64(answer->max_tokens, room) : room));
  choice->ended = true;
  for (int i = 0; i < answer->n_per_prompt; i++) {
    if (!first[i].ended) return;
    largest = ommai_max_i64(largest, first[i].n_tokens);
  }
  ommai_metrics_finish_prompt(&server->metrics, result->engine, answer->n_per_prompt, largest);
}

/* A prompt's images are decoded once, for its first answer. */
static void measure_end(struct choice *choice, const struct omma_result *result) {
  struct answer *answer = choice->answer;
  struct ommai_http_call *call = answer->call;
  bool first = choice->index % answer->n_per_prompt == 0;
  double seconds = (double)(ommai_clock_ns() - call->created_ns) * 1e-9;
  ommai_access_add(call, result, first ? result->n_prompt_tokens : 0);
  ommai_metrics_finish(&call->server->metrics, result, first ? answer->decode_image : 0, seconds,
                       (double)choice->first_token_ns * 1e-9);
  measure_parameters(choice, result);
}

/* An answer that is sent as a whole is text alone where a call in it is broken. */
static bool find_calls(struct choice *choice) {
  struct ommai_tool_parser *tools = &choice->tools;
  struct ommai_text content;
  ommai_text_init(&content, choice->answer->allocator);
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

static bool end_calls(struct choice *choice) {
  if (!choice->answer->has_tools) return true;
  return choice->answer->stream ? ommai_tool_parser_finish(&choice->tools, &choice->text) : find_calls(choice);
}

static void on_finish(void *context, const struct omma_result *result) {
  struct choice *choice = context;
  struct answer *answer = choice->answer;
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
  release_answer(answer);
}

/* Prompt and answer must fit together; the engine checks the prompt alone. */
static bool check_length(const struct answer *answer, const struct ommai_answer_fields *fields, int64_t n_prompt_tokens,
                         struct ommai_api_error *error) {
  int64_t limit = answer->call->server->config.info.max_model_len, wanted = fields->sampling.max_tokens;
  if (fields->default_max_tokens || wanted <= limit - n_prompt_tokens) return true;
  return ommai_api_fail(error, 400, fields->max_tokens_field,
                        "%s is too large: %" PRId64 ". This model's maximum context length is %" PRId64
                        " tokens and your request has %" PRId64 " input tokens (%" PRId64 " > %" PRId64 " - %" PRId64 ").",
                        fields->max_tokens_field, wanted, limit, n_prompt_tokens, wanted, limit, n_prompt_tokens);
}

/* The ids of a prompt, for all its choices. */
static bool list_prompt(struct answer *answer, struct choice *choice, struct ommai_api_error *error) {
  int prompt = choice->index / answer->n_per_prompt;
  struct ommai_text *list = &answer->prompt_ids[prompt];
  size_t n;
  if (!answer->token_ids) return true;
  choice->prompt_ids = list;
  if (prompt == 0) answer->head.prompt_ids = list;
  const int32_t *ids = omma_request_prompt(choice->request, &n);
  for (size_t i = 0; i < n && choice->index % answer->n_per_prompt == 0; i++) ommai_put_integer(list, NULL, ids[i]);
  return !list->failed || ommai_api_fail_memory(error);
}

/* The prompt's first token has no log-probability; a prompt of no more has no others. */
static bool begin_logprobs(const struct answer *answer, struct choice *choice, struct ommai_api_error *error) {
  size_t n;
  const int32_t *ids = omma_request_prompt(choice->request, &n);
  struct ommai_text *scores = scores_of(choice);
  if (scores && n == 1 && !scores->size) ommai_put_null(scores, NULL);
  if (answer->echo_logprobs) answer->format->add_unscored(&choice->logprobs, answer->call->server->config.model, ids[0]);
  return !has_failed(choice) || ommai_api_fail_memory(error);
}

/* A prompt is prepared once: its further choices share it. */
static bool make_request(struct answer *answer, const struct ommai_answer_source *source, struct choice *choice,
                         struct ommai_api_error *error) {
  int n = (int)source->fields->n, prompt = choice->index / n, repeat = choice->index % n;
  struct omma_sampling sampling = source->fields->sampling;
  struct omma_error cause = {0};
  size_t n_tokens = 0;
  sampling.seed += (uint64_t)repeat;
  sampling.prompt_logprobs &= repeat == 0 || answer->echo_logprobs;
  enum omma_status status = repeat ? omma_request_copy(choice[-repeat].request, &sampling, &choice->request, &cause)
                                   : source->make_request(source->context, prompt, &sampling, &choice->request, &cause);
  if (status != OMMA_OK) {
    ommai_api_fail_from(error, &cause);
    if (error->status == 500) ommai_server_log(answer->call->config, "preparing a request", &cause);
    return false;
  }
  omma_request_prompt(choice->request, &n_tokens);
  if (repeat == 0) answer->n_prompt_tokens += (int64_t)n_tokens;
  return check_length(answer, source->fields, (int64_t)n_tokens, error) && list_prompt(answer, choice, error) &&
         begin_logprobs(answer, choice, error) &&
         (!source->echo || source->echo(source->context, prompt, &choice->text, error));
}

/* Makes every choice's request ready. */
static bool make_requests(struct answer *answer, const struct ommai_answer_source *source, struct ommai_api_error *error) {
  for (int i = 0; i < answer->n_choices; i++) {
    if (ommai_http_call_is_gone(answer->call)) return true;
    if (!make_request(answer, source, &answer->choices[i], error)) return false;
  }
  return true;
}

/* Images are decoded and resized before their request is queued, by a worker: what the engine does
 * meanwhile shows that. */
static void count_images(const struct ommai_answer_source *source, struct ommai_server *server) {
  struct omma_engine_stats stats;
  if (source->n_images == 0) return;
  omma_engine_get_stats(server->engine, &stats);
  if (stats.n_running) ommai_metrics_count_prepared_ahead(&server->metrics, source->n_images);
}

/* Everything that the callbacks read is set before the first submit. */
static void submit_all(struct answer *answer) {
  struct ommai_http_call *call = answer->call;
  bool progress = answer->stream && answer->own.progress;
  answer->head.prompt_tokens = answer->n_prompt_tokens;
  /* before the first token; what fails from here on fails in the stream */
  if (progress) push_images(answer);
  for (int i = 0; i < answer->n_choices; i++) {
    struct omma_callbacks callbacks = {.context = &answer->choices[i], .on_token = on_token, .on_finish = on_finish};
    struct omma_error cause = {0};
    uint64_t id = 0;
    if (answer->prompt_logprobs) callbacks.on_prompt_token = on_prompt_token;
    if (i == 0) callbacks.on_progress = on_progress;
    atomic_fetch_add(&answer->references, 1);
    if (omma_engine_submit(call->server->engine, answer->choices[i].request, &callbacks, &id, &cause) != OMMA_OK) {
      atomic_fetch_sub(&answer->references, 1); /* not the last: the worker holds one */
      fail_from(answer, "submitting a request", &cause);
      ommai_http_call_cancel_engine(call);
      return;
    }
    ommai_http_call_add_engine_id(call, id);
  }
  if (answer->stream) ommai_http_call_expect_stream(call);
}

static bool init_choices(struct answer *answer, const struct ommai_tool_request *tools) {
  bool good = true;
  for (int i = 0; i < OMMAI_MAX_CHOICES; i++) {
    struct choice *choice = &answer->choices[i];
    enum ommai_tool_format format = tools && i < answer->n_choices ? tools->format : OMMAI_TOOLS_NONE;
    good &= ommai_tool_parser_init(&choice->tools, format, tools ? tools->name : NULL, answer->allocator);
    choice->answer = answer;
    choice->index = i;
    ommai_text_init(&choice->text, answer->allocator);
    ommai_text_init(&choice->reasoning, answer->allocator);
    ommai_text_init(&choice->token_ids, answer->allocator);
    ommai_text_init(&answer->prompt_ids[i], answer->allocator);
    ommai_text_init(&answer->prompt_scores[i], answer->allocator);
    for (int j = 0; j < OMMAI_LOGPROB_LISTS; j++) ommai_text_init(&choice->logprobs.lists[j], answer->allocator);
    ommai_text_init(&choice->stop_string, answer->allocator);
  }
  return good;
}

/* What the request asks of the reply. The answer's head is set. */
static void copy_settings(struct answer *answer, const struct ommai_answer_source *source) {
  const struct ommai_answer_fields *fields = source->fields;
  answer->stream = fields->stream;
  answer->include_usage = fields->include_usage || source->format->as_items;
  answer->continuous_usage = fields->include_usage && fields->continuous_usage;
  answer->logprobs = fields->sampling.logprobs;
  answer->shows_reasoning = fields->shows_reasoning;
  answer->token_ids = fields->return_token_ids;
  answer->prompt_logprobs = fields->sampling.prompt_logprobs;
  answer->echo_logprobs = source->echo_logprobs;
  answer->prompt_only = source->prompt_only;
  answer->n_top = fields->sampling.n_top_logprobs;
  answer->own = fields->own;
  answer->max_tokens = fields->sampling.max_tokens;
  answer->n_stop_token_ids = fields->sampling.n_stop_token_ids;
  memcpy(answer->stop_token_ids, fields->stop_token_ids, sizeof answer->stop_token_ids);
  answer->has_tools = source->tools && source->tools->format != OMMAI_TOOLS_NONE;
  answer->head.has_tools = answer->has_tools;
}

/* Copies what is needed after the JSON is gone. */
static struct answer *make_answer(struct ommai_http_call *call, const struct ommai_answer_source *source) {
  struct ommai_server *server = call->server;
  const struct ommai_answer_fields *fields = source->fields;
  struct answer *answer = ommai_allocate(server->config.allocator, 1, sizeof *answer);
  if (!answer) return NULL;
  ommai_http_call_retain(call);
  answer->call = call;
  answer->allocator = server->config.allocator;
  answer->n_per_prompt = (int)fields->n;
  answer->n_choices = source->n_prompts * answer->n_per_prompt;
  answer->n_images = source->n_images;
  answer->decode_image = call->access.decode_image;
  atomic_init(&answer->references, 1);
  atomic_init(&answer->n_open, answer->n_choices);
  const char *model = fields->model ? fields->model : server->config.model_names[0];
  answer->model = ommai_duplicate(server->config.allocator, model, strlen(model));
  bool own_id = !call->id_given && fields->request_id && strlen(fields->request_id) < OMMAI_REQUEST_ID_SIZE;
  snprintf(answer->id, sizeof answer->id, "%s%s", source->format->id_prefix, own_id ? fields->request_id : call->request_id);
  answer->format = source->format;
  answer->head = (struct ommai_reply_head){.id = answer->id,
                                           .created = (int64_t)time(NULL),
                                           .model = answer->model,
                                           .request_fields = &answer->request_fields,
                                           .state = &answer->reply_state,
                                           .has_thoughts = fields->sampling.reasoning != NULL};
  copy_settings(answer, source);
  ommai_text_init(&answer->images, server->config.allocator);
  ommai_text_init(&answer->request_fields, server->config.allocator);
  ommai_reply_state_init(&answer->reply_state, server->config.allocator);
  const struct ommai_text *repeated = source->request_fields;
  if (repeated) ommai_text_append(&answer->request_fields, repeated->data, repeated->size);
  if (source->add_images && (fields->own.details || fields->own.progress)) source->add_images(source->context, &answer->images);
  if (init_choices(answer, source->tools) && answer->model && !answer->request_fields.failed) return answer;
  free_answer(answer);
  return NULL;
}

void ommai_answer_begin(struct ommai_http_call *call, const struct ommai_answer_source *source) {
  struct ommai_api_error error;
  struct answer *answer = make_answer(call, source);
  if (!answer) {
    ommai_api_fail_memory(&error);
    ommai_http_call_fail(call, &error);
    return;
  }
  ommai_request_log(call, source->fields, source->n_images);
  if (!make_requests(answer, source, &error)) {
    ommai_http_call_fail(call, &error);
  } else if (!ommai_http_call_is_gone(call)) {
    count_images(source, call->server);
    submit_all(answer);
  }
  release_answer(answer);
}
