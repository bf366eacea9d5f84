/* POST /v1/chat/completions: from the JSON to requests of the engine, and from its callbacks to the reply.
 *
 * One chat holds one exchange and up to OMMAI_MAX_CHOICES requests, choice i drawn with seed + i. The worker that makes it and every
 * submitted request hold a reference; the last reference, wherever it is dropped, hands the chat to a worker to be freed.
 * Choices are touched by the worker until they are submitted and by the engine's thread afterwards. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "server/chat_reply.h"
#include "server/chat_request.h"
#include "server/endpoints.h"
#include "server/request_json.h"
#include "server/server_state.h"

#define ID_PREFIX "chatcmpl-"

struct chat;

struct choice {
  struct chat *chat;
  int index;
  struct omma_request *request;
  bool begun;                       /* its role event is out */
  struct ommai_text text, logprobs; /* not sent: the last token's of a stream, else everything */
  int64_t n_tokens;
  int64_t first_token_ns, last_token_ns; /* since the request arrived */
  struct ommai_text stop_string;
  int32_t stop_token;
  enum omma_finish finish;
};

struct chat {
  struct ommai_job job; /* that frees it; first */
  struct ommai_exchange *exchange;
  const struct omma_allocator *allocator;
  atomic_int references;
  atomic_int n_open; /* choices without an end */
  char id[sizeof ID_PREFIX + OMMAI_REQUEST_ID_SIZE];
  char *model;
  struct ommai_reply_head head;
  bool stream, include_usage, continuous_usage, logprobs;
  int32_t stop_token_ids[OMMAI_MAX_STOP_TOKENS];
  size_t n_stop_token_ids;
  int64_t n_prompt_tokens;
  int n_choices;
  struct choice choices[OMMAI_MAX_CHOICES];
};

static void free_chat(struct chat *chat) {
  if (!chat) return;
  for (int i = 0; i < OMMAI_MAX_CHOICES; i++) {
    struct choice *choice = &chat->choices[i];
    omma_request_destroy(choice->request);
    ommai_text_free(&choice->text);
    ommai_text_free(&choice->logprobs);
    ommai_text_free(&choice->stop_string);
  }
  if (chat->model) ommai_release(chat->allocator, chat->model, strlen(chat->model) + 1, 1);
  ommai_exchange_release(chat->exchange);
  ommai_release(chat->allocator, chat, 1, sizeof *chat);
}

static void free_chat_job(struct ommai_job *job) { free_chat((struct chat *)job); }

/* Freeing returns a picture's megabytes to the system, which takes time that the engine's thread has better use for. */
static void release_chat(struct chat *chat) {
  if (atomic_fetch_sub(&chat->references, 1) != 1) return;
  chat->job.run = free_chat_job;
  ommai_job_queue_push_urgent(chat->exchange->server->jobs, &chat->job);
}

static void fail_from(struct chat *chat, const char *what, const struct omma_error *cause) {
  struct ommai_api_error error;
  ommai_api_fail_from(&error, cause);
  if (error.status == 500) ommai_server_log(chat->exchange->server, what, cause);
  ommai_exchange_fail(chat->exchange, &error);
}

static struct ommai_reply_part part_of(const struct choice *choice) {
  struct ommai_reply_part part = {.index = choice->index, .text = choice->text.data, .text_size = choice->text.size};
  if (choice->chat->logprobs) {
    part.logprobs = choice->logprobs.data ? choice->logprobs.data : "";
    part.logprobs_size = choice->logprobs.size;
  }
  part.stop_token = -1;
  return part;
}

/* Like part_of, for a choice that has ended. */
static struct ommai_reply_part last_part_of(const struct choice *choice) {
  struct ommai_reply_part part = part_of(choice);
  part.finish_reason = ommai_finish_reason(choice->finish);
  part.stop_token = choice->stop_token;
  part.stop_string = choice->stop_string.size ? choice->stop_string.data : NULL;
  return part;
}

