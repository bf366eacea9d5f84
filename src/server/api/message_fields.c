#include "server/api/message_fields.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/core/request_json.h"

bool ommai_json_text_keep(const json_t *value, json_t *texts, const char **text, struct ommai_api_error *error) {
  *text = NULL;
  if (!value) return true;
  char *dumped = ommai_json_dump_large(value, JSON_COMPACT);
  json_t *kept = dumped ? json_string_nocheck(dumped) : NULL;
  free(dumped);
  if (!kept || json_array_append_new(texts, kept)) return ommai_api_fail_memory(error);
  *text = json_string_value(kept);
  return true;
}

/* An object as it is; a text of one, as OpenAI's interface has it, parsed. Nothing: an empty
 * object. */
static bool read_arguments(const json_t *call, const char *where, json_t **arguments, struct ommai_api_error *error) {
  json_t *given = ommai_field_get(ommai_field_get(call, "function"), "arguments");
  json_error_t reason;
  bool no_memory = false;
  if (!given || (ommai_json_is_text(given) && !json_string_length(given))) {
    *arguments = json_object();
  } else if (ommai_json_is_text(given)) {
    *arguments =
        ommai_json_parse_large(json_string_value(given), json_string_length(given), JSON_ALLOW_NUL, true, &reason, &no_memory);
  } else {
    *arguments = json_incref(given);
  }
  if (no_memory) return ommai_api_fail_memory(error);
  return *arguments || ommai_api_fail(error, 400, "messages", "%s: arguments must be the text of a JSON object.", where);
}

static bool add_call(const json_t *call, const char *where, json_t *list, struct ommai_api_error *error) {
  const json_t *function = ommai_field_get(call, "function");
  json_t *arguments = NULL;
  if (!json_string_length(ommai_field_get(function, "name"))) {
    return ommai_api_fail(error, 400, "messages", "%s has no function with a name.", where);
  }
  if (!read_arguments(call, where, &arguments, error)) return false;
  json_t *copy = json_deep_copy(call);
  bool failed = json_object_set_new(json_object_get(copy, "function"), "arguments", arguments) != 0;
  failed |= json_array_append_new(list, copy) != 0;
  return !failed || ommai_api_fail_memory(error);
}

static bool add_calls(const json_t *message, const char *where, json_t *fields, struct ommai_api_error *error) {
  const json_t *calls = ommai_field_get(message, "tool_calls");
  char location[128];
  if (!calls) return true;
  if (!json_is_array(calls)) {
    return ommai_api_fail(error, 400, "messages", "%s: tool_calls must be an array, got %s.", where, ommai_json_kind(calls));
  }
  if (json_array_size(calls) == 0) return true;
  json_t *list = json_array();
  if (json_object_set_new(fields, "tool_calls", list)) return ommai_api_fail_memory(error);
  for (size_t i = 0; i < json_array_size(calls); i++) {
    snprintf(location, sizeof location, "%s.tool_calls[%zu]", where, i);
    if (!add_call(json_array_get(calls, i), location, list, error)) return false;
  }
  return true;
}

/* By both of its names: templates ask for either. */
static bool add_reasoning(const json_t *message, json_t *fields, struct ommai_api_error *error) {
  json_t *reasoning = ommai_field_get(message, "reasoning_content");
  if (!reasoning) reasoning = ommai_field_get(message, "reasoning");
  if (!json_string_length(reasoning)) return true;
  return (json_object_set(fields, "reasoning_content", reasoning) == 0 &&
          json_object_set(fields, "reasoning", reasoning) == 0) ||
         ommai_api_fail_memory(error);
}

static bool add_texts_of_tool(const json_t *message, const char *where, json_t *fields, struct ommai_api_error *error) {
  static const char *const keys[] = {"tool_call_id", "name"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    json_t *value = ommai_field_get(message, keys[i]);
    if (!value) continue;
    if (!ommai_json_is_text(value)) {
      return ommai_api_fail(error, 400, "messages", "%s: %s must be a string, got %s.", where, keys[i], ommai_json_kind(value));
    }
    if (json_object_set(fields, keys[i], value)) return ommai_api_fail_memory(error);
  }
  return true;
}

bool ommai_message_fields_read(const json_t *message, const char *where, enum omma_role role, json_t *texts,
                               const char **fields, struct ommai_api_error *error) {
  *fields = NULL;
  if (role != OMMA_ROLE_ASSISTANT && role != OMMA_ROLE_TOOL) return true;
  json_t *object = json_object();
  bool good = object || ommai_api_fail_memory(error);
  if (role == OMMA_ROLE_TOOL) {
    good = good && add_texts_of_tool(message, where, object, error);
  } else {
    good = good && add_calls(message, where, object, error) && add_reasoning(message, object, error);
  }
  good = good && ommai_json_text_keep(json_object_size(object) ? object : NULL, texts, fields, error);
  json_decref(object);
  return good;
}
