#include "server/api/vector_requests.h"

#include <inttypes.h>
#include <omma/vectors.h>
#include <string.h>

#include "base/json.h"
#include "base/json_writer.h"
#include "base/plural.h"
#include "server/core/request_json.h"
#include "server/state/server_config.h"

/* In the order in which replies have them. */
static const char *const types[] = {"float", "binary", "ubinary", "base64", NULL};

enum { NONE, START, END };
static const char *const truncations[] = {"NONE", "START", "END", NULL};

/* Strings and values belong to the request. */
struct sent {
  const char *field; /* of the inputs: texts, images or inputs */
  const json_t *list;
  const char *prompt; /* of its input_type; NULL: none */
  const json_t *types;
  int truncate; /* by its place among `truncations` */
  int64_t max_tokens, dimensions;
};

/* ---- reading ---- */

static bool read_inputs(const json_t *root, struct sent *sent, struct ommai_api_error *error) {
  static const char *const fields[] = {"texts", "images", "inputs"};
  int n_given = 0;
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    const json_t *list;
    if (!ommai_field_array(root, fields[i], &list, error)) return false;
    if (!list) continue;
    n_given++;
    sent->field = fields[i];
    sent->list = list;
  }
  if (n_given == 1 && json_array_size(sent->list)) return true;
  return ommai_api_fail_body(error, "body",
                             "Exactly one of texts, images, or inputs must be provided, and it must be non-empty");
}

static bool find_prompt(const struct ommai_server_config *config, const char *type, struct sent *sent,
                        struct ommai_api_error *error) {
  char known[300] = "";
  const char *name;
  if (!type) return true;
  for (size_t i = 0; (name = omma_model_input_type(config->model, i)); i++) ommai_list_entry(known, sizeof known, "%s", name);
  sent->prompt = omma_model_input_prompt(config->model, type);
  if (sent->prompt) return true;
  return known[0]
             ? ommai_api_fail(error, 400, "input_type", "Unsupported input_type '%.40s'. Supported values: %s", type, known)
             : ommai_api_fail(error, 400, "input_type",
                              "Unsupported input_type '%.40s'. This model does not define any input_type task instructions.",
                              type);
}

static bool read_types(const json_t *root, struct sent *sent, struct ommai_api_error *error) {
  static const char FIELD[] = "embedding_types";
  const json_t *type;
  size_t i;
  if (!ommai_field_array(root, FIELD, &sent->types, error)) return false;
  json_array_foreach(sent->types, i, type) {
    const char *word = json_string_value(type);
    if (word && ommai_word_is_among(word, types)) continue;
    return ommai_api_fail(error, 400, FIELD,
                          "%s[%zu] must be one of \"float\", \"binary\", \"ubinary\", \"base64\", got %.40s.", FIELD, i,
                          word ? word : ommai_json_kind(type));
  }
  return true;
}

static bool read_sent(const struct ommai_server_config *config, const json_t *root, struct sent *sent,
                      struct ommai_api_error *error) {
  const char *model = NULL, *type = NULL;
  int64_t priority = 0;
  if (!ommai_field_string(root, "model", &model, error) ||
      !ommai_field_integer(root, "priority", INT32_MIN, INT32_MAX, &priority, error) || !read_inputs(root, sent, error) ||
      !ommai_field_string(root, "input_type", &type, error) ||
      !ommai_field_integer(root, "output_dimension", 1, INT32_MAX, &sent->dimensions, error) ||
      !read_types(root, sent, error) || !ommai_field_integer(root, "max_tokens", 1, INT32_MAX, &sent->max_tokens, error) ||
      !ommai_field_word(root, "truncate", truncations, &sent->truncate, error)) {
    return false;
  }
  return find_prompt(config, type, sent, error);
}

/* ---- as a request for /v1/embeddings ---- */

static json_t *text_part(const char *text) { return json_pack("{s:s,s:s}", "type", "text", "text", text); }

static json_t *image_part(const char *url) { return json_pack("{s:s,s:{s:s}}", "type", "image_url", "image_url", "url", url); }

/* A part of an input; NULL with *error filled. */
static json_t *copy_part(const json_t *part, const char *where, struct ommai_api_error *error) {
  const char *type = json_string_value(json_object_get(part, "type"));
  const char *text = json_string_value(json_object_get(part, "text"));
  const char *url = json_string_value(json_object_get(json_object_get(part, "image_url"), "url"));
  bool is_text = type && strcmp(type, "text") == 0, is_image = type && strcmp(type, "image_url") == 0;
  json_t *copy = is_text && text ? text_part(text) : is_image && url ? image_part(url) : NULL;
  if (!copy) {
    ommai_api_fail(error, 400, "inputs",
                   "%s must be {\"type\": \"text\", \"text\": ...} or {\"type\": \"image_url\", "
                   "\"image_url\": {\"url\": ...}}.",
                   where);
  }
  return copy;
}