static struct ommai_usage usage_of(const struct chat *chat) {
  struct ommai_usage usage = {.prompt_tokens = chat->n_prompt_tokens};
  for (int i = 0; i < chat->n_choices; i++) usage.completion_tokens += chat->choices[i].n_tokens;
  return usage;
}

/* Sends what `out` holds as one event and frees it. */
static bool push_event(struct chat *chat, struct ommai_text *out) {
  bool pushed = !out->failed && ommai_exchange_push(chat->exchange, out->data, out->size);
  ommai_text_free(out);
  return pushed;
}

static bool push_role(struct choice *choice) {
  struct chat *chat = choice->chat;
  struct ommai_usage usage = {.prompt_tokens = chat->n_prompt_tokens};
  struct ommai_text out;
  if (choice->begun) return true;
  choice->begun = true;
  ommai_text_init(&out, chat->allocator);
  ommai_reply_role_event(&out, &chat->head, choice->index, chat->continuous_usage ? &usage : NULL);
  return push_event(chat, &out);
}

static bool push_delta(struct choice *choice, const struct ommai_reply_part *part) {
  struct chat *chat = choice->chat;
  struct ommai_usage usage = {.prompt_tokens = chat->n_prompt_tokens, .completion_tokens = choice->n_tokens};
  struct ommai_text out;
  ommai_text_init(&out, chat->allocator);
  ommai_reply_delta_event(&out, &chat->head, part, chat->continuous_usage ? &usage : NULL);
  return push_event(chat, &out);
}

/* Keeps a token's text and log-probabilities in the choice. */
static bool gather(struct choice *choice, const struct omma_token_event *event) {
  ommai_text_append(&choice->text, event->text, event->text_size);
  if (choice->chat->logprobs) {
    if (choice->logprobs.size) ommai_text_add(&choice->logprobs, ",");
    ommai_reply_logprob(&choice->logprobs, choice->chat->exchange->server->model, event);
  }
  return !choice->text.failed && !choice->logprobs.failed;
}

static void measure_token(struct choice *choice, int64_t index) {
  struct ommai_exchange *exchange = choice->chat->exchange;
  int64_t now = ommai_clock_ns() - exchange->created_ns;
  if (index == 0) {
    choice->first_token_ns = now;
    ommai_metrics_observe(&exchange->server->metrics, OMMAI_TIME_TO_FIRST_TOKEN, (double)now * 1e-9);
  } else {
    ommai_metrics_observe(&exchange->server->metrics, OMMAI_INTER_TOKEN_LATENCY, (double)(now - choice->last_token_ns) * 1e-9);
  }
  choice->last_token_ns = now;
}

/* A stream sends each token as it comes, but for the last: its event carries the reasons of the end, known to on_finish alone. */
static bool on_token(void *context, const struct omma_token_event *event) {
  struct choice *choice = context;
  struct chat *chat = choice->chat;
  choice->n_tokens = event->index + 1;
  measure_token(choice, event->index);
  if (!chat->stream) return gather(choice, event) && !ommai_exchange_is_gone(chat->exchange);
  if (!push_role(choice) || !gather(choice, event)) return false;
  if (event->last) return true;
  struct ommai_reply_part part = part_of(choice);
  bool pushed = push_delta(choice, &part);
  choice->text.size = 0;
  choice->logprobs.size = 0;
  return pushed;
}

/* Vocabulary's own end markers are no stop reason; those that the request named are. */
static int32_t stop_reason_token(const struct chat *chat, int32_t token) {
  for (size_t i = 0; i < chat->n_stop_token_ids; i++) {
    if (chat->stop_token_ids[i] == token) return token;
  }
  return -1;
}

static void take_end(struct choice *choice, const struct omma_result *result) {
  choice->finish = result->finish;
  choice->n_tokens = result->n_completion_tokens;
  choice->stop_token = stop_reason_token(choice->chat, result->stop_token);
  if (result->stop_string) ommai_text_append(&choice->stop_string, result->stop_string, strlen(result->stop_string) + 1);
}

