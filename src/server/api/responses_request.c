#include "server/api/other_requests.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/json_writer.h"
#include "server/api/chat_draft.h"
#include "server/core/request_json.h"

/* ---- what is refused ---- */

/* Fields that ask for what this server does not do. */
static bool refuse_fields(const json_t *root, struct ommai_api_error *error) {
  static const struct {
    const char *key, *why;
  } refused[] = {
      {"previous_response_id", "responses are not stored: send the conversation in input"},
      {"conversation", "conversations are not stored: send the conversation in input"},
      {"prompt", "prompt templates are not stored: send instructions and input"},
      {"previous_input_messages", "send the conversation in input"},
      {"previous_response", "send the conversation in input"},
      {"context_management", "the conversation is taken as it is"},
      {"moderation", "nothing is moderated here"},
  };
  const char *truncation = NULL;
  bool background = false, messages = false;
  int64_t n = 1;
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
    if (!ommai_field_get(root, refused[i].key)) continue;
    return ommai_api_fail(error, 400, refused[i].key, "%s is not supported: %s.", refused[i].key, refused[i].why);
  }
  if (!ommai_field_boolean(root, "background", &background, error) ||
      !ommai_field_boolean(root, "enable_response_messages", &messages, error) ||
      !ommai_field_string(root, "truncation", &truncation, error) || !ommai_field_integer(root, "n", 1, 1, &n, error)) {
    return false;
  }
  if (background)
    return ommai_api_fail(error, 400, "background", "background true is not supported: responses are not stored.");
  if (messages) {
    return ommai_api_fail(error, 400, "enable_response_messages", "enable_response_messages true is not supported.");
  }
  if (!truncation || !strcmp(truncation, "disabled")) return true;
  return ommai_api_fail(error, 400, "truncation", "truncation \"%.40s\" is not supported; \"disabled\" is.", truncation);
}

/* ---- input ---- */

static bool is_unfinished(const json_t *item) {
  const char *status = json_string_value(json_object_get(item, "status"));
  return status && (!strcmp(status, "incomplete") || !strcmp(status, "in_progress"));
}

static void add_message(struct ommai_chat_draft *draft, const json_t *item, const char *location) {
  json_t *role = json_object_get(item, "role"), *content = json_object_get(item, "content"), *message = json_object();
  bool good =
      (!role || json_object_set(message, "role", role) == 0) && (!content || json_object_set(message, "content", content) == 0);
  draft->failed |= !good;
  ommai_chat_draft_add_message(draft, message, location);
}

static bool add_call(struct ommai_chat_draft *draft, const json_t *item, const char *location, struct ommai_api_error *error) {
  const char *id = NULL, *name = NULL, *arguments = NULL;
  if (!ommai_field_string(item, "call_id", &id, error) || !ommai_field_string(item, "name", &name, error) ||
      !ommai_field_string(item, "arguments", &arguments, error)) {
    return ommai_api_error_prefix(error, "%s", location);
  }
  if (!id || !name || !arguments) {
    return ommai_api_fail(error, 400, "input", "%s: a function_call needs call_id, name and arguments.", location);
  }
  ommai_chat_draft_add_call(
      draft, json_pack("{s:s,s:s,s:{s:s,s:s}}", "id", id, "type", "function", "function", "name", name, "arguments", arguments),
      location);
  return true;
}

static bool add_output(struct ommai_chat_draft *draft, const json_t *item, const char *location,
                       struct ommai_api_error *error) {
  const char *id = NULL;
  json_t *output = ommai_field_get(item, "output");
  if (!ommai_field_string(item, "call_id", &id, error)) return ommai_api_error_prefix(error, "%s", location);
  if (!id || !output) {
    return ommai_api_fail(error, 400, "input", "%s: a function_call_output needs call_id and output.", location);
  }
  ommai_chat_draft_add_message(draft, json_pack("{s:s,s:s,s:O}", "role", "tool", "tool_call_id", id, "content", output),
                               location);
  return true;
}

/* Its text, else its summary; the chat template decides what becomes of it. */
static void add_reasoning(struct ommai_chat_draft *draft, const json_t *item) {
  const json_t *content = json_object_get(item, "content"), *part;
  size_t index;
  if (!json_array_size(content)) content = json_object_get(item, "summary");
  json_array_foreach(content, index, part) ommai_chat_draft_add_reasoning(draft, json_object_get(part, "text"));
}

