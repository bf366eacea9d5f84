/* The format of /v1/messages: an answer is a list of content blocks, and a stream the events of
 * their lives. */
#include <string.h>

#include "server/api/reply_format.h"

static void begin_event(struct ommai_text *out, const char *type) {
  ommai_text_format(out, "event: %s\ndata: ", type);
  ommai_put_begin(out, NULL, "{");
  ommai_put_string(out, "type", type);
}

static void end_event(struct ommai_text *out) { ommai_put_end(out, "}\n\n"); }

/* ---- blocks ---- */

/* Nobody checks it; clients send it back with the reasoning, and some want one. */
static void add_signature(struct ommai_text *out, const struct ommai_reply_head *head) {
  ommai_put_string(out, "signature", head->id);
}

static void begin_block_event(struct ommai_text *out, const struct ommai_reply_head *head, const char *type) {
  begin_event(out, type);
  ommai_put_integer(out, "index", head->state->n_items - 1);
}

/* With its input as JSON. */
static void add_call(struct ommai_text *out, const struct ommai_reply_head *head, const char *input, size_t size) {
  const struct ommai_tool_call *call = head->state->call;
  OMMAI_PUT_STRINGS(out, {"type", "tool_use"}, {"id", call->id});
  ommai_put_text(out, "name", call->name.data, call->name.size);
  ommai_put_raw(out, "input", input, size);
}

static void add_text_members(struct ommai_text *out, bool thinking, const char *text, size_t size) {
  const char *type = thinking ? "thinking" : "text";
  ommai_put_string(out, "type", type);
  ommai_put_text(out, type, text, size);
}

static void open_block(struct ommai_text *out, const struct ommai_reply_head *head) {
  enum ommai_reply_item kind = head->state->open;
  begin_block_event(out, head, "content_block_start");
  ommai_put_begin(out, "content_block", "{");
  if (kind == OMMAI_ITEM_CALL) {
    add_call(out, head, "{}", 2);
  } else {
    add_text_members(out, kind == OMMAI_ITEM_REASONING, NULL, 0);
  }
  if (kind == OMMAI_ITEM_REASONING) ommai_put_string(out, "signature", "");
  ommai_put_end(out, "}");
  end_event(out);
}

static void add_end_events(struct ommai_text *out, const struct ommai_reply_head *head) {
  if (head->state->open == OMMAI_ITEM_REASONING) {
    begin_block_event(out, head, "content_block_delta");
    ommai_put_begin(out, "delta", "{");
    ommai_put_string(out, "type", "signature_delta");
    add_signature(out, head);
    ommai_put_end(out, "}");
    end_event(out);
  }
  begin_block_event(out, head, "content_block_stop");
  end_event(out);
}

/* The open block as a whole. */
static void add_block(struct ommai_text *out, const struct ommai_reply_head *head) {
  const struct ommai_reply_state *state = head->state;
  bool thinking = state->open == OMMAI_ITEM_REASONING;
  ommai_put_begin(out, NULL, "{");
  if (state->open == OMMAI_ITEM_CALL) { /* half an object is none */
    bool whole = state->call->complete;
    add_call(out, head, whole ? state->text.data : "{}", whole ? state->text.size : 2);
  } else {
    add_text_members(out, thinking, state->text.data, state->text.size);
  }
  if (thinking) add_signature(out, head);
  ommai_put_end(out, "}");
}

static void close_block(struct ommai_text *out, const struct ommai_reply_head *head, bool cut_off) {
  (void)cut_off;
  if (out) {
    add_end_events(out, head);
  } else {
    add_block(&head->state->items, head);
  }
}

static void grow(struct ommai_text *out, const struct ommai_reply_head *head, const char *text, size_t size,
                 const struct ommai_text *logprobs) {
  static const char *const
      types[] =
          {[OMMAI_ITEM_REASONING] = "thinking_delta", [OMMAI_ITEM_TEXT] = "text_delta", [OMMAI_ITEM_CALL] = "input_json_delta"},
      *const keys[] = {[OMMAI_ITEM_REASONING] = "thinking", [OMMAI_ITEM_TEXT] = "text", [OMMAI_ITEM_CALL] = "partial_json"};
  (void)logprobs;
  if (!out) {
    ommai_text_append(&head->state->text, text, size);
    return;
  }
  begin_block_event(out, head, "content_block_delta");
  ommai_put_begin(out, "delta", "{");
  ommai_put_string(out, "type", types[head->state->open]);
  ommai_put_text(out, keys[head->state->open], text, size);
  ommai_put_end(out, "}");
  end_event(out);
}