static bool finish_stream(struct chat *chat) {
  struct ommai_usage usage = usage_of(chat);
  struct ommai_text out;
  if (chat->include_usage) {
    ommai_text_init(&out, chat->allocator);
    ommai_reply_usage_event(&out, &chat->head, &usage);
    if (!push_event(chat, &out)) return false;
  }
  ommai_exchange_end(chat->exchange);
  return true;
}

static void finish_whole(struct chat *chat) {
  struct ommai_usage usage = usage_of(chat);
  struct ommai_reply_part parts[OMMAI_MAX_CHOICES];
  struct ommai_text out;
  for (int i = 0; i < chat->n_choices; i++) parts[i] = last_part_of(&chat->choices[i]);
  ommai_text_init(&out, chat->allocator);
  ommai_reply_whole(&out, &chat->head, parts, chat->n_choices, &usage);
  ommai_exchange_reply(chat->exchange, 200, "application/json", &out);
}

/* The first choice that ends badly fails the whole request and stops the other choices. */
static void fail_chat(struct chat *chat, const struct omma_result *result) {
  static const struct omma_error cancelled = {.status = OMMA_ERROR_CANCELLED};
  fail_from(chat, "generation", result->finish == OMMA_FINISH_ERROR ? &result->error : &cancelled);
  ommai_exchange_cancel_engine(chat->exchange);
}

static void on_finish(void *context, const struct omma_result *result) {
  struct choice *choice = context;
  struct chat *chat = choice->chat;
  take_end(choice, result);
  ommai_metrics_finish(&chat->exchange->server->metrics, result, (double)(ommai_clock_ns() - chat->exchange->created_ns) * 1e-9,
                       (double)choice->first_token_ns * 1e-9);
  bool good = ommai_finish_reason(result->finish) && !choice->stop_string.failed;
  if (good && chat->stream) {
    struct ommai_reply_part part = last_part_of(choice);
    good = push_role(choice) && push_delta(choice, &part);
  }
  bool all_over = atomic_fetch_sub(&chat->n_open, 1) == 1;
  if (good && all_over) {
    if (chat->stream) {
      good = finish_stream(chat);
    } else {
      finish_whole(chat);
    }
  }
  if (!good) fail_chat(chat, result);
  release_chat(chat);
}

/* Prompt and answer must fit together; the engine checks the prompt alone. */
static bool check_length(struct chat *chat, const struct ommai_chat_request *source, struct ommai_api_error *error) {
  int64_t limit = chat->exchange->server->info.max_model_len, wanted = source->options.sampling.max_tokens;
  if (wanted <= limit - chat->n_prompt_tokens) return true;
  return ommai_api_fail(error, 400, source->max_tokens_field,
                        "%s is too large: %" PRId64 ". This model's maximum context length is %" PRId64
                        " tokens and your request has %" PRId64 " input tokens (%" PRId64 " > %" PRId64 " - %" PRId64 ").",
                        source->max_tokens_field, wanted, limit, chat->n_prompt_tokens, wanted, limit, chat->n_prompt_tokens);
}

/* Makes every choice's request ready. */
static bool make_requests(struct chat *chat, struct ommai_chat_request *source, struct ommai_api_error *error) {
  struct ommai_server *server = chat->exchange->server;
  for (int i = 0; i < chat->n_choices; i++) {
    struct choice *choice = &chat->choices[i];
    struct omma_error cause = {0};
    if (ommai_exchange_is_gone(chat->exchange)) return true;
    if (omma_request_create(server->model, source->messages, source->n_messages, &source->options, &choice->request, &cause) !=
        OMMA_OK) {
      ommai_api_fail_from(error, &cause);
      if (error->status == 500) ommai_server_log(server, "preparing a request", &cause);
      return false;
    }
    size_t n_tokens = 0;
    omma_request_prompt(choice->request, &n_tokens);
    chat->n_prompt_tokens = (int64_t)n_tokens;
    if (!check_length(chat, source, error)) return false;
    source->options.sampling.seed++;
  }
  return true;
}

