#include "server/api/tool_request.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/api/structured_output.h"
#include "server/core/request_json.h"
#include "server/state/server_state.h"

static const char CHOICE[] = "tool_choice";

/* ---- tools ---- */

static const json_t *function_of(const json_t *tool) { return ommai_field_get(tool, "function"); }
static const char *name_of(const json_t *tool) { return json_string_value(ommai_field_get(function_of(tool), "name")); }
static json_t *parameters_of(const json_t *tool) { return ommai_field_get(function_of(tool), "parameters"); }

static bool check_tool(const json_t *tool, size_t index, struct ommai_api_error *error) {
  const char *type = NULL, *name = NULL, *description = NULL;
  const json_t *function = function_of(tool), *parameters = parameters_of(tool);
  bool good = json_is_object(tool) || ommai_api_fail(error, 400, "tools", "expected an object, got %s.", ommai_json_kind(tool));
  good = good && ommai_field_string(tool, "type", &type, error);
  if (good && type && strcmp(type, "function") != 0) {
    good = ommai_api_fail(error, 400, "tools", "type must be \"function\", got \"%.80s\".", type);
  }
  if (good && !json_is_object(function)) good = ommai_api_fail(error, 400, "tools", "function: expected an object.");
  good = good && ommai_field_string(function, "name", &name, error) &&
         ommai_field_string(function, "description", &description, error);
  if (good && (!name || !*name)) good = ommai_api_fail(error, 400, "tools", "function.name: expected a text.");
  if (good && parameters && !json_is_object(parameters)) {
    good = ommai_api_fail(error, 400, "tools", "function.parameters must be an object, got %s.", ommai_json_kind(parameters));
  }
  return good || ommai_api_error_prefix(error, "tools[%zu]", index);
}

bool ommai_tool_list_read(const json_t *root, const json_t **tools, struct ommai_api_error *error) {
  if (!ommai_field_array(root, "tools", tools, error)) return false;
  const json_t *list = *tools;
  if (json_array_size(list) > OMMAI_MAX_TOOLS) {
    return ommai_api_fail(error, 400, "tools", "tools must hold at most %d, got %zu.", OMMAI_MAX_TOOLS, json_array_size(list));
  }
  for (size_t i = 0; i < json_array_size(list); i++) {
    if (!check_tool(json_array_get(list, i), i, error)) return false;
  }
  return true;
}

static bool read_tools(const json_t *root, const json_t **tools, struct ommai_api_error *error) {
  if (!ommai_tool_list_read(root, tools, error)) return false;
  return !*tools || json_array_size(*tools) > 0 ||
         ommai_api_fail(error, 400, "tools", "tools must not be empty: give at least one, or leave the field out.");
}

static json_t *find_tool(const json_t *tools, const char *name) {
  for (size_t i = 0; i < json_array_size(tools); i++) {
    json_t *tool = json_array_get(tools, i);
    if (strcmp(name_of(tool), name) == 0) return tool;
  }
  return NULL;
}

/* ---- choice ---- */

/* {"type": "function", "function": {"name": ...}} */
static bool read_named(const json_t *choice, struct ommai_tool_request *request, struct ommai_api_error *error) {
  const char *type = json_string_value(json_object_get(choice, "type")), *name = name_of(choice);
  if (!type || strcmp(type, "function") != 0 || !name) {
    return ommai_api_fail(error, 400, CHOICE,
                          "tool_choice must be \"none\", \"auto\", \"required\" or {\"type\": \"function\", \"function\": "
                          "{\"name\": \"my_function\"}}.");
  }
  if (!find_tool(request->tools, name)) {
    return ommai_api_fail(error, 400, CHOICE, "The tool that tool_choice names, \"%.80s\", is none of tools.", name);
  }
  request->name = name;
  request->format = OMMAI_TOOLS_NAMED;
  return true;
}

static bool read_word(const struct ommai_server *server, const char *word, struct ommai_tool_request *request,
                      struct ommai_api_error *error) {
  if (!strcmp(word, "none")) {
    if (server->config.settings.exclude_tools_when_tool_choice_none || !server->config.info.chat_template_has_tools)
      request->tools = NULL;
    return true;
  }
  if (!strcmp(word, "required")) {
    request->format = OMMAI_TOOLS_LIST;
    return true;
  }
  if (strcmp(word, "auto") != 0) {
    return ommai_api_fail(error, 400, CHOICE,
                          "Invalid value for tool_choice: \"%.80s\". Only named tools, \"none\", \"auto\" and \"required\" are "
                          "supported.",
                          word);
  }
  request->format = server->config.auto_tools;
  return request->format != OMMAI_TOOLS_NONE ||
         ommai_api_fail(error, 400, CHOICE,
                        "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set");
}

static bool read_choice(const struct ommai_server *server, const json_t *root, struct ommai_tool_request *request,
                        struct ommai_api_error *error) {
  const json_t *choice = ommai_field_get(root, CHOICE);
  const char *word = choice ? json_string_value(choice) : "auto";
  if (!request->tools) {
    return !choice || (word && !strcmp(word, "none")) ||
           ommai_api_fail(error, 400, CHOICE, "When using `tool_choice`, `tools` must be set.");
  }
  return word ? read_word(server, word, request, error) : read_named(choice, request, error);
}

/* ---- grammar ---- */

/* References within a tool's schema are from its own root, which lies at `prefix` of the whole.
 * Values are not schemas. */
