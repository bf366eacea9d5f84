#include "server/api/vector_requests.h"

#include <string.h>

#include "base/allocator.h"
#include "base/json.h"
#include "server/api/chat_job.h"
#include "server/api/token_fields.h"
#include "server/core/request_json.h"
#include "server/http/http_call.h"
#include "server/state/server_state.h"

/* "documents[12]", or "input" where it is one alone. */
#define WHERE_SIZE 64

/* What an input is made with. */
struct preparing {
  struct ommai_http_call *call;
  struct ommai_server *server;
  const json_t *root;
  const struct ommai_vector_fields *fields;
  const struct ommai_vector_inputs *inputs;
  struct omma_request_options options;
  bool is_document; /* it is scored for a query */
  char where[WHERE_SIZE];
};

/* Where an input stands in what the client sent. */
static void locate(struct preparing *work, size_t index) {
  const struct ommai_vector_inputs *inputs = work->inputs;
  bool is_query = inputs->n_queries && inputs->kind != OMMAI_VECTOR_PAIRS && index < inputs->n_queries;
  bool is_document = inputs->n_queries && !is_query;
  work->is_document = is_document;
  if (is_document && inputs->kind != OMMAI_VECTOR_PAIRS) index -= inputs->n_queries;
  const char *field = is_query ? inputs->query_field : inputs->document_field;
  if (inputs->is_single) {
    snprintf(work->where, sizeof work->where, "%s", field);
  } else {
    snprintf(work->where, sizeof work->where, "%s[%zu]", field, index);
  }
}

static bool take_status(const struct preparing *work, enum omma_status status, const struct omma_error *cause,
                        struct ommai_api_error *error) {
  if (status == OMMA_OK) return true;
  ommai_server_fail(&work->server->config, "preparing a request", cause, error);
  return ommai_api_error_prefix(error, "%s", work->where);
}

static bool prepare_ids(struct preparing *work, const int32_t *tokens, size_t n_tokens, struct omma_request **request,
                        struct ommai_api_error *error) {
  struct omma_error cause = {0};
  if (n_tokens == 0) {
    ommai_api_fail(error, 400, work->inputs->document_field, "The prompt cannot be empty");
    return ommai_api_error_prefix(error, "%s", work->where);
  }
  enum omma_status status =
      omma_request_create_tokens(work->server->config.model, tokens, n_tokens, &work->options, request, &cause);
  return take_status(work, status, &cause, error);
}

/* A text of no form, or ids. */
static bool prepare_prompt(struct preparing *work, const json_t *value, struct omma_request **request,
                           struct ommai_api_error *error) {
  const struct ommai_server *server = work->server;
  size_t n_tokens = 0,
         limit = work->options.truncation.n_tokens ? OMMA_MAX_TRUNCATED_TOKENS : (size_t)server->config.info.max_model_len - 1;
  int32_t *tokens = NULL;
  bool good = ommai_json_is_text(value) ? ommai_text_tokenize(&server->config, value, limit, &tokens, &n_tokens, error)
                                        : ommai_token_array_read(&server->config, value, "input", &tokens, &n_tokens, error);
  if (good) {
    good = prepare_ids(work, tokens, n_tokens, request, error);
  } else {
    ommai_api_error_prefix(error, "%s", work->where);
  }
  ommai_release(server->config.allocator, tokens, n_tokens, sizeof *tokens);
  return good;
}

