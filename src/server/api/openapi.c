
#include <jansson.h>
#include <omma/omma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "server/api/chat_request.h"
#include "server/api/ocr_request.h"
#include "server/api/other_requests.h"
#include "server/api/vector_requests.h"
#include "server/core/request_json.h"
#include "server/http/endpoints.h"
#include "server/http/routes.h"
#include "server/state/server_state.h"

enum kind { CHAT, RESPONSES, MESSAGES, COUNT, COMPLETION, TOKENIZE, DETOKENIZE, VECTORS, OCR };

/* Requests that make the readers ask for everything: what is required, and values under which there
 * are further fields. Fields without such values need no mention. */
struct sample {
  const char *path;
  enum kind kind;
  const char *required, *values;
};

#define PARTS                                                                                        \
  "[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/" \
  "png;base64,AAAA\"},\"uuid\":\"a\"}]"
#define CALLS "[{\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]"
#define FUNCTION "{\"name\":\"f\",\"description\":\"a\",\"parameters\":{\"type\":\"object\"}}"
#define COMMON                                                                                                  \
  "\"stream\":true,\"stop\":[\"a\"],\"stop_token_ids\":[1],\"ommatidia\":{\"details\":true},\"logit_bias\":{}," \
  "\"stream_options\":{\"include_usage\":true}"
#define OF_CHATS \
  "\"mm_processor_kwargs\":{\"max_pixels\":1000000},\"chat_template_kwargs\":{},\"media_io_kwargs\":{\"video\":{\"fps\":1}}"

#define EMBEDDING "{\"messages\":[{\"role\":\"user\",\"content\":" PARTS "}]," OF_CHATS "}"
#define SCORED "{\"queries\":\"a\",\"documents\":[\"a\"]}"
#define RANKED "{\"query\":\"a\",\"documents\":[\"a\"]}"

static const struct sample samples[] = {
    {"/v1/chat/completions", CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
     "{" COMMON "," OF_CHATS ",\"messages\":[{\"role\":\"user\",\"content\":" PARTS
     "},{\"role\":\"assistant\",\"tool_calls\":" CALLS
     "},{\"role\":\"tool\",\"content\":\"a\",\"tool_call_id\":\"a\"}],\"tools\":[{\"type\":\"function\",\"function\":" FUNCTION
     "}],\"tool_choice\":\"none\",\"response_format\":{\"type\":\"text\"},\"logprobs\":true}"},
    {"/v1/responses", RESPONSES, "{\"input\":\"a\"}",
     "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"a\"}]}],\"tools\":[{\"type\":"
     "\"function\","
     "\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}],\"tool_choice\":\"none\",\"text\":{\"format\":{\"type\":\"text\"}},"
     "\"reasoning\":{\"effort\":\"low\"},\"include\":[],\"ommatidia\":{\"details\":true}}"},
    {"/v1/messages", MESSAGES, "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
     "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}],\"system\":[{\"type\":\"text\","
     "\"text\":\"a\"}],\"stop_sequences\":[\"a\"],\"tools\":[{\"name\":\"f\",\"input_schema\":{\"type\":\"object\"}}],"
     "\"tool_choice\":{\"type\":\"none\"},\"thinking\":{\"type\":\"disabled\"},\"output_config\":{}}"},
    {"/v1/messages/count_tokens", COUNT, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
     "{\"system\":[{\"type\":\"text\",\"text\":\"a\"}],\"tools\":[{\"name\":\"f\",\"input_schema\":{\"type\":\"object\"}}]}"},
    {"/v1/completions", COMPLETION, "{\"prompt\":\"a\"}", "{" COMMON ",\"prompt\":[\"a\"],\"logprobs\":1}"},
    {"/tokenize", TOKENIZE, "{}", "{\"prompt\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":" PARTS "}]," OF_CHATS "}"},
    {"/detokenize", DETOKENIZE, "{\"tokens\":[1]}", "{}"},
    {"/v1/embeddings", VECTORS, "{\"input\":\"a\"}", EMBEDDING},
    {"/v2/embed", VECTORS, "{\"texts\":[\"a\"]}", "{}"},
    {"/pooling", VECTORS, "{\"input\":\"a\"}", EMBEDDING},
    {"/score", VECTORS, SCORED, "{}"},
    {"/v1/score", VECTORS, SCORED, "{}"},
    {"/rerank", VECTORS, RANKED, "{}"},
    {"/v1/rerank", VECTORS, RANKED, "{}"},
    {"/v2/rerank", VECTORS, RANKED, "{}"},
    {"/v1/ocr", OCR, "{\"document\":{\"type\":\"document_url\",\"document_url\":\"data:application/pdf;base64,AAAA\"}}",
     "{\"ommatidia\":{\"dpi\":200}}"},
};