/* The parts of input i; NULL with *error filled. */
static json_t *parts_of(const struct sent *sent, size_t index, struct ommai_api_error *error) {
  const json_t *item = json_array_get(sent->list, index), *content = json_object_get(item, "content"), *part;
  char where[64];
  size_t i;
  if (strcmp(sent->field, "inputs") != 0) {
    const char *word = json_string_value(item);
    bool images = strcmp(sent->field, "images") == 0;
    if (word) return json_pack("[o]", images ? image_part(word) : text_part(word));
    ommai_api_fail(error, 400, sent->field, "%s[%zu] must be a string, got %s.", sent->field, index, ommai_json_kind(item));
    return NULL;
  }
  if (!json_is_array(content)) {
    ommai_api_fail(error, 400, "inputs", "inputs[%zu] must be an object with content, an array of parts.", index);
    return NULL;
  }
  json_t *parts = json_array();
  json_array_foreach(content, i, part) {
    snprintf(where, sizeof where, "inputs[%zu].content[%zu]", index, i);
    json_t *copy = copy_part(part, where, error);
    if (copy && json_array_append_new(parts, copy) == 0) continue;
    if (copy) ommai_api_fail_memory(error);
    json_decref(parts);
    return NULL;
  }
  return parts;
}

/* A conversation for each input; NULL with *error filled. */
static json_t *conversations_of(const struct sent *sent, struct ommai_api_error *error) {
  json_t *list = json_array();
  for (size_t i = 0; i < json_array_size(sent->list); i++) {
    json_t *parts = parts_of(sent, i, error), *user = parts ? json_pack("{s:s,s:o}", "role", "user", "content", parts) : NULL;
    json_t *messages = user && sent->prompt
                           ? json_pack("[{s:s,s:[o]},o]", "role", "system", "content", text_part(sent->prompt), user)
                       : user ? json_pack("[o]", user)
                              : NULL;
    if (messages && json_array_append_new(list, messages) == 0) continue;
    if (parts) ommai_api_fail_memory(error);
    json_decref(list);
    return NULL;
  }
  return list;
}

static bool are_texts(const struct sent *sent, struct ommai_api_error *error) {
  const json_t *text;
  size_t i;
  json_array_foreach(sent->list, i, text) {
    if (ommai_json_is_text(text)) continue;
    return ommai_api_fail(error, 400, sent->field, "%s[%zu] must be a string, got %s.", sent->field, i, ommai_json_kind(text));
  }
  return true;
}

/* END and START cut to max_tokens, or to what the context holds; with NONE the reply is refused
 * where a prompt is longer than max_tokens. */
static bool set_truncation(const struct sent *sent, json_t *out) {
  json_int_t limit = sent->max_tokens ? (json_int_t)sent->max_tokens : -1;
  if (sent->truncate == NONE) return !sent->max_tokens || json_object_set_new(out, "max_tokens", json_integer(limit)) == 0;
  return json_object_set_new(out, "truncate_prompt_tokens", json_integer(limit)) == 0 &&
         json_object_set_new(out, "truncation_side", json_string(sent->truncate == START ? "left" : "right")) == 0;
}

json_t *ommai_cohere_embed_read(const struct ommai_server_config *config, const json_t *root, struct ommai_api_error *error) {
  static const char *const kept[] = {"model", "priority", "texts", "embedding_types"};
  struct sent sent = {.truncate = END};
  if (!read_sent(config, root, &sent, error)) return NULL;
  /* As in vLLM a text without a prompt has no form at all. */
  bool bare = strcmp(sent.field, "texts") == 0 && !(sent.prompt && *sent.prompt);
  if (bare && !are_texts(&sent, error)) return NULL;
  if (sent.prompt && !*sent.prompt) sent.prompt = NULL;
  json_t *conversations = bare ? NULL : conversations_of(&sent, error);
  if (!bare && !conversations) return NULL;
  json_t *out = json_object();
  bool good = out && (bare ? json_object_set(out, "input", (json_t *)sent.list)
                           : json_object_set_new(out, "messages", conversations)) == 0;
  for (size_t i = 0; good && i < sizeof kept / sizeof *kept; i++) {
    json_t *value = ommai_field_get(root, kept[i]);
    good = !value || json_object_set(out, kept[i], value) == 0;
  }
  good = good && (!sent.dimensions || json_object_set_new(out, "dimensions", json_integer((json_int_t)sent.dimensions)) == 0) &&
         json_object_set_new(out, "sent_as", json_string(sent.field)) == 0 && set_truncation(&sent, out);
  if (good) return out;
  json_decref(out);
  ommai_api_fail_memory(error);
  return NULL;
}