/* The request's members that a chat has, with other messages; NULL: memory is out. */
static json_t *chat_root(const struct preparing *work, json_t *messages) {
  static const char *const kept[] = {"mm_processor_kwargs", "media_io_kwargs"};
  static const char *const kept_of_chats[] = {"chat_template_kwargs", "continue_final_message", "add_generation_prompt"};
  bool chats = work->inputs->kind == OMMAI_VECTOR_CONVERSATIONS;
  json_t *root = json_object();
  bool failed = json_object_set_new(root, "messages", messages) != 0;
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
    json_t *value = ommai_field_get(work->root, kept[i]);
    if (value) failed |= json_object_set(root, kept[i], value) != 0;
  }
  for (size_t i = 0; chats && i < sizeof kept_of_chats / sizeof *kept_of_chats; i++) {
    json_t *value = ommai_field_get(work->root, kept_of_chats[i]);
    if (value) failed |= json_object_set(root, kept_of_chats[i], value) != 0;
  }
  if (!json_object_get(root, "add_generation_prompt")) {
    failed |= json_object_set_new(root, "add_generation_prompt", json_false()) != 0;
  }
  if (!failed) return root;
  json_decref(root);
  return NULL;
}

/* A text without what is beyond the limit, or the content itself, with a reference. NULL with
 * *error filled. */
static json_t *cut_content(struct preparing *work, const json_t *content, int64_t limit, struct ommai_api_error *error) {
  const struct ommai_server *server = work->server;
  int32_t *tokens = NULL;
  size_t n_tokens = 0;
  json_t *cut = NULL;
  if (!limit) return json_incref((json_t *)content);
  if (!ommai_json_is_text(content)) {
    ommai_api_fail(error, 400, work->inputs->document_field, "%s: only texts are cut to a number of tokens, this has parts.",
                   work->where);
    return NULL;
  }
  if (!ommai_text_tokenize(&server->config, content, OMMA_MAX_TRUNCATED_TOKENS, &tokens, &n_tokens, error)) return NULL;
  struct ommai_text text = ommai_text_of(server->config.allocator);
  size_t n_kept = n_tokens < (size_t)limit ? n_tokens : (size_t)limit;
  if (ommai_token_text_add(&server->config, tokens, n_kept, &text, error)) {
    size_t size = text.size, at = size;
    /* to the last character's first byte */
    while (at > 0 && ((unsigned char)text.data[at - 1] & 0xc0) == 0x80) at--;
    if (at > 0 && !ommai_utf8_length((const unsigned char *)text.data + at - 1, size - at + 1)) size = at - 1;
    cut = json_stringn(text.data ? text.data : "", size);
    if (!cut) ommai_api_fail_memory(error);
  }
  ommai_text_free(&text);
  ommai_release(server->config.allocator, tokens, n_tokens, sizeof *tokens);
  return cut;
}

/* A user's message for each content of the input. */
static json_t *content_messages(struct preparing *work, size_t index, struct ommai_api_error *error) {
  const struct ommai_vector_input *input = &work->inputs->list[index];
  bool pairs = work->inputs->kind == OMMAI_VECTOR_PAIRS, is_query = pairs || index < work->inputs->n_queries;
  int64_t limit = is_query ? work->fields->max_query_tokens : work->fields->max_document_tokens;
  json_t *messages = json_array(), *first = cut_content(work, input->value, limit, error), *second = NULL;
  if (first && pairs) second = cut_content(work, input->document, work->fields->max_document_tokens, error);
  bool failed = !first || (pairs && !second);
  if (!failed) {
    failed = json_array_append_new(messages, json_pack("{s:s,s:O}", "role", "user", "content", first)) != 0;
    if (pairs) failed |= json_array_append_new(messages, json_pack("{s:s,s:O}", "role", "user", "content", second)) != 0;
    if (failed) ommai_api_fail_memory(error);
  }
  json_decref(first);
  json_decref(second);
  if (!failed) return messages;
  json_decref(messages);
  return NULL;
}

/* Texts for errors: where each message stands. */
static json_t *list_locations(const struct preparing *work, size_t n_messages) {
  json_t *locations = json_array();
  for (size_t i = 0; i < n_messages; i++) {
    bool converses = work->inputs->kind == OMMAI_VECTOR_CONVERSATIONS;
    bool is_query = work->inputs->kind == OMMAI_VECTOR_PAIRS && i == 0;
    json_array_append_new(locations, converses  ? json_sprintf("%s[%zu]", work->where, i)
                                     : is_query ? json_string(work->inputs->query_field)
                                                : json_string(work->where));
  }
  return locations;
}

