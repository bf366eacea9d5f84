#include "server/core/protocol.h"

#include <stdio.h>
#include <string.h>

#include "base/json_writer.h"

#define COMMENT ": keep-alive\n\n"

/* ---- OpenAI's: chats and completions; errors of all other paths ---- */

static void write_openai(const struct ommai_api_error *error, const char *request_id, struct ommai_text *out) {
  (void)request_id;
  ommai_api_error_write(error, out);
}

static void write_openai_event(const struct ommai_api_error *error, const char *request_id, struct ommai_text *out) {
  ommai_text_add(out, "data: ");
  write_openai(error, request_id, out);
  ommai_text_add(out, "\n\n");
}

const struct ommai_protocol ommai_protocol_openai = {
    .write_error = write_openai, .write_error_event = write_openai_event, .keep_alive = COMMENT, .done = "data: [DONE]\n\n"};

/* ---- OpenAI's responses ---- */

/* The event of the interface, and the member that makes its clients raise it. */
static void write_responses_event(const struct ommai_api_error *error, const char *request_id, struct ommai_text *out) {
  (void)request_id;
  ommai_text_add(out, "event: error\ndata: ");
  ommai_put_begin(out, NULL, "{");
  OMMAI_PUT_STRINGS(out, {"type", "error"}, {"code", error->type}, {"message", error->message},
                    {"param", error->param[0] ? error->param : NULL});
  ommai_api_error_put(error, out);
  ommai_put_end(out, "}\n\n");
}

static const struct ommai_field_name responses_names[] = {{"response_format.json_schema.schema", "text.format.schema"},
                                                          {"response_format: json_schema", "text.format: json_schema"},
                                                          {"response_format", "text.format"},
                                                          {"max_completion_tokens", "max_output_tokens"},
                                                          {"messages", "input"},
                                                          {NULL, NULL}};

const struct ommai_protocol ommai_protocol_responses = {.write_error = write_openai,
                                                        .write_error_event = write_responses_event,
                                                        .keep_alive = COMMENT,
                                                        .done = "",
                                                        .names = responses_names};

/* ---- Anthropic's messages ---- */

static const char *messages_type(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 404:
    case 405: return "not_found_error";
    case 413: return "request_too_large";
    case 408: return "timeout_error";
    case 503: return "overloaded_error";
    default: return status < 500 ? "invalid_request_error" : "api_error";
  }
}

static void write_messages(const struct ommai_api_error *error, const char *request_id, struct ommai_text *out) {
  ommai_put_begin(out, NULL, "{");
  ommai_put_string(out, "type", "error");
  ommai_put_begin(out, "error", "{");
  OMMAI_PUT_STRINGS(out, {"type", messages_type(error->status)}, {"message", error->message});
  ommai_put_end(out, "}");
  ommai_put_string(out, "request_id", request_id);
  ommai_put_end(out, "}");
}

static void write_messages_event(const struct ommai_api_error *error, const char *request_id, struct ommai_text *out) {
  ommai_text_add(out, "event: error\ndata: ");
  write_messages(error, request_id, out);
  ommai_text_add(out, "\n\n");
}

static const struct ommai_field_name messages_names[] = {{"response_format.json_schema.schema", "output_config.format.schema"},
                                                         {"response_format: json_schema", "output_config.format: json_schema"},
                                                         {"response_format", "output_config.format"},
                                                         {"max_completion_tokens", "max_tokens"},
                                                         {"thinking_token_budget", "thinking.budget_tokens"},
                                                         {"stop", "stop_sequences"},
                                                         {NULL, NULL}};

const struct ommai_protocol ommai_protocol_messages = {.write_error = write_messages,
                                                       .write_error_event = write_messages_event,
                                                       .keep_alive = "event: ping\ndata: {\"type\":\"ping\"}\n\n",
                                                       .done = "",
                                                       .names = messages_names};

/* ---- all ---- */

static bool is_below(const char *path, const char *root) {
  size_t size = strlen(root);
  return !strncmp(path, root, size) && (path[size] == '\0' || path[size] == '/');
}

const struct ommai_protocol *ommai_protocol_of(const char *path) {
  if (is_below(path, "/v1/messages")) return &ommai_protocol_messages;
  return is_below(path, "/v1/responses") ? &ommai_protocol_responses : &ommai_protocol_openai;
}

/* Puts the own name in the place of the chat's at the beginning of a text. */
static bool rename_beginning(const struct ommai_field_name *name, char *text, size_t capacity) {
  char copy[sizeof(((struct ommai_api_error *)0)->message)];
  size_t size = strlen(name->chat);
  bool longer = strncmp(text, name->chat, size) != 0 || (text[size] && strchr("_abcdefghijklmnopqrstuvwxyz", text[size]));
  if (longer) return false;
  snprintf(copy, sizeof copy, "%s", text + size);
  snprintf(text, capacity, "%s%s", name->own, copy);
  return true;
}

void ommai_protocol_rename(const struct ommai_protocol *protocol, struct ommai_api_error *error) {
  for (const struct ommai_field_name *name = protocol->names; name && name->chat; name++) {
    if (rename_beginning(name, error->message, sizeof error->message)) break;
  }
  for (const struct ommai_field_name *name = protocol->names; name && name->chat; name++) {
    if (rename_beginning(name, error->param, sizeof error->param)) break;
  }
}