static bool add_item(struct ommai_chat_draft *draft, const json_t *item, size_t index, struct ommai_api_error *error) {
  char location[OMMAI_CHAT_LOCATION_SIZE];
  const char *type = NULL;
  snprintf(location, sizeof location, "input[%zu]", index);
  if (!json_is_object(item)) {
    return ommai_api_fail(error, 400, "input", "%s must be an object, got %s.", location, ommai_json_kind(item));
  }
  if (!ommai_field_string(item, "type", &type, error)) return ommai_api_error_prefix(error, "%s", location);
  if (type && !strcmp(type, "reasoning")) {
    add_reasoning(draft, item);
    return true;
  }
  if (type && !strcmp(type, "function_call")) return add_call(draft, item, location, error);
  if (type && !strcmp(type, "function_call_output")) return add_output(draft, item, location, error);
  if (type && strcmp(type, "message") != 0) {
    return ommai_api_fail(
        error, 400, "input",
        "%s: type \"%.60s\" is not supported; message, reasoning, function_call and function_call_output are.", location, type);
  }
  add_message(draft, item, location);
  return true;
}

static bool read_input(struct ommai_chat_draft *draft, struct ommai_api_error *error) {
  const json_t *root = draft->original;
  json_t *input = ommai_field_get(root, "input");
  const char *instructions = NULL;
  size_t n = json_array_size(input);
  if (!ommai_field_string(root, "instructions", &instructions, error)) return false;
  if (instructions && *instructions) {
    ommai_chat_draft_add_message(draft, json_pack("{s:s,s:s}", "role", "system", "content", instructions), "instructions");
  }
  if (!input) return ommai_api_fail_body(error, "body.input", "Field required: input.");
  if (ommai_json_is_text(input)) {
    ommai_chat_draft_add_message(draft, json_pack("{s:s,s:O}", "role", "user", "content", input), "input");
    return true;
  }
  if (!json_is_array(input)) {
    return ommai_api_fail(error, 400, "input", "input must be a string or an array, got %s.", ommai_json_kind(input));
  }
  if (n == 0) return ommai_api_fail(error, 400, "input", "input must hold at least one item, got [].");
  for (size_t i = 0; i < n; i++) {
    if (!add_item(draft, json_array_get(input, i), i, error)) return false;
  }
  if (is_unfinished(json_array_get(input, n - 1))) ommai_chat_draft_continue(draft);
  return true;
}

/* ---- the form of the answer, tools, reasoning ---- */

/* {"format": {"type": "json_schema", "name", "schema", "strict"}} */
static bool read_text(struct ommai_chat_draft *draft, struct ommai_api_error *error) {
  const json_t *text;
  json_t *format;
  if (!ommai_field_object(draft->original, "text", NULL, &text, error)) return false;
  if (!text) return true;
  format = ommai_field_get(text, "format");
  const char *type = json_string_value(json_object_get(format, "type"));
  if (!format) return true;
  if (type && !strcmp(type, "json_schema")) {
    ommai_chat_draft_set(draft, "response_format", json_pack("{s:s,s:O}", "type", "json_schema", "json_schema", format));
  } else {
    ommai_chat_draft_set(draft, "response_format", json_incref(format));
  }
  return true;
}

static json_t *nested_tool(const json_t *tool) {
  json_t *function = json_copy((json_t *)tool);
  json_object_del(function, "type");
  return json_pack("{s:s,s:o}", "type", "function", "function", function);
}

static bool read_tools(struct ommai_chat_draft *draft, struct ommai_api_error *error) {
  const json_t *tools, *tool;
  size_t i;
  if (!ommai_field_array(draft->original, "tools", &tools, error)) return false;
  json_array_foreach(tools, i, tool) {
    const char *type = json_string_value(json_object_get(tool, "type"));
    if (type && strcmp(type, "function") == 0) continue;
    return ommai_api_fail(error, 400, "tools", "tools[%zu]: type \"%.60s\" is not supported; \"function\" is.", i,
                          type ? type : "");
  }
  /* an empty list is refused with the chat */
  if (tools) ommai_chat_draft_set_tools(draft, tools, nested_tool);
  return true;
}

