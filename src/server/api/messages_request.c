#include "server/api/other_requests.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/api/chat_draft.h"
#include "server/core/request_json.h"
#include "server/state/server_config.h"

static bool is_word(const char *word, const char *other) { return word && !strcmp(word, other); }

/* ---- system ---- */

/* Adds a text or a list of text blocks to the parts of the system message. */
static bool add_system(struct ommai_chat_draft *draft, json_t *parts, json_t *content, const char *where,
                       struct ommai_api_error *error) {
  json_t *block;
  size_t index;
  if (ommai_json_is_text(content)) {
    draft->failed |= json_array_append_new(parts, json_pack("{s:s,s:O}", "type", "text", "text", content)) != 0;
    return true;
  }
  if (!json_is_array(content)) {
    return ommai_api_fail(error, 400, where, "%s must be a string or an array, got %s.", where, ommai_json_kind(content));
  }
  json_array_foreach(content, index, block) {
    if (!is_word(json_string_value(json_object_get(block, "type")), "text")) {
      return ommai_api_fail(error, 400, where, "%s[%zu] must be a text block.", where, index);
    }
    draft->failed |= json_array_append(parts, block) != 0;
  }
  return true;
}

/* The system text and messages of that role anywhere, together and first, as vLLM does. */
static bool read_system(struct ommai_chat_draft *draft, const json_t *messages, struct ommai_api_error *error) {
  json_t *parts = json_array(), *system = ommai_field_get(draft->original, "system"), *message;
  size_t index;
  bool good = !system || add_system(draft, parts, system, "system", error);
  json_array_foreach(messages, index, message) {
    char where[OMMAI_CHAT_LOCATION_SIZE];
    json_t *content = ommai_field_get(message, "content");
    if (!good || !content || !is_word(json_string_value(json_object_get(message, "role")), "system")) continue;
    snprintf(where, sizeof where, "messages[%zu].content", index);
    good = add_system(draft, parts, content, where, error);
  }
  if (good && json_array_size(parts)) {
    ommai_chat_draft_add_message(draft, json_pack("{s:s,s:O}", "role", "system", "content", parts), "system");
  }
  json_decref(parts);
  return good;
}

/* ---- messages ---- */

/* A message while its blocks are gone through. */
struct reading {
  struct ommai_chat_draft *draft;
  const char *location; /* "messages[3]" */
  json_t *parts;        /* texts and images */
  json_t *calls;        /* tool_calls */
};

static bool add_call(struct reading *reading, const json_t *block, struct ommai_api_error *error) {
  const char *id = NULL, *name = NULL;
  json_t *input = ommai_field_get(block, "input");
  if (!ommai_field_string(block, "id", &id, error) || !ommai_field_string(block, "name", &name, error)) return false;
  if (!id || !name) return ommai_api_fail(error, 400, "messages", "%s: a tool_use needs id and name.", reading->location);
  char *arguments = input ? ommai_json_dump_large(input, JSON_COMPACT | JSON_ENCODE_ANY) : strdup("{}");
  json_t *call = arguments ? json_pack("{s:s,s:s,s:{s:s,s:s}}", "id", id, "type", "function", "function", "name", name,
                                       "arguments", arguments)
                           : NULL;
  free(arguments);
  reading->draft->failed |= json_array_append_new(reading->calls, call) != 0;
  return true;
}