/* Everything that the callbacks read is set before the first submit. */
static void submit_all(struct chat *chat) {
  struct ommai_exchange *exchange = chat->exchange;
  for (int i = 0; i < chat->n_choices; i++) {
    struct omma_callbacks callbacks = {.context = &chat->choices[i], .on_token = on_token, .on_finish = on_finish};
    struct omma_error cause = {0};
    uint64_t id = 0;
    atomic_fetch_add(&chat->references, 1);
    if (omma_engine_submit(exchange->server->engine, chat->choices[i].request, &callbacks, &id, &cause) != OMMA_OK) {
      atomic_fetch_sub(&chat->references, 1); /* not the last: the worker holds one */
      fail_from(chat, "submitting a request", &cause);
      ommai_exchange_cancel_engine(exchange);
      return;
    }
    ommai_exchange_add_engine_id(exchange, id);
  }
  if (chat->stream) ommai_exchange_expect_stream(exchange);
}

/* Copies what is needed after the JSON is gone. */
static struct chat *make_chat(struct ommai_exchange *exchange, const struct ommai_chat_request *source) {
  struct ommai_server *server = exchange->server;
  struct chat *chat = ommai_allocate(server->allocator, 1, sizeof *chat);
  if (!chat) return NULL;
  ommai_exchange_retain(exchange);
  chat->exchange = exchange;
  chat->allocator = server->allocator;
  chat->n_choices = (int)source->n;
  atomic_init(&chat->references, 1);
  atomic_init(&chat->n_open, chat->n_choices);
  const char *model = source->model ? source->model : server->model_names[0];
  chat->model = ommai_duplicate(server->allocator, model, strlen(model));
  bool own_id = !exchange->id_given && source->request_id && strlen(source->request_id) < OMMAI_REQUEST_ID_SIZE;
  snprintf(chat->id, sizeof chat->id, ID_PREFIX "%s", own_id ? source->request_id : exchange->request_id);
  chat->head = (struct ommai_reply_head){.id = chat->id, .created = (int64_t)time(NULL), .model = chat->model};
  chat->stream = source->stream;
  chat->include_usage = source->include_usage;
  chat->continuous_usage = source->include_usage && source->continuous_usage;
  chat->logprobs = source->options.sampling.logprobs;
  chat->n_stop_token_ids = source->options.sampling.n_stop_token_ids;
  memcpy(chat->stop_token_ids, source->stop_token_ids, sizeof chat->stop_token_ids);
  for (int i = 0; i < OMMAI_MAX_CHOICES; i++) {
    struct choice *choice = &chat->choices[i];
    choice->chat = chat;
    choice->index = i;
    ommai_text_init(&choice->text, server->allocator);
    ommai_text_init(&choice->logprobs, server->allocator);
    ommai_text_init(&choice->stop_string, server->allocator);
  }
  if (chat->model) return chat;
  free_chat(chat);
  return NULL;
}

static bool client_is_gone(void *exchange) { return ommai_exchange_is_gone(exchange); }

static void answer(struct ommai_exchange *exchange, struct ommai_chat_request *source) {
  struct ommai_api_error error;
  struct chat *chat = make_chat(exchange, source);
  if (!chat) {
    ommai_api_fail(&error, 503, NULL, "The server has no memory for this request now.");
    ommai_exchange_fail(exchange, &error);
    return;
  }
  if (!make_requests(chat, source, &error)) {
    ommai_exchange_fail(exchange, &error);
  } else if (!ommai_exchange_is_gone(exchange)) {
    submit_all(chat);
  }
  release_chat(chat);
}

void ommai_endpoint_chat(struct ommai_exchange *exchange) {
  struct ommai_api_error error;
  struct ommai_chat_request source;
  json_t *root = ommai_request_parse(exchange->body.data, exchange->body.size, &error);
  ommai_server_release_body(exchange);
  if (!root) {
    ommai_exchange_fail(exchange, &error);
    return;
  }
  if (ommai_chat_request_read(exchange->server, root, false, &source, &error) &&
      ommai_chat_request_load_images(exchange->server, &source, client_is_gone, exchange, &error)) {
    if (!ommai_exchange_is_gone(exchange)) answer(exchange, &source);
  } else {
    ommai_exchange_fail(exchange, &error);
  }
  ommai_chat_request_destroy(&source);
}