/* ---- replying ---- */

static bool wants(const struct ommai_vector_reply *reply, const char *name) {
  const json_t *list = json_object_get(reply->root, "embedding_types"), *type;
  size_t i;
  if (json_array_size(list) == 0) return strcmp(name, "float") == 0;
  json_array_foreach(list, i, type) {
    if (strcmp(json_string_value(type), name) == 0) return true;
  }
  return false;
}

bool ommai_cohere_embed_check(const struct ommai_vector_reply *reply, struct ommai_api_error *error) {
  json_int_t limit = json_integer_value(json_object_get(reply->root, "max_tokens"));
  for (size_t i = 0; limit && i < reply->inputs->n; i++) {
    int64_t n = reply->results[i].n_tokens;
    if (n <= limit) continue;
    return ommai_api_fail(error, 400, "max_tokens",
                          "Input of %" PRId64 " tokens exceeds max_tokens=%" PRId64
                          " with truncate=NONE. Set truncate to END or START to allow truncation.",
                          n, (int64_t)limit);
  }
  int64_t width = reply->results[0].width;
  if (width % 8 == 0 || (!wants(reply, "binary") && !wants(reply, "ubinary"))) return true;
  return ommai_api_fail(error, 400, "embedding_types",
                        "Embedding dimension must be a multiple of 8 for binary embedding types, but got %" PRId64 ".", width);
}

/* A bit for each entry, set where it is 0 or more, the first one highest. */
static void add_bits(struct ommai_text *out, const struct ommai_vector_result *result, int offset) {
  ommai_put_begin(out, NULL, "[");
  for (int64_t i = 0; i < result->width; i += 8) {
    int bits = 0;
    for (int64_t j = 0; j < 8; j++) bits = 2 * bits + (result->values[i + j] >= 0);
    ommai_put_integer(out, NULL, bits - offset);
  }
  ommai_put_end(out, "]");
}

static void add_vector(const struct ommai_vector_reply *reply, const struct ommai_vector_result *result, int type,
                       struct ommai_text *out) {
  switch (type) {
    case 0: ommai_vector_add_floats(out, NULL, result->values, result->width); break;
    case 1: add_bits(out, result, 128); break;
    case 2: add_bits(out, result, 0); break;
    default: ommai_vector_add_base64(out, NULL, reply->fields, result->values, result->width);
  }
}

static void add_vectors(const struct ommai_vector_reply *reply, struct ommai_text *out) {
  ommai_put_begin(out, "embeddings", "{");
  for (int type = 0; types[type]; type++) {
    if (!wants(reply, types[type])) continue;
    ommai_put_begin(out, types[type], "[");
    for (size_t i = 0; i < reply->inputs->n; i++) add_vector(reply, &reply->results[i], type, out);
    ommai_put_end(out, "]");
  }
  ommai_put_end(out, "}");
}

void ommai_cohere_embed_write(const struct ommai_vector_reply *reply, struct ommai_text *out) {
  const json_t *texts = json_object_get(reply->root, "texts"), *text;
  int64_t n_tokens = 0;
  size_t i;
  for (i = 0; i < reply->inputs->n; i++) n_tokens += reply->results[i].n_tokens;
  ommai_put_begin(out, NULL, "{");
  ommai_put_string(out, "id", reply->id);
  add_vectors(reply, out);
  if (texts) ommai_put_begin(out, "texts", "[");
  json_array_foreach(texts, i, text) ommai_put_text(out, NULL, json_string_value(text), json_string_length(text));
  if (texts) ommai_put_end(out, "]");
  /* as vLLM counts them: all where there is an image */
  const json_int_t of_images = reply->inputs->has_media ? n_tokens : 0;
  ommai_put_new(out, "meta",
                json_pack("{s:{s:s},s:{s:I,s:I}}", "api_version", "version", "2", "billed_units", "input_tokens",
                          (json_int_t)n_tokens - of_images, "image_tokens", of_images));
  ommai_put_string(out, "response_type", "embeddings_by_type");
  ommai_put_end(out, "}");
}
