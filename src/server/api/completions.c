/* POST /v1/completions: prompts as text or as token ids, without chat template and images. */
#include <inttypes.h>

#include "base/allocator.h"
#include "base/json.h"
#include "server/api/answer.h"
#include "server/api/grammar_job.h"
#include "server/api/other_requests.h"
#include "server/api/token_fields.h"
#include "server/core/field_value.h"
#include "server/core/request_json.h"
#include "server/http/endpoints.h"
#include "server/http/http_call.h"
#include "server/state/server_state.h"

#define DEFAULT_MAX_TOKENS 16 /* as OpenAI's interface defines */

struct prompt {
  int32_t *tokens; /* [n_tokens] */
  size_t n_tokens;
  size_t first, n_kept; /* of the tokens: what truncate_prompt_tokens leaves */
};

struct completion {
  struct ommai_server *server;
  struct ommai_answer_fields fields;
  bool echo, prompt_only;
  struct prompt prompts[OMMAI_MAX_CHOICES];
  int n_prompts;
};

/* What is known and cannot be honoured, unless it changes nothing. */
static bool refuse_suffix(const json_t *root, struct ommai_api_error *error) {
  const char *suffix = NULL;
  if (!ommai_field_string(root, "suffix", &suffix, error)) return false;
  return !suffix || !suffix[0] || ommai_api_fail(error, 400, "suffix", "suffix is not supported.");
}

static bool refuse_budget(const json_t *root, struct ommai_api_error *error) {
  int64_t budget = -1;
  if (!ommai_field_integer(root, "thinking_token_budget", -1, INT32_MAX, &budget, error)) return false;
  return budget < 0 || ommai_api_fail(error, 400, "thinking_token_budget",
                                      "thinking_token_budget is supported by /v1/chat/completions, which separates reasoning.");
}

/* A number of likeliest tokens, where the chat has two fields. */
static bool read_logprobs(const json_t *root, bool echo, struct omma_sampling *sampling, struct ommai_api_error *error) {
  int64_t n_top = 0;
  if (!ommai_field_integer(root, "logprobs", 0, OMMA_MAX_TOP_LOGPROBS, &n_top, error)) return false;
  sampling->logprobs = ommai_field_get(root, "logprobs") != NULL;
  sampling->n_top_logprobs = (int)n_top;
  if (!sampling->logprobs || !echo || sampling->prompt_logprobs) return true;
  sampling->prompt_logprobs = true; /* as vLLM: those of the prompt come with those of the answer */
  sampling->n_prompt_logprobs = (int)n_top;
  return true;
}

static struct prompt *next_prompt(struct completion *completion, struct ommai_api_error *error) {
  if (completion->n_prompts * completion->fields.n + completion->fields.n <= OMMAI_MAX_CHOICES) {
    return &completion->prompts[completion->n_prompts++];
  }
  ommai_api_fail(error, 400, "prompt", "At most %d answers are given to one request: prompts times n.", OMMAI_MAX_CHOICES);
  return NULL;
}

static bool truncate(const struct completion *completion, struct prompt *prompt) {
  const struct omma_truncation *truncation = &completion->fields.truncation;
  size_t max_tokens = truncation->n_tokens ? (size_t)truncation->n_tokens : prompt->n_tokens;
  prompt->n_kept = prompt->n_tokens < max_tokens ? prompt->n_tokens : max_tokens;
  prompt->first = truncation->keep_first ? 0 : prompt->n_tokens - prompt->n_kept;
  return true;
}

static bool add_ids(struct completion *completion, const json_t *array, struct ommai_api_error *error) {
  struct prompt *prompt = next_prompt(completion, error);
  return prompt &&
         ommai_token_array_read(&completion->server->config, array, "prompt", &prompt->tokens, &prompt->n_tokens, error) &&
         truncate(completion, prompt);
}

static bool add_text(struct completion *completion, const json_t *text, struct ommai_api_error *error) {
  struct prompt *prompt = next_prompt(completion, error);
  /* and one token of an answer */
  size_t max_tokens = (size_t)completion->server->config.info.max_model_len - 1;
  if (completion->fields.truncation.n_tokens) max_tokens = OMMA_MAX_TRUNCATED_TOKENS;
  return prompt &&
         ommai_text_tokenize(&completion->server->config, text, max_tokens, &prompt->tokens, &prompt->n_tokens, error) &&
         truncate(completion, prompt);
}

/* A text, ids, or a list of either. */
static bool read_prompts(struct completion *completion, const json_t *root, struct ommai_api_error *error) {
  const json_t *prompt = ommai_field_get(root, "prompt"), *first = json_array_get(prompt, 0);
  if (!prompt) return ommai_api_fail_body(error, "body.prompt", "Field required: prompt.");
  if (ommai_json_is_text(prompt)) return add_text(completion, prompt, error);
  if (!json_is_array(prompt)) {
    return ommai_api_fail(error, 400, "prompt", "prompt must be a string or an array, got %s.", ommai_json_kind(prompt));
  }
  if (!ommai_json_is_text(first) && !json_is_array(first)) return add_ids(completion, prompt, error);
  for (size_t i = 0; i < json_array_size(prompt); i++) {
    const json_t *item = json_array_get(prompt, i);
    if (json_typeof(item) != json_typeof(first)) {
      return ommai_api_fail(error, 400, "prompt", "prompt[%zu] must be %s like the first, got %s.", i, ommai_json_kind(first),
                            ommai_json_kind(item));
    }
    if (!(ommai_json_is_text(item) ? add_text : add_ids)(completion, item, error)) return false;
  }
  return true;
}