struct maker {
  struct ommai_server *server;
  json_t *notes; /* of each object that was read, by its address: its members' schemas */
};

static json_t *schema_of_note(const struct ommai_field_note *note) {
  json_t *schema = json_object();
  if (!note->type) return schema;
  json_object_set_new(schema, "type", json_string(note->type));
  if (!strcmp(note->type, "array")) json_object_set_new(schema, "items", json_object());
  if (note->low >= note->high) return schema;
  bool whole = !strcmp(note->type, "integer");
  const double bounds[] = {note->low, note->high};
  const char *const names[] = {note->open ? "exclusiveMinimum" : "minimum", "maximum"};
  for (int i = 0; i < 2; i++) {
    if (bounds[i] <= -0x1p62 || bounds[i] >= 0x1p62) continue;
    json_object_set_new(schema, names[i], whole ? json_integer((json_int_t)bounds[i]) : json_real(bounds[i]));
  }
  return schema;
}

static json_t *members_at(const json_t *notes, const void *object) {
  char address[32];
  snprintf(address, sizeof address, "%p", object);
  return json_object_get(notes, address);
}

static void take_note(void *context, const struct ommai_field_note *note) {
  const struct maker *maker = context;
  char address[32];
  if (!json_is_object(note->object)) return;
  json_t *members = members_at(maker->notes, note->object);
  if (!members) {
    members = json_object();
    snprintf(address, sizeof address, "%p", (const void *)note->object);
    json_object_set_new(maker->notes, address, members);
  }
  if (note->type || !json_object_get(members, note->key)) json_object_set_new(members, note->key, schema_of_note(note));
}

/* The properties `members` of an object that had these values: what was read within a value is
 * within its schema. A list whose reader takes other types as well may be a text instead. */
static json_t *schema_of(const json_t *notes, const json_t *members, const json_t *values) {
  json_t *properties = json_deep_copy(members), *value, *element;
  const char *key;
  size_t i;
  if (!members) return json_object();
  json_object_foreach((json_t *)values, key, value) {
    json_t *schema = json_object_get(properties, key), *inner = json_object();
    if (json_is_object(value)) json_object_update_new(inner, schema_of(notes, members_at(notes, value), value));
    json_array_foreach(value, i, element) {
      json_t *item = schema_of(notes, members_at(notes, element), element);
      json_object_update_recursive(inner, item);
      json_decref(item);
    }
    if (json_is_array(value)) inner = json_pack("{s:s, s:o}", "type", "array", "items", inner);
    if (json_is_array(value) && json_object_size(schema) == 0)
      inner = json_pack("{s:[o, {s:s}]}", "anyOf", inner, "type", "string");
    if (schema && json_object_size(inner)) json_object_set(properties, key, inner);
    json_decref(inner);
  }
  return json_pack("{s:s, s:o}", "type", "object", "properties", properties);
}

/* What a request becomes before it is read as a chat. Takes root over. */
static bool convert(const struct ommai_server *server, enum kind kind, json_t *root, struct ommai_chat_source *source,
                    struct ommai_api_error *error) {
  if (kind == RESPONSES) return ommai_responses_request_read(root, source, error);
  if (kind == MESSAGES || kind == COUNT)
    return ommai_messages_request_read(&server->config, root, kind == COUNT, source, error);
  *source = (struct ommai_chat_source){.root = root};
  return true;
}

