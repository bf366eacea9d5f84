#include "server/vector_inputs.h"

#include <string.h>

#include "base/allocator.h"
#include "base/json.h"
#include "server/chat_media.h"
#include "server/http_call.h"
#include "server/request_json.h"
#include "server/server_state.h"
#include "server/token_text.h"

/* "documents[12]", or "input" where it is one alone. */
#define WHERE_SIZE 64

/* ---- finding them ---- */

static bool make_room(struct ommai_vector_inputs *inputs, size_t n, struct ommai_api_error *error) {
  if (n > OMMAI_MAX_VECTOR_INPUTS) {
    return ommai_api_fail(error, 400, inputs->document_field, "At most %d inputs are taken in one request, got %zu.",
                          OMMAI_MAX_VECTOR_INPUTS, n);
  }
  inputs->list = ommai_allocate(inputs->allocator, n, sizeof *inputs->list);
  inputs->n = n;
  return inputs->list || ommai_api_fail_memory(error);
}

static bool is_message(const json_t *value) { return json_is_string(json_object_get(value, "role")); }

/* Whether a content has parts that are no texts. */
static bool content_has_media(const json_t *content) {
  const json_t *part;
  size_t i;
  json_array_foreach(content, i, part) {
    const char *type = json_string_value(json_object_get(part, "type"));
    if (type && !strstr(type, "text")) return true;
  }
  return false;
}

static bool has_media(const json_t *messages) {
  const json_t *message;
  size_t i;
  json_array_foreach(messages, i, message) {
    if (content_has_media(json_object_get(message, "content"))) return true;
  }
  return false;
}

/* A conversation, or a list of them. */
static bool find_conversations(const json_t *value, struct ommai_vector_inputs *inputs, struct ommai_api_error *error) {
  const json_t *first = json_array_get(value, 0);
  inputs->kind = OMMAI_VECTOR_CONVERSATIONS;
  inputs->is_single = !json_is_array(first);
  if (!make_room(inputs, inputs->is_single ? 1 : json_array_size(value), error)) return false;
  for (size_t i = 0; i < inputs->n; i++) {
    const json_t *messages = inputs->list[i].value = inputs->is_single ? value : json_array_get(value, i);
    if (!json_is_array(messages)) {
      return ommai_api_fail(error, 400, inputs->document_field, "%s[%zu] must be an array like the first, got %s.",
                            inputs->document_field, i, ommai_json_kind(messages));
    }
    inputs->has_media |= has_media(messages);
  }
  return true;
}

static bool is_text_or_ids(const json_t *value) { return json_is_string(value) || json_is_array(value); }

/* A text, ids, or a list of either. */
static bool find_prompts(const json_t *value, struct ommai_vector_inputs *inputs, struct ommai_api_error *error) {
  const json_t *first = json_array_get(value, 0);
  bool lists_them = json_is_array(value) && is_text_or_ids(first);
  const json_t *sample = lists_them ? first : value;
  if (!is_text_or_ids(value)) {
    return ommai_api_fail(error, 400, "input", "input must be a string or an array, got %s.", ommai_json_kind(value));
  }
  if (json_is_array(value) && !first) return ommai_api_fail(error, 400, "input", "You must pass at least one prompt");
  inputs->is_single = !lists_them;
  inputs->kind = json_is_string(sample) ? OMMAI_VECTOR_TEXTS : OMMAI_VECTOR_IDS;
  if (!make_room(inputs, lists_them ? json_array_size(value) : 1, error)) return false;
  for (size_t i = 0; i < inputs->n; i++) {
    const json_t *item = inputs->list[i].value = lists_them ? json_array_get(value, i) : value;
    if (json_is_string(item) == json_is_string(sample) && json_is_array(item) == json_is_array(sample)) continue;
    return ommai_api_fail(error, 400, "input", "input[%zu] must be %s like the first, got %s.", i, ommai_json_kind(sample),
                          ommai_json_kind(item));
  }
  return true;
}

