#include "server/api/answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/allocator.h"
#include "server/api/answer_object.h"
#include "server/api/request_log.h"
#include "server/state/server_state.h"

/* Prompt and answer must fit together; the engine checks the prompt alone. */
static bool check_length(const struct ommai_call_answer *answer, const struct ommai_answer_fields *fields,
                         int64_t n_prompt_tokens, struct ommai_api_error *error) {
  int64_t limit = answer->call->server->config.info.max_model_len, wanted = fields->sampling.max_tokens;
  if (fields->default_max_tokens && fields->sampling.min_tokens > limit - n_prompt_tokens) {
    return ommai_api_fail(error, 400, "min_tokens",
                          "min_tokens must be at most %" PRId64 ", what the context of %" PRId64
                          " tokens leaves after your %" PRId64 " input tokens, got %" PRId64 ".",
                          limit - n_prompt_tokens, limit, n_prompt_tokens, fields->sampling.min_tokens);
  }
  if (fields->default_max_tokens || wanted <= limit - n_prompt_tokens) return true;
  return ommai_api_fail(error, 400, fields->max_tokens_field,
                        "%s is too large: %" PRId64 ". This model's maximum context length is %" PRId64
                        " tokens and your request has %" PRId64 " input tokens (%" PRId64 " > %" PRId64 " - %" PRId64 ").",
                        fields->max_tokens_field, wanted, limit, n_prompt_tokens, wanted, limit, n_prompt_tokens);
}