static bool read_tokens(const struct ommai_server *server, enum kind kind, json_t *root, struct ommai_api_error *error) {
  struct ommai_text out = ommai_text_of(server->config.allocator);
  bool good = (kind == TOKENIZE ? ommai_tokenize : ommai_detokenize)(&server->config, root, &out, error);
  ommai_text_free(&out);
  return good;
}

/* Reads and drops a request, which is taken over. *chat is the address of the chat that it
 * became. */
static bool read_request(struct ommai_server *server, const struct sample *sample, json_t *root, const void **chat,
                         struct ommai_api_error *error) {
  enum kind kind = sample->kind;
  struct ommai_chat_source source;
  struct ommai_chat_request request;
  *chat = NULL;
  if (kind == COMPLETION) {
    bool good = ommai_completion_check(server, root, error);
    json_decref(root);
    return good;
  }
  if (kind == OCR) {
    struct ommai_ocr_request ocr;
    bool good = ommai_ocr_request_read(server, root, &ocr, error);
    json_decref(root);
    return good;
  }
  if (kind == DETOKENIZE) return read_tokens(server, kind, root, error);
  if (kind == TOKENIZE) read_tokens(server, kind, json_incref(root), error);
  if (kind == VECTORS) {
    bool good = ommai_vector_request_check(server, root, ommai_vector_rules_of(sample->path), error);
    if (!good || !ommai_field_get(root, "messages")) {
      json_decref(root);
      return good;
    }
  }
  if (!convert(server, kind, root, &source, error)) return false;
  *chat = source.root;
  bool good = ommai_chat_request_read(server, &source, kind == COUNT || kind == TOKENIZE || kind == VECTORS, &request, error);
  ommai_chat_request_destroy(&request);
  return good;
}

/* Reads the required members with some more, and adds the schemas of what was asked for: of the
 * request as it came, and of the chat that it became. */
static void observe(struct maker *maker, const struct sample *sample, json_t *more, json_t *own, json_t *of_chat) {
  struct ommai_api_error error;
  const void *chat;
  json_t *root = json_loads(sample->required, 0, NULL), *schema;
  json_object_update(root, more);
  json_object_clear(maker->notes);
  ommai_fields_observe(take_note, maker);
  read_request(maker->server, sample, json_incref(root), &chat, &error);
  ommai_fields_observe(NULL, NULL);
  schema = schema_of(maker->notes, members_at(maker->notes, root), root);
  json_object_update_recursive(own, schema);
  json_decref(schema);
  if (chat && chat != root) {
    schema = schema_of(maker->notes, members_at(maker->notes, chat), root);
    json_object_update_recursive(of_chat, schema);
    json_decref(schema);
  }
  json_decref(root);
}

/* Moves the members of a chat that its own interface hands on as they are. */
static void add_handed_on(const struct ommai_server *server, const struct sample *sample, json_t *own, json_t *of_chat) {
  struct ommai_api_error error;
  struct ommai_chat_source source;
  json_t *properties = json_object_get(own, "properties"), *others = json_object_get(of_chat, "properties"), *schema;
  json_t *root = json_loads(sample->required, 0, NULL);
  const char *key;
  json_object_foreach(others, key, schema) if (!json_object_get(root, key)) json_object_set_new(root, key, json_null());
  if (!convert(server, sample->kind, root, &source, &error)) return;
  json_object_foreach(others, key, schema) {
    if (json_is_null(json_object_get(source.root, key)) && !json_object_get(properties, key))
      json_object_set(properties, key, schema);
  }
  ommai_chat_source_free(&source);
}

/* Fields that are read only to be refused are none. */
static void drop_refused(const struct maker *maker, const struct sample *sample, json_t *properties) {
  struct ommai_api_error error;
  const char *key;
  const void *chat;
  json_t *schema;
  void *next;
  json_object_foreach_safe(properties, next, key, schema) {
    json_t *root = json_loads(sample->required, 0, NULL);
    bool is_probe = !json_object_get(root, key) && !json_object_set_new(root, key, json_true());
    bool good = read_request(maker->server, sample, root, &chat, &error);
    if (is_probe && !good && strstr(error.message, "not supported")) json_object_del(properties, key);
  }
}