/* A text, or {"content": [parts]}: *content. */
static bool read_content(const json_t *value, const char *field, size_t index, const json_t **content,
                         struct ommai_api_error *error) {
  static const char *const known[] = {"content", "role", NULL};
  char where[WHERE_SIZE];
  snprintf(where, sizeof where, "%s[%zu]", field, index);
  *content = value;
  if (json_is_string(value)) return true;
  if (!json_is_object(value)) {
    return ommai_api_fail(error, 400, field, "%s must be a string or an object with content, got %s.", where,
                          ommai_json_kind(value));
  }
  if (!ommai_field_members(value, field, where, known, error)) return false;
  *content = ommai_field_get(value, "content");
  return json_is_array(*content) || ommai_api_fail(error, 400, field, "%s: content must be an array of parts, got %s.", where,
                                                   *content ? ommai_json_kind(*content) : "null");
}

static size_t count_of(const json_t *value) { return json_is_array(value) ? json_array_size(value) : 1; }

static const json_t *item_of(const json_t *value, size_t i) { return json_is_array(value) ? json_array_get(value, i) : value; }

/* An object with content, or a list of them; texts may be among them. */
static bool find_contents(const json_t *value, struct ommai_vector_inputs *inputs, struct ommai_api_error *error) {
  inputs->kind = OMMAI_VECTOR_CONTENTS;
  inputs->is_single = !json_is_array(value);
  if (!make_room(inputs, count_of(value), error)) return false;
  for (size_t i = 0; i < inputs->n; i++) {
    const json_t *content;
    if (!read_content(item_of(value, i), inputs->document_field, i, &content, error)) return false;
    inputs->list[i].value = content;
    inputs->has_media |= content_has_media(content);
  }
  return true;
}

/* What to embed: `messages`, or `input` with prompts, messages or contents. */
static bool find_embedded(const json_t *root, struct ommai_vector_inputs *inputs, struct ommai_api_error *error) {
  const json_t *input = ommai_field_get(root, "input"), *messages, *first = json_array_get(input, 0);
  if (!ommai_field_array(root, "messages", &messages, error)) return false;
  inputs->document_field = messages ? "messages" : "input";
  if (messages) {
    return json_array_size(messages) ? find_conversations(messages, inputs, error)
                                     : ommai_api_fail(error, 400, "messages", "messages must hold at least one message, got [].");
  }
  if (!input) return ommai_api_fail_body(error, "body.input", "Field required: input or messages.");
  bool converses = is_message(first) || is_message(json_array_get(first, 0));
  if (!converses && (json_is_object(input) || json_is_object(first))) return find_contents(input, inputs, error);
  return (converses ? find_conversations : find_prompts)(input, inputs, error);
}

/* The two fields that a score is asked for with have several names. */
static const json_t *find_sides(const json_t *root, const struct ommai_vector_rules *rules, struct ommai_vector_inputs *inputs) {
  static const struct {
    const char *query, *document;
  } names[] = {{"queries", "documents"}, {"queries", "items"}, {"text_1", "text_2"}, {"data_1", "data_2"}};
  inputs->query_field = rules->is_reranking ? "query" : names[0].query;
  inputs->document_field = names[0].document;
  for (size_t i = 0; i < sizeof names / sizeof *names && !rules->is_reranking; i++) {
    if (!ommai_field_get(root, names[i].query) || !ommai_field_get(root, names[i].document)) continue;
    inputs->query_field = names[i].query;
    inputs->document_field = names[i].document;
    break;
  }
  inputs->documents = ommai_field_get(root, inputs->document_field);
  return ommai_field_get(root, inputs->query_field);
}

static bool check_counts(const struct ommai_vector_inputs *inputs, struct ommai_api_error *error) {
  const char *wrong = inputs->n_queries == 0     ? "At least one text element must be given"
                      : inputs->n_documents == 0 ? "At least one text_pair element must be given"
                      : inputs->n_queries > 1 && inputs->n_queries != inputs->n_documents
                          ? "Input lengths must be either 1:1, 1:N or N:N"
                          : NULL;
  return !wrong || ommai_api_fail(error, 400, inputs->n_queries ? inputs->document_field : inputs->query_field, "%s", wrong);
}

