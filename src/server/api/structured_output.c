#include "server/api/structured_output.h"

#include <string.h>

#include "base/json.h"
#include "base/json_writer.h"
#include "server/core/request_json.h"
#include "server/state/server_state.h"

/* The one wish of a request. */
struct wish {
  struct omma_grammar_options options;
  const json_t *value; /* the text, or what becomes it; NULL: no text */
  char field[64];      /* that it came from, for errors; empty: there is none */
};

static bool set_wish(struct wish *wish, enum omma_grammar_kind kind, const json_t *value, const char *field, const char *key,
                     struct ommai_api_error *error) {
  if (wish->field[0]) {
    return ommai_api_fail(error, 400, field, "%s%s%s: the form of the answer is set by %s already; only one may set it.", field,
                          key ? "." : "", key ? key : "", wish->field);
  }
  wish->options.kind = kind;
  wish->value = value;
  snprintf(wish->field, sizeof wish->field, "%s%s%s", field, key ? "." : "", key ? key : "");
  return true;
}

/* ---- fields ---- */

/* {"type": "json_schema", "json_schema": {"name", "schema", "strict", "description"}}; strict or
 * not, answers are held to it. */
static bool read_json_schema(const json_t *format, struct wish *wish, struct ommai_api_error *error) {
  static const char FIELD[] = "response_format";
  static const char *const known[] = {"name", "schema", "strict", "description", "type", NULL};
  const json_t *holder = ommai_field_get(format, "json_schema"), *schema = ommai_field_get(holder, "schema");
  if (!holder) return ommai_api_fail(error, 400, FIELD, "response_format: json_schema must be an object, got null.");
  if (!ommai_field_members(holder, FIELD, "response_format: json_schema", known, error)) return false;
  if (!schema) return ommai_api_fail(error, 400, FIELD, "response_format: json_schema has no schema.");
  return set_wish(wish, OMMA_GRAMMAR_JSON_SCHEMA, schema, FIELD, "json_schema.schema", error);
}

static bool read_response_format(const json_t *root, struct wish *wish, struct ommai_api_error *error) {
  static const char FIELD[] = "response_format";
  static const char *const known[] = {"type", "json_schema", NULL};
  const json_t *format;
  const char *type = NULL;
  if (!ommai_field_object(root, FIELD, known, &format, error)) return false;
  if (!format) return true;
  if (!ommai_field_string(format, "type", &type, error)) return false;
  if (type && !strcmp(type, "text")) return true;
  if (type && !strcmp(type, "json_object")) return set_wish(wish, OMMA_GRAMMAR_JSON_OBJECT, NULL, FIELD, NULL, error);
  if (type && !strcmp(type, "json_schema")) return read_json_schema(format, wish, error);
  return ommai_api_fail(error, 400, FIELD,
                        "response_format type \"%.40s\" is not supported; \"text\", \"json_object\" and \"json_schema\" are.",
                        type ? type : "");
}

static const struct {
  const char *key, *old_field;
  enum omma_grammar_kind kind;
} WAYS[] = {{"json", "guided_json", OMMA_GRAMMAR_JSON_SCHEMA},
            {"regex", "guided_regex", OMMA_GRAMMAR_REGEX},
            {"choice", "guided_choice", OMMA_GRAMMAR_CHOICE},
            {"grammar", "guided_grammar", OMMA_GRAMMAR_GBNF},
            {"json_object", "guided_json_object", OMMA_GRAMMAR_JSON_OBJECT}};
enum { N_WAYS = sizeof WAYS / sizeof WAYS[0] };

static bool read_old_fields(const json_t *root, struct wish *wish, struct ommai_api_error *error) {
  for (size_t i = 0; i < N_WAYS; i++) {
    const json_t *value = ommai_field_get(root, WAYS[i].old_field);
    if (!ommai_field_is_neutral(value) && !set_wish(wish, WAYS[i].kind, value, WAYS[i].old_field, NULL, error)) return false;
  }
  const json_t *pattern = ommai_field_get(root, "guided_whitespace_pattern");
  return !pattern || ommai_api_fail(error, 400, "guided_whitespace_pattern", "guided_whitespace_pattern is not supported.");
}

static bool is_way(const char *key) {
  for (size_t i = 0; i < N_WAYS; i++) {
    if (!strcmp(WAYS[i].key, key)) return true;
  }
  return false;
}