/* A message of the tool's; images that it has follow with the user's own parts. */
static bool add_result(struct reading *reading, const json_t *block, struct ommai_api_error *error) {
  struct ommai_chat_draft *draft = reading->draft;
  const char *id = NULL;
  json_t *content = ommai_field_get(block, "content"), *texts = json_array(), *part;
  size_t index;
  bool good = ommai_field_string(block, "tool_use_id", &id, error);
  if (good && !id) good = ommai_api_fail(error, 400, "messages", "%s: a tool_result needs tool_use_id.", reading->location);
  if (good && ommai_json_is_text(content)) {
    draft->failed |= json_array_append_new(texts, json_pack("{s:s,s:O}", "type", "text", "text", content)) != 0;
  }
  json_array_foreach(json_is_array(content) ? content : NULL, index, part) {
    const char *type = json_string_value(json_object_get(part, "type"));
    if (good && !is_word(type, "text") && !is_word(type, "image")) {
      good = ommai_api_fail(error, 400, "messages", "%s: a tool_result of type \"%.60s\" is not supported; text and image are.",
                            reading->location, type ? type : "");
    }
    draft->failed |= json_array_append(is_word(type, "image") ? reading->parts : texts, part) != 0;
  }
  if (good) {
    ommai_chat_draft_add_message(draft, json_pack("{s:s,s:s,s:O}", "role", "tool", "tool_call_id", id, "content", texts),
                                 reading->location);
  }
  json_decref(texts);
  return good;
}

static bool add_block(struct reading *reading, json_t *block, size_t index, struct ommai_api_error *error) {
  const char *type = json_string_value(json_object_get(block, "type"));
  if (is_word(type, "thinking")) ommai_chat_draft_add_reasoning(reading->draft, json_object_get(block, "thinking"));
  if (is_word(type, "thinking") || is_word(type, "redacted_thinking")) return true;
  if (is_word(type, "tool_use")) return add_call(reading, block, error);
  if (is_word(type, "tool_result")) return add_result(reading, block, error);
  if (is_word(type, "text") || is_word(type, "image")) {
    reading->draft->failed |= json_array_append(reading->parts, block) != 0;
    return true;
  }
  return ommai_api_fail(
      error, 400, "messages",
      "%s.content[%zu]: type \"%.60s\" is not supported; text, image, thinking, tool_use and tool_result are.",
      reading->location, index, type ? type : "");
}

static bool add_blocks(struct reading *reading, json_t *role, json_t *content, struct ommai_api_error *error) {
  json_t *block;
  size_t index;
  bool good = true;
  json_array_foreach(content, index, block) {
    if (good) good = add_block(reading, block, index, error);
  }
  bool plain = json_array_size(reading->parts) > 0, calls = json_array_size(reading->calls) > 0;
  if (!good || (!plain && !calls && json_array_size(content))) return good;
  json_t *message = json_pack("{s:O,s:O}", "role", role, "content", plain || !calls ? reading->parts : json_null());
  if (calls) reading->draft->failed |= json_object_set(message, "tool_calls", reading->calls) != 0;
  ommai_chat_draft_add_message(reading->draft, message, reading->location);
  return true;
}

static bool add_message(struct ommai_chat_draft *draft, const json_t *message, size_t index, struct ommai_api_error *error) {
  char location[OMMAI_CHAT_LOCATION_SIZE];
  json_t *role = json_object_get(message, "role"), *content = ommai_field_get(message, "content");
  const char *name = json_string_value(role);
  snprintf(location, sizeof location, "messages[%zu]", index);
  if (!json_is_object(message)) {
    return ommai_api_fail(error, 400, "messages", "%s must be an object, got %s.", location, ommai_json_kind(message));
  }
  if (is_word(name, "system")) return true;
  if (!is_word(name, "user") && !is_word(name, "assistant")) {
    return ommai_api_fail(error, 400, "messages", "%s: role must be user, assistant or system, got \"%.80s\".", location,
                          name ? name : "");
  }
  if (ommai_json_is_text(content)) {
    ommai_chat_draft_add_message(draft, json_pack("{s:O,s:O}", "role", role, "content", content), location);
    return true;
  }
  if (!json_is_array(content)) {
    return ommai_api_fail(error, 400, "messages", "%s: content must be a string or an array, got %s.", location,
                          content ? ommai_json_kind(content) : "null");
  }
  struct reading reading = {draft, location, json_array(), json_array()};
  bool good = add_blocks(&reading, role, content, error);
  json_decref(reading.parts);
  json_decref(reading.calls);
  return good;
}