/* Queries and documents; a model of vectors gets each by itself. */
static bool find_scored(const struct ommai_server *server, const json_t *root, const struct ommai_vector_rules *rules,
                        const struct ommai_vector_fields *fields, struct ommai_vector_inputs *inputs,
                        struct ommai_api_error *error) {
  const json_t *queries = find_sides(root, rules, inputs), *content;
  bool in_pairs = server->info.task == OMMA_TASK_SCORE, has_parts = false;
  if (!queries || !inputs->documents) {
    const char *missing = queries ? inputs->document_field : inputs->query_field;
    char param[64];
    snprintf(param, sizeof param, "body.%s", missing);
    return ommai_api_fail_body(error, param, "Field required: %s.", missing);
  }
  if (rules->is_reranking && json_is_array(queries)) {
    return ommai_api_fail(error, 400, "query", "query must be a string or an object with content, got array.");
  }
  inputs->n_queries = count_of(queries);
  inputs->n_documents = count_of(inputs->documents);
  if (!check_counts(inputs, error)) return false;
  if (!make_room(inputs, in_pairs ? inputs->n_documents : inputs->n_queries + inputs->n_documents, error)) return false;
  for (size_t i = 0; i < inputs->n_queries; i++) {
    if (!read_content(item_of(queries, i), inputs->query_field, i, &content, error)) return false;
    inputs->list[i].value = content;
    has_parts |= json_is_array(content);
    inputs->has_media |= content_has_media(content);
  }
  for (size_t i = 0; i < inputs->n_documents; i++) {
    if (!read_content(item_of(inputs->documents, i), inputs->document_field, i, &content, error)) return false;
    if (in_pairs && inputs->n_queries == 1) inputs->list[i].value = inputs->list[0].value;
    *(in_pairs ? &inputs->list[i].document : &inputs->list[inputs->n_queries + i].value) = content;
    has_parts |= json_is_array(content);
    inputs->has_media |= content_has_media(content);
  }
  inputs->kind = in_pairs ? OMMAI_VECTOR_PAIRS : has_parts || fields->instruction ? OMMAI_VECTOR_CONTENTS : OMMAI_VECTOR_TEXTS;
  return true;
}

/* An instruction asks for the model's own form, which prompts that have a form cannot get. */
static bool use_instruction(const struct ommai_server *server, struct ommai_vector_inputs *inputs,
                            struct ommai_api_error *error) {
  if (server->info.task == OMMA_TASK_SCORE) {
    return ommai_api_fail(error, 400, "instruction", "instruction: a score is of a query and a document: /score, /rerank.");
  }
  if (inputs->kind != OMMAI_VECTOR_TEXTS && inputs->kind != OMMAI_VECTOR_CONTENTS) {
    return ommai_api_fail(error, 400, "instruction",
                          "instruction: only texts and contents take one; messages have it as their system message.");
  }
  inputs->kind = OMMAI_VECTOR_CONTENTS;
  return true;
}

bool ommai_vector_inputs_read(const struct ommai_server *server, const json_t *root, const struct ommai_vector_rules *rules,
                              const struct ommai_vector_fields *fields, struct ommai_vector_inputs *inputs,
                              struct ommai_api_error *error) {
  *inputs = (struct ommai_vector_inputs){.allocator = server->allocator};
  if (rules->is_scoring) return find_scored(server, root, rules, fields, inputs, error);
  return find_embedded(root, inputs, error) && (!fields->instruction || use_instruction(server, inputs, error));
}

void ommai_vector_inputs_free(struct ommai_vector_inputs *inputs) {
  ommai_release(inputs->allocator, inputs->list, inputs->n, sizeof *inputs->list);
  inputs->list = NULL;
}

/* ---- requests of the engine ---- */

/* What an input is made with. */
struct preparing {
  struct ommai_http_call *call;
  struct ommai_server *server;
  const json_t *root;
  const struct ommai_vector_fields *fields;
  const struct ommai_vector_inputs *inputs;
  struct omma_request_options options;
  char where[WHERE_SIZE];
};