static enum omma_status create(struct preparing *work, const struct ommai_chat_request *chat, struct omma_request **request,
                               struct omma_error *cause) {
  const struct omma_model *model = work->server->config.model;
  const struct omma_message *messages = chat->messages;
  switch (work->inputs->kind) {
    case OMMAI_VECTOR_PAIRS:
      return omma_request_create_score(model, work->fields->instruction, messages[0].parts, messages[0].n_parts,
                                       messages[1].parts, messages[1].n_parts, &work->options, request, cause);
    case OMMAI_VECTOR_CONTENTS:
      work->options.is_document = work->is_document;
      return omma_request_create_embed(model, work->fields->instruction, messages[0].parts, messages[0].n_parts, &work->options,
                                       request, cause);
    default:
      work->options.tools = chat->tools_text;
      work->options.chat_template_kwargs = chat->template_text;
      work->options.continue_final_message = chat->continue_final_message;
      work->options.no_generation_prompt = chat->no_generation_prompt;
      return omma_request_create(model, messages, chat->n_messages, &work->options, request, cause);
  }
}

/* What has messages, and perhaps images. */
static bool prepare_chat(struct preparing *work, size_t index, struct omma_request **request, struct ommai_api_error *error) {
  struct ommai_chat_request chat;
  bool converses = work->inputs->kind == OMMAI_VECTOR_CONVERSATIONS;
  json_t *messages = converses ? json_incref((json_t *)work->inputs->list[index].value) : content_messages(work, index, error);
  if (!messages) return false;
  const size_t n_messages = json_array_size(messages);
  const struct ommai_chat_source source = {.root = chat_root(work, messages), .locations = list_locations(work, n_messages)};
  if (!source.root) {
    ommai_chat_source_free(&source);
    return ommai_api_fail_memory(error);
  }
  bool good =
      ommai_chat_request_read(work->server, &source, true, &chat, error) && ommai_chat_media_load(work->call, &chat, error);
  if (good && !ommai_http_call_is_gone(work->call)) {
    struct omma_error cause = {0};
    good = take_status(work, create(work, &chat, request, &cause), &cause, error);
  }
  ommai_chat_request_destroy(&chat);
  return good;
}

bool ommai_vector_input_prepare(struct ommai_http_call *call, const json_t *root, const struct ommai_vector_fields *fields,
                                const struct ommai_vector_inputs *inputs, size_t index, struct omma_request **request,
                                struct ommai_api_error *error) {
  struct ommai_server *server = call->server;
  bool scores = server->config.info.task == OMMA_TASK_SCORE;
  struct preparing work = {.call = call,
                           .server = server,
                           .root = root,
                           .fields = fields,
                           .inputs = inputs,
                           .options = {.kind = scores ? OMMA_REQUEST_SCORE : OMMA_REQUEST_EMBED,
                                       .max_model_len = omma_engine_max_model_len(server->engine),
                                       .priority = fields->priority,
                                       .cache_salt = fields->cache_salt,
                                       .truncation = fields->truncation,
                                       .dimensions = fields->dimensions,
                                       .raw_vectors = fields->raw}};
  *request = NULL;
  locate(&work, index);
  bool bare = inputs->kind == OMMAI_VECTOR_TEXTS || inputs->kind == OMMAI_VECTOR_IDS;
  if (!bare) return prepare_chat(&work, index, request, error);
  if (inputs->kind == OMMAI_VECTOR_IDS || !inputs->n_queries)
    return prepare_prompt(&work, inputs->list[index].value, request, error);
  bool is_query = index < inputs->n_queries;
  json_t *text =
      cut_content(&work, inputs->list[index].value, is_query ? fields->max_query_tokens : fields->max_document_tokens, error);
  bool good = text && prepare_prompt(&work, text, request, error);
  json_decref(text);
  return good;
}