static json_t *describe_body(struct maker *maker, const struct sample *sample) {
  json_t *own = json_object(), *of_chat = json_object(), *required = json_array(), *value;
  json_t *values = json_loads(sample->values, 0, NULL), *needed = json_loads(sample->required, 0, NULL), *one;
  const char *key;
  observe(maker, sample, values, own, of_chat);
  json_object_foreach(values, key, value) { /* by itself too, as a server may refuse another */
    one = json_pack("{s:O}", key, value);
    observe(maker, sample, one, own, of_chat);
    json_decref(one);
  }
  if (json_object_size(of_chat)) add_handed_on(maker->server, sample, own, of_chat);
  drop_refused(maker, sample, json_object_get(own, "properties"));
  /* which are those of chats */
  if (sample->kind == VECTORS) json_object_del(json_object_get(own, "properties"), "tools");
  json_object_foreach(needed, key, value) json_array_append_new(required, json_string(key));
  if (json_array_size(required)) json_object_set(own, "required", required);
  json_decref(required);
  json_decref(needed);
  json_decref(values);
  json_decref(of_chat);
  return own;
}

/* "/v1/models/{model}" by GET: "get_v1_models_model". */
static json_t *describe_operation(struct maker *maker, const struct ommai_route *route, bool posts) {
  char name[80];
  size_t n = 0;
  const char *brace = strchr(route->path, '{');
  for (const char *c = route->path; *c && n < sizeof name - 1; c++) {
    if (!strchr("{}", *c)) name[n++] = strchr("/.", *c) ? '_' : *c;
  }
  name[n] = '\0';
  json_t *operation =
      json_pack("{s:o, s:{s:{s:s}, s:{s:s, s:{s:{s:{s:s}}}}}}", "operationId",
                json_sprintf("%s%s", posts ? "post" : "get", name), "responses", "200", "description", "The answer", "default",
                "description", "What is wrong", "content", "application/json", "schema", "$ref", "#/components/schemas/Error");
  if (brace) {
    json_object_set_new(operation, "parameters",
                        json_pack("[{s:s%, s:s, s:b, s:{s:s}}]", "name", brace + 1, strlen(brace) - 2, "in", "path", "required",
                                  1, "schema", "type", "string"));
  }
  if (!route->answer) return operation;
  json_t *body = json_pack("{s:s}", "type", "object");
  for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
    if (strcmp(samples[i].path, route->path) != 0) continue;
    json_decref(body);
    body = describe_body(maker, &samples[i]);
  }
  json_object_set_new(operation, "requestBody",
                      json_pack("{s:b, s:{s:{s:o}}}", "required", 1, "content", "application/json", "schema", body));
  json_object_set_new(json_object_get(json_object_get(operation, "responses"), "200"), "content",
                      json_pack("{s:{s:{s:s}}}", "application/json", "schema", "type", "object"));
  return operation;
}

static json_t *describe(struct maker *maker) {
  json_t *paths = json_object();
  const struct ommai_route *route;
  for (size_t i = 0; (route = ommai_route_at(i)); i++) {
    if (!ommai_route_is_offered(route, &maker->server->config)) continue;
    json_t *path = json_object();
    if (route->methods & OMMAI_METHOD_GET) json_object_set_new(path, "get", describe_operation(maker, route, false));
    if (route->methods & OMMAI_METHOD_POST) json_object_set_new(path, "post", describe_operation(maker, route, true));
    json_object_set_new(paths, route->path, path);
  }
  return json_pack("{s:s, s:{s:s, s:s}, s:o, s:{s:{s:{s:s, s:{s:{s:s, s:{s:{s:s}, s:{s:s}, s:{s:s}}}}}}}}", "openapi", "3.1.0",
                   "info", "title", "Ommatidia", "version", omma_version(), "paths", paths, "components", "schemas", "Error",
                   "type", "object", "properties", "error", "type", "object", "properties", "message", "type", "string", "type",
                   "type", "string", "code", "type", "integer");
}