/* disable_fallback and disable_additional_properties are what is done anyway. */
static bool check_keys(const json_t *object, struct ommai_api_error *error) {
  const char *key;
  json_t *value;
  bool flag;
  json_object_foreach((json_t *)object, key, value) {
    bool is_flag = !strcmp(key, "disable_fallback") || !strcmp(key, "disable_additional_properties") ||
                   !strcmp(key, "disable_any_whitespace");
    if (is_flag && !ommai_field_boolean(object, key, &flag, error)) return false;
    if (is_flag || is_way(key) || json_is_null(value)) continue;
    return ommai_api_fail(error, 400, "structured_outputs",
                          "structured_outputs: \"%.40s\" is not supported; json, regex, choice, grammar and json_object are.",
                          key);
  }
  return true;
}

static bool read_structured_outputs(const json_t *root, struct wish *wish, struct ommai_api_error *error) {
  static const char FIELD[] = "structured_outputs";
  const json_t *object = ommai_field_get(root, FIELD);
  if (ommai_field_is_neutral(object)) return true;
  if (!ommai_field_members(object, FIELD, FIELD, NULL, error) || !check_keys(object, error)) return false;
  for (size_t i = 0; i < N_WAYS; i++) {
    const json_t *value = ommai_field_get(object, WAYS[i].key);
    if (!ommai_field_is_neutral(value) && !set_wish(wish, WAYS[i].kind, value, FIELD, WAYS[i].key, error)) return false;
  }
  if (!wish->field[0]) {
    return ommai_api_fail(error, 400, FIELD,
                          "structured_outputs must have one of json, regex, choice, grammar and json_object.");
  }
  return ommai_field_boolean(object, "disable_any_whitespace", &wish->options.compact_json, error);
}

/* ---- compilation ---- */

/* A schema may be an object or the text of one; a pattern or grammar is a text, a choice a list. */
static bool write_value(const struct wish *wish, struct ommai_text *text, struct ommai_api_error *error) {
  const json_t *value = wish->value;
  enum omma_grammar_kind kind = wish->options.kind;
  bool as_text = kind == OMMA_GRAMMAR_REGEX || kind == OMMA_GRAMMAR_GBNF ||
                 (kind == OMMA_GRAMMAR_JSON_SCHEMA && ommai_json_is_text(value));
  if (!value || kind == OMMA_GRAMMAR_JSON_OBJECT) return true;
  if (as_text && !ommai_json_is_text(value)) {
    return ommai_api_fail(error, 400, wish->field, "%s must be a string, got %s.", wish->field, ommai_json_kind(value));
  }
  if (as_text) {
    ommai_text_append(text, json_string_value(value), json_string_length(value));
  } else {
    ommai_put_value(text, NULL, value, 0);
  }
  text->size = ommai_json_restore(text->data, text->size);
  return !text->failed || ommai_api_fail_memory(error);
}

bool ommai_api_fail_grammar(struct ommai_api_error *error, const struct omma_error *cause) {
  if (cause->status != OMMA_ERROR_BUSY) return ommai_api_fail_from(error, cause);
  return ommai_api_fail(error, 503, NULL, "The form of the answer: %s. Try again later.", cause->message);
}

static bool compile(struct ommai_server *server, struct wish *wish, bool make, struct omma_grammar **grammar,
                    struct ommai_api_error *error) {
  struct omma_error cause = {0};
  char field[64];
  struct ommai_text text = ommai_text_of(server->config.allocator);
  bool good = write_value(wish, &text, error);
  wish->options.text = text.data ? text.data : "";
  wish->options.text_size = text.size;
  if (good &&
      ommai_grammar_cache_get(&server->grammars, server->config.model, &wish->options, make, grammar, &cause) != OMMA_OK) {
    good = ommai_api_fail_grammar(error, &cause);
    ommai_api_error_prefix(error, "%s", wish->field);
    memcpy(field, wish->field, sizeof field);
    field[strcspn(field, ".")] = '\0';
    if (error->status == 400) memcpy(error->param, field, sizeof error->param);
  }
  ommai_text_free(&text);
  return good;
}

bool ommai_structured_output_read(struct ommai_server *server, const json_t *root, bool make, struct omma_grammar **grammar,
                                  struct ommai_api_error *error) {
  struct wish wish = {.options.compact_json = server->config.settings.compact_json};
  *grammar = NULL;
  if (!read_response_format(root, &wish, error) || !read_structured_outputs(root, &wish, error) ||
      !read_old_fields(root, &wish, error)) {
    return false;
  }
  return !wish.field[0] || compile(server, &wish, make, grammar, error);
}