/* With echo, max_tokens of 0 asks for the prompt alone: its text and its log-probabilities. One
 * token is generated all the same and left out, as vLLM does. */
static bool read_echo(struct completion *completion, json_t *root, struct ommai_api_error *error) {
  const json_t *max_tokens = json_object_get(root, "max_tokens");
  int64_t limit;
  if (!ommai_field_boolean(root, "echo", &completion->echo, error)) return false;
  completion->prompt_only = completion->echo && ommai_value_integer(max_tokens, &limit) && limit == 0;
  return !completion->prompt_only || !json_object_set_new(root, "max_tokens", json_integer(1)) || ommai_api_fail_memory(error);
}

static bool read_completion(struct completion *completion, json_t *root, struct ommai_api_error *error) {
  struct ommai_answer_fields *fields = &completion->fields;
  return read_echo(completion, root, error) &&
         ommai_answer_fields_read(completion->server, root, DEFAULT_MAX_TOKENS, fields, error) && refuse_suffix(root, error) &&
         refuse_budget(root, error) && read_logprobs(root, completion->echo, &fields->sampling, error) &&
         read_prompts(completion, root, error);
}

static enum omma_status make_request(const void *context, int index, const struct omma_sampling *sampling,
                                     struct omma_request **request, struct omma_error *error) {
  const struct completion *completion = context;
  const struct prompt *prompt = &completion->prompts[index];
  struct omma_request_options options = {.sampling = *sampling,
                                         .max_model_len = omma_engine_max_model_len(completion->server->engine),
                                         .priority = completion->fields.priority,
                                         .whole = !completion->fields.stream,
                                         .cache_salt = completion->fields.cache_salt};
  return omma_request_create_tokens(completion->server->config.model, prompt->tokens + prompt->first, prompt->n_kept, &options,
                                    request, error);
}

static bool add_prompt_text(const void *context, int index, struct ommai_text *out, struct ommai_api_error *error) {
  const struct completion *completion = context;
  const struct prompt *prompt = &completion->prompts[index];
  return ommai_token_text_add(&completion->server->config, prompt->tokens + prompt->first, prompt->n_kept, out, error);
}

static void free_completion(struct completion *completion) {
  for (int i = 0; i < completion->n_prompts; i++) {
    struct prompt *prompt = &completion->prompts[i];
    ommai_release(completion->server->config.allocator, prompt->tokens, prompt->n_tokens, sizeof *prompt->tokens);
  }
  ommai_answer_fields_free(completion->server, &completion->fields);
}

static bool begin(struct ommai_http_call *call, json_t *root, struct ommai_api_error *error) {
  struct completion completion = {.server = call->server};
  bool good = read_completion(&completion, root, error);
  if (good) {
    /* as vLLM: then the ids are the echo */
    bool echoes_text = completion.echo && !completion.fields.return_token_ids;
    struct ommai_answer_source source = {.fields = &completion.fields,
                                         .format = &ommai_completion_reply_format,
                                         .n_prompts = completion.n_prompts,
                                         .make_request = make_request,
                                         .echo = echoes_text ? add_prompt_text : NULL,
                                         .prompt_only = completion.prompt_only,
                                         .echo_logprobs = completion.echo && completion.fields.sampling.logprobs,
                                         .context = &completion};
    good = ommai_answer_begin(call, &source, error);
  }
  free_completion(&completion);
  return good;
}

bool ommai_completion_check(struct ommai_server *server, json_t *root, struct ommai_api_error *error) {
  struct completion completion = {.server = server};
  bool good = read_completion(&completion, root, error);
  free_completion(&completion);
  return good;
}

/* A request that waits for its grammar. */
struct completion_job {
  struct ommai_grammar_job grammar; /* first: a job is its completion_job */
  struct ommai_http_call *call;
  json_t *root;
};

static void run(struct ommai_job *queued) {
  struct completion_job *job = (struct completion_job *)queued;
  struct ommai_http_call *call = job->call;
  struct ommai_api_error error;
  if (!ommai_http_call_is_gone(call) && !begin(call, job->root, &error)) ommai_http_call_fail(call, &error);
  ommai_grammar_job_end(&job->grammar);
  json_decref(job->root);
  ommai_release(call->allocator, job, 1, sizeof *job);
  ommai_http_call_let_go(call);
}

bool ommai_endpoint_completions(struct ommai_http_call *call, json_t *root, struct ommai_api_error *error) {
  struct completion_job *job = ommai_allocate(call->allocator, 1, sizeof *job);
  if (!job) {
    json_decref(root);
    return ommai_api_fail_memory(error);
  }
  job->call = call;
  job->root = root;
  ommai_http_call_keep(call);
  if (!ommai_grammar_job_start(&job->grammar, call, root, run)) run(&job->grammar.job);
  return true;
}