/* The ids of a prompt, for all its choices. */
static bool list_prompt(struct ommai_call_answer *answer, struct ommai_answer_choice *choice, struct ommai_api_error *error) {
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
static bool begin_logprobs(const struct ommai_call_answer *answer, struct ommai_answer_choice *choice,
                           struct ommai_api_error *error) {
  size_t n;
  const int32_t *ids = omma_request_prompt(choice->request, &n);
  struct ommai_text *scores = ommai_answer_choice_prompt_scores(choice);
  if (scores && n == 1 && !scores->size) ommai_put_null(scores, NULL);
  if (answer->echo_logprobs) answer->format->add_unscored(&choice->logprobs, answer->call->server->config.model, ids[0]);
  return !ommai_answer_choice_failed(choice) || ommai_api_fail_memory(error);
}

/* A prompt is prepared once: its further choices share it. */
static bool make_request(struct ommai_call_answer *answer, const struct ommai_answer_source *source,
                         struct ommai_answer_choice *choice, struct ommai_api_error *error) {
  int n = (int)source->fields->n, prompt = choice->index / n, repeat = choice->index % n;
  struct omma_sampling sampling = source->fields->sampling;
  struct omma_error cause = {0};
  size_t n_tokens = 0;
  sampling.seed += (uint64_t)repeat;
  sampling.prompt_logprobs &= repeat == 0 || answer->echo_logprobs;
  enum omma_status status = repeat ? omma_request_copy(choice[-repeat].request, &sampling, &choice->request, &cause)
                                   : source->make_request(source->context, prompt, &sampling, &choice->request, &cause);
  if (status != OMMA_OK) return ommai_server_fail(answer->call->config, "preparing a request", &cause, error);
  omma_request_prompt(choice->request, &n_tokens);
  if (repeat == 0) answer->n_prompt_tokens += (int64_t)n_tokens;
  return check_length(answer, source->fields, (int64_t)n_tokens, error) && list_prompt(answer, choice, error) &&
         begin_logprobs(answer, choice, error) &&
         (!source->echo || source->echo(source->context, prompt, &choice->text, error));
}

/* Makes every choice's request ready. */
static bool make_requests(struct ommai_call_answer *answer, const struct ommai_answer_source *source,
                          struct ommai_api_error *error) {
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
  if (stats.n_running) ommai_metrics_count(&server->metrics, OMMAI_IMAGES_PREPARED_AHEAD, source->n_images);
}

/* Everything that the callbacks read is set before the first submit. */
static void submit_all(struct ommai_call_answer *answer) {
  struct ommai_http_call *call = answer->call;
  bool progress = answer->stream && answer->own.progress;
  answer->head.prompt_tokens = answer->n_prompt_tokens;
  /* before the first token; what fails from here on fails in the stream */
  if (progress) ommai_call_answer_push_images(answer);
  for (int i = 0; i < answer->n_choices; i++) {
    const struct omma_callbacks callbacks = ommai_answer_choice_callbacks(&answer->choices[i]);
    struct omma_error cause = {0};
    uint64_t id = 0;
    atomic_fetch_add(&answer->references, 1);
    if (omma_engine_submit(call->server->engine, answer->choices[i].request, &callbacks, &id, &cause) != OMMA_OK) {
      atomic_fetch_sub(&answer->references, 1); /* not the last: the worker holds one */
      ommai_http_call_fail_from(call, "submitting a request", &cause);
      ommai_http_call_cancel_engine(call);
      return;
    }
    ommai_http_call_add_engine_id(call, id);
  }
  if (answer->stream) ommai_http_call_expect_stream(call);
}

/* What the request asks of the reply. The answer's head is set. */
static void copy_settings(struct ommai_call_answer *answer, const struct ommai_answer_source *source) {
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
static struct ommai_call_answer *make_answer(struct ommai_http_call *call, const struct ommai_answer_source *source) {
  struct ommai_server *server = call->server;
  const struct ommai_answer_fields *fields = source->fields;
  struct ommai_call_answer *answer = ommai_allocate(server->config.allocator, 1, sizeof *answer);
  if (!answer) return NULL;
  ommai_http_call_retain(call);
  answer->call = call;
  answer->allocator = server->config.allocator;
  answer->n_per_prompt = (int)fields->n;
  answer->n_choices = source->n_prompts * answer->n_per_prompt;
  answer->n_images = source->n_images;
  atomic_init(&answer->references, 1);
  atomic_init(&answer->n_open, answer->n_choices);
  bool own_id = !call->id_given && fields->request_id && strlen(fields->request_id) < OMMAI_REQUEST_ID_SIZE;
  snprintf(answer->id, sizeof answer->id, "%s%s", source->format->id_prefix, own_id ? fields->request_id : call->request_id);
  answer->format = source->format;
  answer->head = (struct ommai_reply_head){.id = answer->id,
                                           .created = (int64_t)time(NULL),
                                           .model = fields->model,
                                           .request_fields = &answer->request_fields,
                                           .state = &answer->reply_state,
                                           .has_reasoning = fields->sampling.reasoning != NULL};
  copy_settings(answer, source);
  answer->images = ommai_text_of(server->config.allocator);
  answer->request_fields = ommai_text_of(server->config.allocator);
  ommai_reply_state_init(&answer->reply_state, server->config.allocator);
  const struct ommai_text *repeated = source->request_fields;
  if (repeated) ommai_text_append(&answer->request_fields, repeated->data, repeated->size);
  if (source->add_images && (fields->own.details || fields->own.progress)) source->add_images(source->context, &answer->images);
  if (ommai_call_answer_init_choices(answer, source->tools) && !answer->request_fields.failed) return answer;
  ommai_call_answer_free(answer);
  return NULL;
}

bool ommai_answer_begin(struct ommai_http_call *call, const struct ommai_answer_source *source, struct ommai_api_error *error) {
  struct ommai_call_answer *answer = make_answer(call, source);
  if (!answer) return ommai_api_fail_memory(error);
  ommai_request_log(call, source->fields, source->n_images);
  bool good = make_requests(answer, source, error);
  if (good && !ommai_http_call_is_gone(call)) {
    count_images(source, call->server);
    submit_all(answer);
  }
  ommai_call_answer_release(answer);
  return good;
}