static void take_part(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_reply_part *part) {
  static const struct ommai_item_format blocks = {open_block, grow, close_block};
  struct ommai_text *stop_string = &head->state->stop_string;
  ommai_reply_take_items(&blocks, out, head, part);
  if (part->finish_reason && part->stop_string) {
    ommai_text_append(stop_string, part->stop_string, strlen(part->stop_string) + 1);
  }
}

/* ---- the message ---- */

static void add_reasons(struct ommai_text *out, const struct ommai_reply_state *state) {
  const char *reason = state->stop_string.size                       ? "stop_sequence"
                       : strcmp(state->finish_reason, "length") == 0 ? "max_tokens"
                       : state->has_calls                            ? "tool_use"
                                                                     : "end_turn";
  OMMAI_PUT_STRINGS(out, {"stop_reason", reason}, {"stop_sequence", state->stop_string.size ? state->stop_string.data : NULL});
}

/* Tokens of the prompt that were there already stand apart from the others. */
static void add_usage(struct ommai_text *out, const struct ommai_usage *usage) {
  int64_t cached = usage->cached_tokens > 0 ? usage->cached_tokens : 0;
  ommai_put_begin(out, "usage", "{");
  OMMAI_PUT_INTEGERS(out, {"input_tokens", usage->prompt_tokens - cached}, {"cache_creation_input_tokens", 0},
                     {"cache_read_input_tokens", cached}, {"output_tokens", usage->completion_tokens});
  const json_int_t reasoning = usage->reasoning_tokens;
  if (reasoning >= 0) ommai_put_new(out, "output_tokens_details", json_pack("{s:I}", "thinking_tokens", reasoning));
  ommai_put_end(out, "}");
  ommai_reply_add_own(out, usage);
}

/* Up to its content. */
static void begin_message(struct ommai_text *out, const char *key, const struct ommai_reply_head *head) {
  ommai_put_begin(out, key, "{");
  OMMAI_PUT_STRINGS(out, {"id", head->id}, {"type", "message"}, {"role", "assistant"}, {"model", head->model});
}

static void begin(struct ommai_text *out, const struct ommai_reply_head *head, int index, const struct ommai_usage *usage) {
  (void)index, (void)usage;
  const struct ommai_usage first = {.prompt_tokens = head->prompt_tokens, .reasoning_tokens = -1};
  begin_event(out, "message_start");
  begin_message(out, "message", head);
  ommai_put_begin(out, "content", "[]");
  ommai_put_nulls(out, "stop_reason", "stop_sequence", NULL);
  add_usage(out, &first);
  ommai_put_end(out, "}");
  end_event(out);
}

static void delta(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_reply_part *part,
                  const struct ommai_usage *usage) {
  (void)usage;
  take_part(out, head, part);
}

static void end(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_usage *usage) {
  begin_event(out, "message_delta");
  ommai_put_begin(out, "delta", "{");
  add_reasons(out, head->state);
  ommai_put_end(out, "}");
  add_usage(out, usage);
  end_event(out);
  begin_event(out, "message_stop");
  end_event(out);
}

static void whole(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_reply_part *parts,
                  int n_parts, const struct ommai_usage *usage) {
  (void)n_parts;
  take_part(NULL, head, &parts[0]);
  out->failed |= head->state->items.failed || head->state->text.failed;
  begin_message(out, NULL, head);
  ommai_put_list(out, "content", &head->state->items);
  add_reasons(out, head->state);
  add_usage(out, usage);
  ommai_put_end(out, "}");
}

const struct ommai_reply_format ommai_messages_reply_format = {.id_prefix = "msg_",
                                                               .as_items = true,
                                                               .begin = begin,
                                                               .delta = delta,
                                                               .usage = end,
                                                               .whole = whole,
                                                               .add_logprob = ommai_reply_add_chat_logprob};