/* Where an input stands in what the client sent. */
static void locate(struct preparing *work, size_t index) {
  const struct ommai_vector_inputs *inputs = work->inputs;
  bool is_query = inputs->n_queries && inputs->kind != OMMAI_VECTOR_PAIRS && index < inputs->n_queries;
  bool is_document = inputs->n_queries && !is_query;
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
  ommai_api_fail_from(error, cause);
  if (error->status == 500) ommai_server_log(work->server, "preparing a request", cause);
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
      omma_request_create_tokens(work->server->model, tokens, n_tokens, &work->options, request, &cause);
  return take_status(work, status, &cause, error);
}

/* A text of no form, or ids. */
static bool prepare_prompt(struct preparing *work, const json_t *value, struct omma_request **request,
                           struct ommai_api_error *error) {
  const struct ommai_server *server = work->server;
  size_t n_tokens = 0, limit = work->options.truncation.n_tokens ? OMMA_MAX_TRUNCATED_TOKENS
                                                                 : (size_t)server->info.max_model_len - 1;
  int32_t *tokens = NULL;
  bool good = json_is_string(value) ? ommai_text_tokenize(server, value, limit, &tokens, &n_tokens, error)
                                    : ommai_token_array_read(server, value, "input", &tokens, &n_tokens, error);
  if (good) {
    good = prepare_ids(work, tokens, n_tokens, request, error);
  } else {
    ommai_api_error_prefix(error, "%s", work->where);
  }
  ommai_release(server->allocator, tokens, n_tokens, sizeof *tokens);
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
  struct ommai_text text;
  json_t *cut = NULL;
  if (!limit) return json_incref((json_t *)content);
  if (!json_is_string(content)) {
    ommai_api_fail(error, 400, work->inputs->document_field, "%s: only texts are cut to a number of tokens, this has parts.",
                   work->where);
    return NULL;
  }
  if (!ommai_text_tokenize(server, content, OMMA_MAX_TRUNCATED_TOKENS, &tokens, &n_tokens, error)) return NULL;
  ommai_text_init(&text, server->allocator);
  size_t n_kept = n_tokens < (size_t)limit ? n_tokens : (size_t)limit;
  if (ommai_token_text_add(server, tokens, n_kept, &text, error)) {
    size_t size = text.size, at = size;
    /* to the last character's first byte */
    while (at > 0 && ((unsigned char)text.data[at - 1] & 0xc0) == 0x80) at--;
    if (at > 0 && !ommai_utf8_length((const unsigned char *)text.data + at - 1, size - at + 1)) size = at - 1;
    cut = json_stringn(text.data ? text.data : "", size);
    if (!cut) ommai_api_fail_memory(error);
  }
  ommai_text_free(&text);
  ommai_release(server->allocator, tokens, n_tokens, sizeof *tokens);
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
  const struct omma_model *model = work->server->model;
  const struct omma_message *messages = chat->messages;
  switch (work->inputs->kind) {
    case OMMAI_VECTOR_PAIRS:
      return omma_request_create_score(model, work->fields->instruction, messages[0].parts, messages[0].n_parts,
                                       messages[1].parts, messages[1].n_parts, &work->options, request, cause);
    case OMMAI_VECTOR_CONTENTS:
      return omma_request_create_embed(model, work->fields->instruction, messages[0].parts, messages[0].n_parts,
                                       &work->options, request, cause);
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
  json_t *messages =
      converses ? json_incref((json_t *)work->inputs->list[index].value) : content_messages(work, index, error);
  if (!messages) return false;
  const size_t n_messages = json_array_size(messages);
  const struct ommai_chat_source source = {.root = chat_root(work, messages), .locations = list_locations(work, n_messages)};
  if (!source.root) {
    ommai_chat_source_free(&source);
    return ommai_api_fail_memory(error);
  }
  bool good = ommai_chat_request_read(work->server, &source, true, &chat, error) &&
              ommai_chat_media_load(work->call, &chat, error);
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
  bool scores = server->info.task == OMMA_TASK_SCORE;
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
  if (inputs->kind == OMMAI_VECTOR_IDS || !inputs->n_queries) return prepare_prompt(&work, inputs->list[index].value, request, error);
  bool is_query = index < inputs->n_queries;
  json_t *text =
      cut_content(&work, inputs->list[index].value, is_query ? fields->max_query_tokens : fields->max_document_tokens, error);
  bool good = text && prepare_prompt(&work, text, request, error);
  json_decref(text);
  return good;
}
