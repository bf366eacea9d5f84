#include "server/api/vector_requests.h"

#include <string.h>

#include "base/allocator.h"
#include "base/json.h"
#include "server/core/request_json.h"
#include "server/state/server_config.h"

static bool make_room(struct ommai_vector_inputs *inputs, size_t n, struct ommai_api_error *error) {
  if (n > OMMAI_MAX_VECTOR_INPUTS) {
    return ommai_api_fail(error, 400, inputs->document_field, "At most %d inputs are taken in one request, got %zu.",
                          OMMAI_MAX_VECTOR_INPUTS, n);
  }
  inputs->list = ommai_allocate(inputs->allocator, n, sizeof *inputs->list);
  inputs->n = n;
  return inputs->list || ommai_api_fail_memory(error);
}

static bool is_message(const json_t *value) { return ommai_json_is_text(json_object_get(value, "role")); }

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

static bool is_text_or_ids(const json_t *value) { return ommai_json_is_text(value) || json_is_array(value); }

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
  inputs->kind = ommai_json_is_text(sample) ? OMMAI_VECTOR_TEXTS : OMMAI_VECTOR_IDS;
  if (!make_room(inputs, lists_them ? json_array_size(value) : 1, error)) return false;
  for (size_t i = 0; i < inputs->n; i++) {
    const json_t *item = inputs->list[i].value = lists_them ? json_array_get(value, i) : value;
    if (ommai_json_is_text(item) == ommai_json_is_text(sample) && json_is_array(item) == json_is_array(sample)) continue;
    return ommai_api_fail(error, 400, "input", "input[%zu] must be %s like the first, got %s.", i, ommai_json_kind(sample),
                          ommai_json_kind(item));
  }
  return true;
}

/* A text, or {"content": [parts]}: *content. */
static bool read_content(const json_t *value, const char *field, size_t index, const json_t **content,
                         struct ommai_api_error *error) {
  static const char *const known[] = {"content", "role", NULL};
  char where[64];
  snprintf(where, sizeof where, "%s[%zu]", field, index);
  *content = value;
  if (ommai_json_is_text(value)) return true;
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
static bool find_embedded(const json_t *root, const struct ommai_vector_rules *rules, struct ommai_vector_inputs *inputs,
                          struct ommai_api_error *error) {
  const json_t *input = ommai_field_get(root, "input"), *messages, *first = json_array_get(input, 0);
  if (!ommai_field_array(root, "messages", &messages, error)) return false;
  inputs->document_field = rules->is_cohere ? json_string_value(json_object_get(root, "sent_as"))
                           : messages       ? "messages"
                                            : "input";
  if (messages) {
    return json_array_size(messages)
               ? find_conversations(messages, inputs, error)
               : ommai_api_fail(error, 400, "messages", "messages must hold at least one message, got [].");
  }
  if (!input) return ommai_api_fail_body(error, "body.input", "Field required: input or messages.");
  bool converses = is_message(first) || is_message(json_array_get(first, 0));
  if (!converses && (json_is_object(input) || json_is_object(first))) return find_contents(input, inputs, error);
  return (converses ? find_conversations : find_prompts)(input, inputs, error);
}

/* The two fields that a score is asked for with have several names. */
static const json_t *find_sides(const json_t *root, const struct ommai_vector_rules *rules,
                                struct ommai_vector_inputs *inputs) {
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
static bool find_scored(const struct ommai_server_config *config, const json_t *root, const struct ommai_vector_rules *rules,
                        const struct ommai_vector_fields *fields, struct ommai_vector_inputs *inputs,
                        struct ommai_api_error *error) {
  const json_t *queries = find_sides(root, rules, inputs), *content;
  bool in_pairs = config->info.task == OMMA_TASK_SCORE, has_parts = false;
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
static bool use_instruction(const struct ommai_server_config *config, struct ommai_vector_inputs *inputs,
                            struct ommai_api_error *error) {
  if (config->info.task == OMMA_TASK_SCORE) {
    return ommai_api_fail(error, 400, "instruction", "instruction: a score is of a query and a document: /score, /rerank.");
  }
  if (inputs->kind != OMMAI_VECTOR_TEXTS && inputs->kind != OMMAI_VECTOR_CONTENTS) {
    return ommai_api_fail(error, 400, "instruction",
                          "instruction: only texts and contents take one; messages have it as their system message.");
  }
  inputs->kind = OMMAI_VECTOR_CONTENTS;
  return true;
}

bool ommai_vector_inputs_read(const struct ommai_server_config *config, const json_t *root,
                              const struct ommai_vector_rules *rules, const struct ommai_vector_fields *fields,
                              struct ommai_vector_inputs *inputs, struct ommai_api_error *error) {
  *inputs = (struct ommai_vector_inputs){.allocator = config->allocator};
  if (rules->is_scoring) return find_scored(config, root, rules, fields, inputs, error);
  return find_embedded(root, rules, inputs, error) && (!fields->instruction || use_instruction(config, inputs, error));
}

void ommai_vector_inputs_free(struct ommai_vector_inputs *inputs) {
  ommai_release(inputs->allocator, inputs->list, inputs->n, sizeof *inputs->list);
  inputs->list = NULL;
}
