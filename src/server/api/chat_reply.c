/* The format of /v1/chat/completions. */
#include <math.h>

#include "server/api/reply_format.h"

static const char CHUNK[] = "chat.completion.chunk";

static void begin(struct ommai_text *out, const struct ommai_reply_head *head, int index, const struct ommai_usage *usage) {
  ommai_reply_begin_event(out, head, CHUNK);
  ommai_put_begin(out, "choices", "[{");
  ommai_put_integer(out, "index", index);
  ommai_put_new(out, "delta", json_pack("{s:s,s:s}", "role", "assistant", "content", ""));
  ommai_put_nulls(out, "logprobs", "finish_reason", NULL);
  ommai_put_end(out, "}]");
  if (head->prompt_ids) ommai_put_list(out, "prompt_token_ids", head->prompt_ids);
  ommai_reply_end_event(out, usage);
}

/* The first list holds the tokens' objects. */
static void add_logprobs(struct ommai_text *out, const struct ommai_logprobs *logprobs) {
  if (!logprobs) {
    ommai_put_null(out, "logprobs");
    return;
  }
  ommai_put_begin(out, "logprobs", "{");
  ommai_put_list(out, "content", &logprobs->lists[0]);
  ommai_put_end(out, "}");
}

/* Up to its arguments. */
static void begin_call(struct ommai_text *out, const struct ommai_tool_call *call) {
  OMMAI_PUT_STRINGS(out, {"id", call->id}, {"type", "function"});
  ommai_put_begin(out, "function", "{");
  ommai_put_text(out, "name", call->name.data, call->name.size);
}

/* What is new of the calls: first the name, then the arguments piece by piece. */
static void add_call_deltas(struct ommai_text *out, const struct ommai_reply_part *part) {
  bool any = false;
  for (size_t i = 0; i < part->n_calls; i++) {
    const struct ommai_tool_call *call = &part->calls[i];
    if (call->name_used && call->arguments_used == call->arguments.size) continue;
    if (!any) ommai_put_begin(out, "tool_calls", "[");
    any = true;
    ommai_put_begin(out, NULL, "{");
    ommai_put_integer(out, "index", (int64_t)i);
    if (call->name_used) {
      ommai_put_begin(out, "function", "{");
    } else {
      begin_call(out, call);
    }
    const char *arguments = call->arguments.size ? call->arguments.data + call->arguments_used : NULL;
    ommai_put_text(out, "arguments", arguments, call->arguments.size - call->arguments_used);
    ommai_put_end(out, "}}");
  }
  if (any) ommai_put_end(out, "]");
  if (part->text_size || (!any && !part->in_reasoning)) ommai_put_text(out, "content", part->text, part->text_size);
}

static void add_calls(struct ommai_text *out, const struct ommai_reply_part *part) {
  if (!part->n_calls) return;
  ommai_put_begin(out, "tool_calls", "[");
  for (size_t i = 0; i < part->n_calls; i++) {
    ommai_put_begin(out, NULL, "{");
    begin_call(out, &part->calls[i]);
    ommai_put_text(out, "arguments", part->calls[i].arguments.data, part->calls[i].arguments.size);
    ommai_put_end(out, "}}");
  }
  ommai_put_end(out, "]");
}

static void delta(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_reply_part *part,
                  const struct ommai_usage *usage) {
  ommai_reply_begin_event(out, head, CHUNK);
  ommai_put_begin(out, "choices", "[{");
  ommai_put_integer(out, "index", part->index);
  ommai_put_begin(out, "delta", "{");
  if (part->reasoning_size || part->in_reasoning) ommai_put_text(out, "reasoning", part->reasoning, part->reasoning_size);
  add_call_deltas(out, part);
  ommai_put_end(out, "}");
  add_logprobs(out, part->logprobs);
  if (part->finish_reason) {
    ommai_reply_add_reasons(out, part);
  } else {
    ommai_put_null(out, "finish_reason");
  }
  ommai_put_list(out, "token_ids", part->token_ids);
  ommai_put_end(out, "}]");
  ommai_reply_end_event(out, usage);
}

static void usage_event(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_usage *usage) {
  ommai_reply_add_usage_event(out, head, CHUNK, usage);
}

/* null where there is no text, and there might have been. */
static void add_text_or_null(struct ommai_text *out, const char *key, const char *text, size_t size, bool null) {
  if (size == 0 && null) {
    ommai_put_null(out, key);
  } else {
    ommai_put_text(out, key, text, size);
  }
}

static void whole(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_reply_part *parts,
                  int n_parts, const struct ommai_usage *usage) {
  ommai_reply_add_head(out, head, "chat.completion");
  ommai_put_begin(out, "choices", "[");
  for (int i = 0; i < n_parts; i++) {
    ommai_put_begin(out, NULL, "{");
    ommai_put_integer(out, "index", parts[i].index);
    ommai_put_begin(out, "message", "{");
    ommai_put_string(out, "role", "assistant");
    add_text_or_null(out, "content", parts[i].text, parts[i].text_size, head->has_reasoning || parts[i].n_calls);
    ommai_put_nulls(out, "refusal", "annotations", "audio", "function_call", NULL);
    add_calls(out, &parts[i]);
    add_text_or_null(out, "reasoning", parts[i].reasoning, parts[i].reasoning_size, true);
    ommai_put_end(out, "}");
    add_logprobs(out, parts[i].logprobs);
    ommai_reply_add_reasons(out, &parts[i]);
    ommai_put_list(out, "token_ids", parts[i].token_ids);
    ommai_put_null(out, "routed_experts");
    ommai_put_end(out, "}");
  }
  ommai_put_end(out, "]");
  ommai_reply_add_whole_usage(out, usage);
  ommai_put_list(out, "prompt_logprobs", head->prompt_logprobs);
  ommai_put_list(out, "prompt_token_ids", head->prompt_ids);
  ommai_put_nulls(out, "prompt_text", "kv_transfer_params", NULL);
  ommai_put_raw_text(out, "ec_transfer_params", head->ec_transfer_params);
  ommai_put_null(out, "metrics");
  ommai_put_end(out, "}");
}

/* Without its end. */
static void begin_token(struct ommai_text *out, const struct omma_model *model, int32_t token, float logprob) {
  char text[OMMAI_TOKEN_TEXT_SIZE];
  size_t size = ommai_reply_token_text(model, token, text);
  ommai_put_begin(out, NULL, "{");
  ommai_put_text(out, "token", text, size);
  ommai_put_number(out, "logprob", ommai_reply_logprob(logprob), 9);
  ommai_put_begin(out, "bytes", "[");
  for (size_t i = 0; i < size; i++) ommai_put_integer(out, NULL, (unsigned char)text[i]);
  ommai_put_end(out, "]");
}

void ommai_reply_add_chat_logprob(struct ommai_logprobs *logprobs, const struct omma_model *model,
                                  const struct omma_token_event *event) {
  struct ommai_text *out = &logprobs->lists[0];
  begin_token(out, model, event->token, event->has_logprob ? event->logprob : -INFINITY);
  ommai_put_begin(out, "top_logprobs", "[");
  for (int i = 0; i < event->n_top; i++) {
    begin_token(out, model, event->top[i].token, event->top[i].logprob);
    ommai_put_end(out, "}");
  }
  ommai_put_end(out, "]}");
}

const struct ommai_reply_format ommai_chat_reply_format = {.id_prefix = "chatcmpl-",
                                                           .begin = begin,
                                                           .delta = delta,
                                                           .usage = usage_event,
                                                           .whole = whole,
                                                           .add_logprob = ommai_reply_add_chat_logprob};