static bool move_references(json_t *schema, const char *prefix) {
  static const char *const values[] = {"const", "enum", "default", "examples"};
  const char *key;
  json_t *value;
  size_t index;
  if (json_is_array(schema)) {
    json_array_foreach(schema, index, value) {
      if (!move_references(value, prefix)) return false;
    }
    return true;
  }
  json_object_foreach(schema, key, value) {
    bool plain = false;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) plain |= !strcmp(key, values[i]);
    const char *target = strcmp(key, "$ref") == 0 ? json_string_value(value) : NULL;
    if (target && *target == '#') {
      if (json_object_set_new(schema, key, json_sprintf("%s%s", prefix, target + 1))) return false;
    } else if (!plain && !move_references(value, prefix)) {
      return false;
    }
  }
  return true;
}

/* Without parameters: an empty object. */
static json_t *copy_parameters(const json_t *tool) {
  json_t *parameters = parameters_of(tool);
  return parameters ? json_deep_copy(parameters) : json_pack("{s:s,s:{}}", "type", "object", "properties");
}

static json_t *call_schema(const json_t *tool, size_t index) {
  char prefix[64];
  json_t *parameters = copy_parameters(tool);
  snprintf(prefix, sizeof prefix, "#/items/anyOf/%zu/properties/parameters", index);
  if (parameters && !move_references(parameters, prefix)) {
    json_decref(parameters);
    parameters = NULL;
  }
  return json_pack("{s:s,s:{s:{s:s},s:o},s:[ss],s:b}", "type", "object", "properties", "name", "const", name_of(tool),
                   "parameters", parameters, "required", "name", "parameters", "additionalProperties", 0);
}

/* [{"name": ..., "parameters": ...}, ...] of any of the tools, as vLLM asks for it; only one
 * without parallel_tool_calls. */
static json_t *list_schema(const json_t *tools, bool parallel) {
  json_t *calls = json_array();
  for (size_t i = 0; i < json_array_size(tools); i++) {
    if (json_array_append_new(calls, call_schema(json_array_get(tools, i), i)) == 0) continue;
    json_decref(calls);
    return NULL;
  }
  json_t *schema = json_pack("{s:s,s:i,s:{s:o}}", "type", "array", "minItems", 1, "items", "anyOf", calls);
  json_object_set_new(schema, "maxItems", json_integer(parallel ? OMMAI_MAX_TOOL_CALLS : 1));
  return schema;
}

static enum omma_status compile(struct ommai_server *server, const json_t *schema, bool make, struct omma_grammar **grammar,
                                struct omma_error *cause) {
  char *text = schema ? ommai_json_dump_large(schema, JSON_COMPACT) : NULL;
  const struct omma_grammar_options options = {.kind = OMMA_GRAMMAR_JSON_SCHEMA,
                                               .text = text,
                                               .text_size = text ? strlen(text) : 0,
                                               .compact_json = server->config.settings.compact_json};
  *cause = (struct omma_error){.status = OMMA_ERROR_MEMORY};
  enum omma_status status =
      text ? ommai_grammar_cache_get(&server->grammars, server->config.model, &options, make, grammar, cause)
           : OMMA_ERROR_MEMORY;
  free(text);
  return status;
}

/* Names the tool whose schema it is, where it is one's alone. */
static bool fail_schema(struct ommai_server *server, const struct ommai_tool_request *request, bool make,
                        const struct omma_error *cause, struct ommai_api_error *error) {
  for (size_t i = 0; i < json_array_size(request->tools); i++) {
    const json_t *tool = json_array_get(request->tools, i);
    struct omma_grammar *grammar = NULL;
    struct omma_error own;
    if (request->name && strcmp(name_of(tool), request->name) != 0) continue;
    json_t *schema = copy_parameters(tool);
    enum omma_status status = compile(server, schema, make, &grammar, &own);
    json_decref(schema);
    omma_grammar_destroy(grammar);
    if (status == OMMA_OK || (status == OMMA_ERROR_BUSY && !make)) continue;
    ommai_api_fail_grammar(error, &own);
    ommai_api_error_prefix(error, "tools[%zu].function.parameters", i);
    if (error->status == 400) snprintf(error->param, sizeof error->param, "tools");
    return false;
  }
  return ommai_api_fail_grammar(error, cause);
}

static bool hold(struct ommai_server *server, const struct ommai_tool_request *request, bool parallel, bool make,
                 struct omma_grammar **grammar, struct ommai_api_error *error) {
  struct omma_grammar *made = NULL;
  struct omma_error cause;
  json_t *schema = request->format == OMMAI_TOOLS_NAMED ? copy_parameters(find_tool(request->tools, request->name))
                                                        : list_schema(request->tools, parallel);
  enum omma_status status = compile(server, schema, make, &made, &cause);
  json_decref(schema);
  if (status == OMMA_ERROR_BUSY) return ommai_api_fail_grammar(error, &cause);
  if (status != OMMA_OK) return fail_schema(server, request, make, &cause, error);
  omma_grammar_destroy(*grammar);
  *grammar = made;
  return true;
}

bool ommai_tool_request_read(struct ommai_server *server, const json_t *root, bool make, struct ommai_tool_request *request,
                             struct omma_grammar **grammar, struct ommai_api_error *error) {
  bool parallel = true;
  *request = (struct ommai_tool_request){.format = OMMAI_TOOLS_NONE};
  if (!read_tools(root, &request->tools, error) || !read_choice(server, root, request, error) ||
      !ommai_field_boolean(root, "parallel_tool_calls", &parallel, error)) {
    return false;
  }
  bool must_call = request->format == OMMAI_TOOLS_LIST || request->format == OMMAI_TOOLS_NAMED;
  return !must_call || hold(server, request, parallel, make, grammar, error);
}