/* A last message of the assistant is the beginning of the answer, as Anthropic's interface
 * defines. */
static bool read_messages(struct ommai_chat_draft *draft, struct ommai_api_error *error) {
  const json_t *messages, *last;
  if (!ommai_field_array(draft->original, "messages", &messages, error)) return false;
  if (!messages) return ommai_api_fail_body(error, "body.messages", "Field required: messages.");
  if (json_array_size(messages) == 0) {
    return ommai_api_fail(error, 400, "messages", "messages must hold at least one message, got [].");
  }
  if (!read_system(draft, messages, error)) return false;
  for (size_t i = 0; i < json_array_size(messages); i++) {
    if (!add_message(draft, json_array_get(messages, i), i, error)) return false;
  }
  last = json_array_get(draft->messages, json_array_size(draft->messages) - 1);
  if (!json_object_get(last, "tool_calls")) ommai_chat_draft_continue(draft);
  return true;
}

/* ---- the answer ---- */

static bool read_limit(struct ommai_chat_draft *draft, struct ommai_api_error *error) {
  json_t *limit = ommai_field_get(draft->original, "max_tokens");
  if (!limit) return ommai_api_fail_body(error, "body.max_tokens", "Field required: max_tokens.");
  ommai_chat_draft_set(draft, "max_tokens", json_incref(limit));
  return true;
}

static bool read_stop(struct ommai_chat_draft *draft, struct ommai_api_error *error) {
  const json_t *stop;
  if (!ommai_field_array(draft->original, "stop_sequences", &stop, error)) return false;
  if (stop) ommai_chat_draft_set(draft, "stop", json_incref((json_t *)stop));
  return true;
}

/* {"type": "enabled", "budget_tokens": N}, adaptive or disabled. A server that does not separate
 * reasoning has no budget to set. */
static bool read_thinking(const struct ommai_server_config *config, struct ommai_chat_draft *draft,
                          struct ommai_api_error *error) {
  const json_t *thinking = ommai_field_get(draft->original, "thinking");
  const char *type = json_string_value(json_object_get(thinking, "type"));
  int64_t budget = -1;
  if (!thinking) return true;
  if (is_word(type, "disabled")) {
    ommai_chat_draft_set(draft, "reasoning_effort", json_string("none"));
  } else if (is_word(type, "enabled")) {
    if (!ommai_field_integer(thinking, "budget_tokens", 1, INT32_MAX, &budget, error)) {
      return ommai_api_error_prefix(error, "thinking");
    }
    if (budget < 0) {
      return ommai_api_fail(error, 400, "thinking", "thinking: budget_tokens is required with type \"enabled\".");
    }
    if (config->reasoning.on) ommai_chat_draft_set(draft, "thinking_token_budget", json_integer(budget));
  } else if (!is_word(type, "adaptive") && !is_word(type, "between_tools")) {
    return ommai_api_fail(error, 400, "thinking", "thinking: type must be enabled, adaptive or disabled, got \"%.40s\".",
                          type ? type : "");
  }
  return true;
}

/* {"format": {"type": "json_schema", "schema"}}; levels of effort are not known. */
static bool read_output(struct ommai_chat_draft *draft, struct ommai_api_error *error) {
  static const char *const known[] = {"format", "effort", NULL};
  const json_t *config;
  json_t *format;
  if (!ommai_field_object(draft->original, "output_config", known, &config, error)) return false;
  if (!config) return true;
  format = ommai_field_get(config, "format");
  const char *type = json_string_value(json_object_get(format, "type"));
  if (!format) return true;
  if (!is_word(type, "json_schema")) {
    return ommai_api_fail(error, 400, "output_config", "output_config.format: type must be json_schema, got \"%.40s\".",
                          type ? type : "");
  }
  ommai_chat_draft_set(draft, "response_format", json_pack("{s:s,s:O}", "type", "json_schema", "json_schema", format));
  return true;
}

