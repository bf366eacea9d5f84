/* The format of /v1/chat/completions. */
#include <math.h>

#include "server/api/reply_format.h"

static const char CHUNK[] = "chat.completion.chunk";

static void begin(struct ommai_text *out, const struct ommai_reply_head *head, int index, const struct ommai_usage *usage) {
  ommai_reply_begin_event(out, head, CHUNK);
  ommai_text_format(out,
                    ",\"choices\":[{\"index\":%d,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                    "\"finish_reason\":null}]",
                    index);
  if (head->prompt_ids) ommai_reply_add_list(out, "prompt_token_ids", head->prompt_ids);
  ommai_reply_end_event(out, usage);
}

/* The first list holds the tokens' objects. */
static void add_logprobs(struct ommai_text *out, const struct ommai_logprobs *logprobs) {
  if (!logprobs) {
    ommai_text_add(out, ",\"logprobs\":null");
    return;
  }
  ommai_text_add(out, ",\"logprobs\":{\"content\":[");
  ommai_text_append(out, logprobs->lists[0].data, logprobs->lists[0].size);
  ommai_text_add(out, "]}");
}

static void add_function(struct ommai_text *out, const struct ommai_tool_call *call) {
  ommai_text_add(out, "\"id\":");
  ommai_text_json_string(out, call->id);
  ommai_text_add(out, ",\"type\":\"function\",\"function\":{\"name\":");
  ommai_text_json(out, call->name.data, call->name.size);
  ommai_text_add(out, ",\"arguments\":");
}

/* Whether a span of a stream has something after its reasoning. */
static bool goes_on(const struct ommai_reply_part *part) {
  bool news = part->text_size || !part->in_thought;
  for (size_t i = 0; i < part->n_calls; i++) {
    const struct ommai_tool_call *call = &part->calls[i];
    news |= !call->name_used || call->arguments_used != call->arguments.size;
  }
  return news;
}

static void add_reasoning_delta(struct ommai_text *out, const struct ommai_reply_part *part) {
  if (!part->reasoning_size && !part->in_thought) return;
  ommai_text_add(out, "\"reasoning\":");
  ommai_text_json(out, part->reasoning, part->reasoning_size);
  if (goes_on(part)) ommai_text_add(out, ",");
}

/* What is new of the calls: first the name, then the arguments piece by piece. */
static void add_call_deltas(struct ommai_text *out, const struct ommai_reply_part *part) {
  bool any = false;
  for (size_t i = 0; i < part->n_calls; i++) {
    const struct ommai_tool_call *call = &part->calls[i];
    if (call->name_used && call->arguments_used == call->arguments.size) continue;
    ommai_text_format(out, "%s{\"index\":%zu,", any ? "," : "\"tool_calls\":[", i);
    any = true;
    if (call->name_used) {
      ommai_text_add(out, "\"function\":{\"arguments\":");
    } else {
      add_function(out, call);
    }
    const char *arguments = call->arguments.size ? call->arguments.data + call->arguments_used : NULL;
    ommai_text_json(out, arguments, call->arguments.size - call->arguments_used);
    ommai_text_add(out, "}}");
  }
  if (any) ommai_text_add(out, part->text_size ? "]," : "]");
  if (part->text_size || (!any && !part->in_thought)) {
    ommai_text_add(out, "\"content\":");
    ommai_text_json(out, part->text, part->text_size);
  }
}

static void add_calls(struct ommai_text *out, const struct ommai_reply_part *part) {
  for (size_t i = 0; i < part->n_calls; i++) {
    ommai_text_add(out, i ? ",{" : ",\"tool_calls\":[{");
    add_function(out, &part->calls[i]);
    ommai_text_json(out, part->calls[i].arguments.data, part->calls[i].arguments.size);
    ommai_text_add(out, "}}");
  }
  if (part->n_calls) ommai_text_add(out, "]");
}