static void write_bound(struct ommai_text *out, const json_t *schema, const char *key, const char *word) {
  const json_t *bound = json_object_get(schema, key);
  if (bound) ommai_text_format(out, " %s %.10g", word, json_number_value(bound));
}

/* Names and texts are the server's own constants: nothing in them is markup. */
static void write_field(struct ommai_text *out, const char *name, const json_t *schema, bool required) {
  const char *type = json_string_value(json_object_get(schema, "type")), *separator = ": ", *member;
  json_t *inner;
  ommai_text_format(out, "<tr><th align=left>%s<td>%s<td>%s", name, required ? "required" : "",
                    type                               ? type
                    : json_object_get(schema, "anyOf") ? "array or string"
                                                       : "any");
  write_bound(out, schema, "minimum", "from");
  write_bound(out, schema, "exclusiveMinimum", "above");
  write_bound(out, schema, "maximum", "to");
  json_object_foreach(json_object_get(schema, "properties"), member, inner) {
    ommai_text_format(out, "%s%s", separator, member);
    separator = ", ";
  }
  ommai_text_add(out, "\n");
}

static bool is_required(const json_t *schema, const char *name) {
  const json_t *value;
  size_t i;
  json_array_foreach(json_object_get(schema, "required"), i, value) {
    if (!strcmp(json_string_value(value), name)) return true;
  }
  return false;
}

static void write_docs(json_t *description, struct ommai_text *out) {
  json_t *operations, *operation, *schema;
  const char *path, *method, *name;
  ommai_text_add(out,
                 "<!doctype html>\n<html lang=en><meta charset=utf-8><meta name=color-scheme content=\"light dark\">"
                 "<meta name=viewport content=\"width=device-width\"><title>Ommatidia: the interface</title>\n"
                 "<h1>Ommatidia: the interface</h1>\n<p>Made from <a href=openapi.json>openapi.json</a>.\n");
  json_object_foreach(json_object_get(description, "paths"), path, operations)
      json_object_foreach(operations, method, operation) {
    ommai_text_format(out, "<h2>%s %s</h2>\n<table>\n", strcmp(method, "get") ? "POST" : "GET", path);
    const json_t *content = json_object_get(json_object_get(operation, "requestBody"), "content");
    const json_t *body = json_object_get(json_object_get(content, "application/json"), "schema");
    json_object_foreach(json_object_get(body, "properties"), name, schema)
        write_field(out, name, schema, is_required(body, name));
    ommai_text_add(out, "</table>\n");
  }
}

enum omma_status ommai_openapi_create(struct ommai_server *server, struct omma_error *error) {
  struct maker maker = {server, json_object()};
  uint64_t n_seeds = atomic_load(&server->n_seeds);
  json_t *description = describe(&maker);
  char *text = description ? json_dumps(description, JSON_COMPACT) : NULL;
  atomic_store(&server->n_seeds, n_seeds); /* the first request has the first seed */
  server->openapi = ommai_text_of(server->config.allocator);
  server->docs = ommai_text_of(server->config.allocator);
  if (text) ommai_text_add(&server->openapi, text);
  if (description) write_docs(description, &server->docs);
  bool failed = !text || server->openapi.failed || server->docs.failed;
  free(text);
  json_decref(description);
  json_decref(maker.notes);
  return failed ? ommai_fail_memory(error, "openapi", 1) : OMMA_OK;
}

static void reply(struct ommai_http_call *call, const struct ommai_text *text, const char *type) {
  struct ommai_text body = ommai_text_of(call->allocator);
  ommai_text_append(&body, text->data, text->size);
  ommai_http_call_reply(call, 200, type, &body);
}

void ommai_endpoint_openapi(struct ommai_http_call *call) { reply(call, &call->server->openapi, "application/json"); }

void ommai_endpoint_docs(struct ommai_http_call *call) {
  static const struct ommai_header headers[] = {
      {"Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"}, {"X-Content-Type-Options", "nosniff"}, {0}};
  call->reply.headers = headers;
  reply(call, &call->server->docs, "text/html; charset=utf-8");
}