/* ---- tools ---- */

static json_t *function_of(const json_t *tool) {
  json_t *schema = ommai_field_get(tool, "input_schema"), *description = ommai_field_get(tool, "description");
  json_t *function =
      json_pack("{s:O*,s:O*,s:O*}", "name", ommai_field_get(tool, "name"), "description", description, "parameters", schema);
  return json_pack("{s:s,s:o}", "type", "function", "function", function);
}

static bool read_tools(struct ommai_chat_draft *draft, struct ommai_api_error *error) {
  const json_t *tools, *tool;
  size_t i;
  if (!ommai_field_array(draft->original, "tools", &tools, error)) return false;
  if (json_array_size(tools) == 0) return true; /* none, as in Anthropic's API */
  json_array_foreach(tools, i, tool) {
    const char *type = json_string_value(json_object_get(tool, "type"));
    if (!json_is_object(tool) || (type && strcmp(type, "custom") != 0)) {
      return ommai_api_fail(error, 400, "tools", "tools[%zu]: type \"%.60s\" is not supported; tools of clients are.", i,
                            type ? type : "");
    }
  }
  ommai_chat_draft_set_tools(draft, tools, function_of);
  return true;
}

static bool read_tool_choice(struct ommai_chat_draft *draft, struct ommai_api_error *error) {
  const json_t *choice = ommai_field_get(draft->original, "tool_choice");
  const char *type = json_string_value(json_object_get(choice, "type")), *name = NULL;
  bool alone = false;
  if (!choice) return true;
  if (!ommai_field_boolean(choice, "disable_parallel_tool_use", &alone, error) ||
      !ommai_field_string(choice, "name", &name, error)) {
    return ommai_api_error_prefix(error, "tool_choice");
  }
  if (alone) ommai_chat_draft_set(draft, "parallel_tool_calls", json_false());
  if (is_word(type, "auto") || is_word(type, "none")) {
    ommai_chat_draft_set(draft, "tool_choice", json_string(type));
  } else if (is_word(type, "any")) {
    ommai_chat_draft_set(draft, "tool_choice", json_string("required"));
  } else if (is_word(type, "tool") && name) {
    ommai_chat_draft_set(draft, "tool_choice", json_pack("{s:s,s:{s:s}}", "type", "function", "function", "name", name));
  } else {
    return ommai_api_fail(error, 400, "tool_choice",
                          "tool_choice: type must be auto, any, none or tool with a name, got \"%.40s\".", type ? type : "");
  }
  return true;
}

/* Fields that ask for what this server does not do. */
static bool refuse_fields(const json_t *root, struct ommai_api_error *error) {
  static const char *const refused[] = {"container", "mcp_servers", "context_management"};
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
    if (!ommai_field_get(root, refused[i])) continue;
    return ommai_api_fail(error, 400, refused[i], "%s is not supported.", refused[i]);
  }
  return true;
}

bool ommai_messages_request_read(const struct ommai_server_config *config, json_t *root, bool count_only,
                                 struct ommai_chat_source *source, struct ommai_api_error *error) {
  static const char *const own[] = {"system",      "stop",          "stop_sequences", "thinking",         "tools",
                                    "tool_choice", "output_config", "user",           "reasoning_effort", NULL};
  struct ommai_chat_draft draft;
  ommai_chat_draft_begin(&draft, root, own);
  bool good = refuse_fields(root, error) && read_messages(&draft, error) && read_tools(&draft, error) &&
              read_tool_choice(&draft, error);
  if (good && !count_only) {
    good = read_limit(&draft, error) && read_stop(&draft, error) && read_thinking(config, &draft, error) &&
           read_output(&draft, error);
  }
  return ommai_chat_draft_end(&draft, good, source, error);
}