static void delta(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_reply_part *part,
                  const struct ommai_usage *usage) {
  ommai_reply_begin_event(out, head, CHUNK);
  ommai_text_format(out, ",\"choices\":[{\"index\":%d,\"delta\":{", part->index);
  add_reasoning_delta(out, part);
  add_call_deltas(out, part);
  ommai_text_add(out, "}");
  add_logprobs(out, part->logprobs);
  if (part->finish_reason) {
    ommai_reply_add_reasons(out, part);
  } else {
    ommai_text_add(out, ",\"finish_reason\":null");
  }
  ommai_reply_add_list(out, "token_ids", part->token_ids);
  ommai_text_add(out, "}]");
  ommai_reply_end_event(out, usage);
}

static void usage_event(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_usage *usage) {
  ommai_reply_add_usage_event(out, head, CHUNK, usage);
}

/* null where there is no text, and there might have been. */
static void add_text_or_null(struct ommai_text *out, const char *text, size_t size, bool null) {
  if (size == 0 && null) {
    ommai_text_add(out, "null");
  } else {
    ommai_text_json(out, text, size);
  }
}

static void whole(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_reply_part *parts,
                  int n_parts, const struct ommai_usage *usage) {
  ommai_reply_add_head(out, head, "chat.completion");
  for (int i = 0; i < n_parts; i++) {
    ommai_text_format(out, "%s{\"index\":%d,\"message\":{\"role\":\"assistant\",\"content\":", i ? "," : ",\"choices\":[",
                      parts[i].index);
    add_text_or_null(out, parts[i].text, parts[i].text_size, head->has_thoughts || parts[i].n_calls);
    ommai_text_add(out, ",\"refusal\":null,\"annotations\":null,\"audio\":null,\"function_call\":null");
    add_calls(out, &parts[i]);
    ommai_text_add(out, ",\"reasoning\":");
    add_text_or_null(out, parts[i].reasoning, parts[i].reasoning_size, true);
    ommai_text_add(out, "}");
    add_logprobs(out, parts[i].logprobs);
    ommai_reply_add_reasons(out, &parts[i]);
    ommai_reply_add_list(out, "token_ids", parts[i].token_ids);
    ommai_text_add(out, ",\"routed_experts\":null}");
  }
  ommai_text_add(out, "]");
  ommai_reply_add_whole_usage(out, usage);
  ommai_reply_add_list(out, "prompt_logprobs", head->prompt_logprobs);
  ommai_reply_add_list(out, "prompt_token_ids", head->prompt_ids);
  ommai_text_add(out, ",\"prompt_text\":null,\"kv_transfer_params\":null,\"ec_transfer_params\":");
  if (head->ec_transfer_params) {
    ommai_text_append(out, head->ec_transfer_params->data, head->ec_transfer_params->size);
  } else {
    ommai_text_add(out, "null");
  }
  ommai_text_add(out, ",\"metrics\":null}");
}

static void add_token(struct ommai_text *out, const struct omma_model *model, int32_t token, float logprob) {
  char text[OMMAI_TOKEN_TEXT_SIZE];
  size_t size = ommai_reply_token_text(model, token, text);
  ommai_text_add(out, "{\"token\":");
  ommai_text_json(out, text, size);
  ommai_text_format(out, ",\"logprob\":%.9g,\"bytes\":[", ommai_reply_logprob(logprob));
  for (size_t i = 0; i < size; i++) ommai_text_format(out, i ? ",%u" : "%u", (unsigned)(unsigned char)text[i]);
  ommai_text_add(out, "]");
}

void ommai_reply_add_chat_logprob(struct ommai_logprobs *logprobs, const struct omma_model *model,
                                  const struct omma_token_event *event) {
  struct ommai_text *out = &logprobs->lists[0];
  if (out->size) ommai_text_add(out, ",");
  add_token(out, model, event->token, event->has_logprob ? event->logprob : -INFINITY);
  ommai_text_add(out, ",\"top_logprobs\":[");
  for (int i = 0; i < event->n_top; i++) {
    if (i) ommai_text_add(out, ",");
    add_token(out, model, event->top[i].token, event->top[i].logprob);
    ommai_text_add(out, "}");
  }
  ommai_text_add(out, "]}");
}

const struct ommai_reply_format ommai_chat_reply_format = {.id_prefix = "chatcmpl-",
                                                           .begin = begin,
                                                           .delta = delta,
                                                           .usage = usage_event,
                                                           .whole = whole,
                                                           .add_logprob = ommai_reply_add_chat_logprob};