static bool read_tool_choice(struct ommai_chat_draft *draft, struct ommai_api_error *error) {
  json_t *choice = ommai_field_get(draft->original, "tool_choice");
  const char *type = json_string_value(json_object_get(choice, "type")), *name = NULL;
  if (!choice) return true;
  if (!json_is_object(choice)) {
    ommai_chat_draft_set(draft, "tool_choice", json_incref(choice));
    return true;
  }
  if (!type || strcmp(type, "function") != 0) {
    return ommai_api_fail(error, 400, "tool_choice", "tool_choice: type \"%.60s\" is not supported; \"function\" is.",
                          type ? type : "");
  }
  if (!ommai_field_string(choice, "name", &name, error)) return false;
  if (!name) return ommai_api_fail(error, 400, "tool_choice", "tool_choice has no name.");
  ommai_chat_draft_set(draft, "tool_choice", json_pack("{s:s,s:{s:s}}", "type", "function", "function", "name", name));
  return true;
}

static bool read_reasoning(struct ommai_chat_draft *draft, struct ommai_api_error *error) {
  static const char *const known[] = {"effort", "summary", "generate_summary", NULL};
  const json_t *reasoning;
  if (!ommai_field_object(draft->original, "reasoning", known, &reasoning, error)) return false;
  json_t *effort = ommai_field_get(reasoning, "effort");
  if (effort) ommai_chat_draft_set(draft, "reasoning_effort", json_incref(effort));
  return true;
}

/* Log-probabilities come where `include` asks for them, as in vLLM. */
static bool read_include(struct ommai_chat_draft *draft, struct ommai_api_error *error) {
  const json_t *include, *item;
  size_t index;
  bool logprobs = false;
  if (!ommai_field_array(draft->original, "include", &include, error)) return false;
  json_array_foreach(include, index, item) {
    const char *word = json_string_value(item);
    logprobs |= word && !strcmp(word, "message.output_text.logprobs");
  }
  if (logprobs) {
    ommai_chat_draft_set(draft, "logprobs", json_true());
  } else if (!draft->failed) {
    json_object_del(draft->chat, "top_logprobs");
  }
  return true;
}

static bool read_limit(struct ommai_chat_draft *draft) {
  json_t *limit = ommai_field_get(draft->original, "max_output_tokens");
  if (limit) ommai_chat_draft_set(draft, "max_completion_tokens", json_incref(limit));
  return true;
}

bool ommai_responses_request_read(json_t *root, struct ommai_chat_source *source, struct ommai_api_error *error) {
  static const char *const own[] = {"input",       "instructions",     "text",    "tools",
                                    "tool_choice", "reasoning",        "include", "max_output_tokens",
                                    "prompt",      "reasoning_effort", NULL};
  struct ommai_chat_draft draft;
  ommai_chat_draft_begin(&draft, root, own);
  bool good = refuse_fields(root, error) && read_input(&draft, error) && read_text(&draft, error) &&
              read_tools(&draft, error) && read_tool_choice(&draft, error) && read_reasoning(&draft, error) &&
              read_include(&draft, error) && read_limit(&draft);
  return ommai_chat_draft_end(&draft, good, source, error);
}

/* ---- what the response repeats ---- */

/* The member, or the default where the request has none. */
static void repeat(struct ommai_text *out, const json_t *root, const char *key, const char *standard) {
  const json_t *value = ommai_field_get(root, key);
  if (!value) {
    ommai_put_raw(out, key, standard, strlen(standard));
    return;
  }
  size_t begin = out->size;
  ommai_put_value(out, key, value, 0);
  out->size = begin + ommai_json_restore(out->data + begin, out->size - begin);
}

void ommai_responses_request_write(const struct ommai_chat_request *request, struct ommai_text *out) {
  static const struct {
    const char *key, *standard;
  } repeated[] = {{"instructions", "null"},
                  {"max_output_tokens", "null"},
                  {"max_tool_calls", "null"},
                  {"metadata", "null"},
                  {"parallel_tool_calls", "true"},
                  {"reasoning", "null"},
                  {"text", "{\"format\":{\"type\":\"text\"}}"},
                  {"tool_choice", "\"auto\""},
                  {"tools", "[]"},
                  {"top_logprobs", "null"},
                  {"truncation", "\"disabled\""},
                  {"user", "null"}};
  for (size_t i = 0; i < sizeof repeated / sizeof repeated[0]; i++) {
    repeat(out, request->source.original, repeated[i].key, repeated[i].standard);
  }
  ommai_put_number(out, "temperature", request->fields.sampling.temperature, 9);
  ommai_put_number(out, "top_p", request->fields.sampling.top_p, 9);
  ommai_put_boolean(out, "background", false);
  ommai_put_nulls(out, "previous_response_id", "prompt", NULL);
  ommai_put_string(out, "service_tier", "auto");
  ommai_put_boolean(out, "store", false);
}
