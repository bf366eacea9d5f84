#include "server/api/chat_draft.h"

#include <string.h>

#include "server/core/request_json.h"

/* What chats have and other interfaces do not, or by another name. */
static const char *const chat_alone[] = {"messages", "response_format",        "max_tokens",
                                         "n",        "max_completion_tokens",  "logprobs",
                                         "best_of",  "continue_final_message", "add_generation_prompt",
                                         "echo",     "stream_options",         NULL};

static void remove_all(json_t *object, const char *const *keys) {
  for (; *keys; keys++) json_object_del(object, *keys);
}

void ommai_chat_draft_begin(struct ommai_chat_draft *draft, json_t *original, const char *const *own) {
  *draft = (struct ommai_chat_draft){
      .original = original, .chat = json_copy(original), .messages = json_array(), .locations = json_array()};
  draft->failed = !draft->chat || !draft->messages || !draft->locations;
  if (draft->failed) return;
  remove_all(draft->chat, chat_alone);
  remove_all(draft->chat, own);
}

void ommai_chat_draft_set(struct ommai_chat_draft *draft, const char *key, json_t *value) {
  draft->failed |= json_object_set_new(draft->chat, key, value) != 0;
}

void ommai_chat_draft_set_tools(struct ommai_chat_draft *draft, const json_t *tools, json_t *(*convert)(const json_t *tool)) {
  json_t *list = json_array(), *tool;
  size_t i;
  json_array_foreach(tools, i, tool) draft->failed |= json_array_append_new(list, convert(tool)) != 0;
  ommai_chat_draft_set(draft, "tools", list);
}

static bool is_answer(const json_t *message) {
  const char *role = json_string_value(json_object_get(message, "role"));
  return role && strcmp(role, "assistant") == 0;
}

static json_t *last_answer(const struct ommai_chat_draft *draft) {
  size_t n = json_array_size(draft->messages);
  json_t *last = n ? json_array_get(draft->messages, n - 1) : NULL;
  return is_answer(last) ? last : NULL;
}

void ommai_chat_draft_add_reasoning(struct ommai_chat_draft *draft, const json_t *text) {
  const char *before = draft->reasoning ? json_string_value(draft->reasoning) : "";
  if (!json_string_length(text)) return;
  json_t *both = json_sprintf("%s%s", before, json_string_value(text));
  draft->failed |= !both;
  json_decref(draft->reasoning);
  draft->reasoning = both;
}

/* Gives the collected reasoning to a message, if it is an answer. */
static void use_reasoning(struct ommai_chat_draft *draft, json_t *message) {
  if (draft->reasoning && is_answer(message)) draft->failed |= json_object_set(message, "reasoning", draft->reasoning) != 0;
  json_decref(draft->reasoning);
  draft->reasoning = NULL;
}

void ommai_chat_draft_add_message(struct ommai_chat_draft *draft, json_t *message, const char *location) {
  use_reasoning(draft, message);
  draft->failed |= json_array_append_new(draft->messages, message) != 0;
  draft->failed |= json_array_append_new(draft->locations, json_string(location)) != 0;
}

void ommai_chat_draft_continue(struct ommai_chat_draft *draft) {
  if (!last_answer(draft)) return;
  ommai_chat_draft_set(draft, "continue_final_message", json_true());
  ommai_chat_draft_set(draft, "add_generation_prompt", json_false());
}

void ommai_chat_draft_add_call(struct ommai_chat_draft *draft, json_t *call, const char *location) {
  json_t *answer = last_answer(draft), *calls = json_object_get(answer, "tool_calls");
  if (!answer) {
    ommai_chat_draft_add_message(draft, json_pack("{s:s,s:n}", "role", "assistant", "content"), location);
    answer = last_answer(draft);
  }
  if (draft->reasoning) use_reasoning(draft, answer);
  if (!calls) {
    draft->failed |= json_object_set_new(answer, "tool_calls", json_array()) != 0;
    calls = json_object_get(answer, "tool_calls");
  }
  draft->failed |= json_array_append_new(calls, call) != 0;
}

bool ommai_chat_draft_end(struct ommai_chat_draft *draft, bool good, struct ommai_chat_source *source,
                          struct ommai_api_error *error) {
  if (good && !draft->failed) draft->failed |= json_object_set(draft->chat, "messages", draft->messages) != 0;
  json_decref(draft->messages);
  json_decref(draft->reasoning);
  *source = (struct ommai_chat_source){.root = draft->chat, .original = draft->original, .locations = draft->locations};
  if (good && !draft->failed) return true;
  ommai_chat_source_free(source);
  return good ? ommai_api_fail_memory(error) : false;
}
