/* The format of /v1/responses: an answer is a list of output items, and a stream the events of
 * their lives, numbered. */
#include <string.h>

#include "server/api/reply_format.h"

static const struct ommai_text nothing;

static void begin_event(struct ommai_text *out, const struct ommai_reply_head *head, const char *type) {
  ommai_text_format(out, "event: %s\ndata: ", type);
  ommai_put_begin(out, NULL, "{");
  ommai_put_string(out, "type", type);
  ommai_put_integer(out, "sequence_number", head->state->n_events++);
}

static void end_event(struct ommai_text *out) { ommai_put_end(out, "}\n\n"); }

/* ---- items ---- */

static bool is_open(const struct ommai_reply_head *head, enum ommai_reply_item kind) { return head->state->open == kind; }

static const char *prefix_of(enum ommai_reply_item kind) {
  return kind == OMMAI_ITEM_REASONING ? "rs" : kind == OMMAI_ITEM_CALL ? "fc" : "msg";
}

/* The open item's id: the reply's id and the item's number. */
static void add_id(struct ommai_text *out, const struct ommai_reply_head *head, const char *key) {
  const char *id = strchr(head->id, '_');
  ommai_put_format(out, key, "%s%s_%d", prefix_of(head->state->open), id ? id : "", head->state->n_items - 1);
}

/* The part of the open item, with its text or with none yet. */
static void add_part(struct ommai_text *out, const struct ommai_reply_head *head, const char *key, bool full) {
  const struct ommai_reply_state *state = head->state;
  ommai_put_begin(out, key, "{");
  if (is_open(head, OMMAI_ITEM_REASONING)) {
    ommai_put_string(out, "type", "reasoning_text");
  } else {
    ommai_put_string(out, "type", "output_text");
    ommai_put_begin(out, "annotations", "[]");
    ommai_put_list(out, "logprobs", full ? &state->logprobs : &nothing);
  }
  ommai_put_text(out, "text", state->text.data, full ? state->text.size : 0);
  ommai_put_end(out, "}");
}

static void add_item(struct ommai_text *out, const struct ommai_reply_head *head, const char *key, const char *status,
                     bool full) {
  const struct ommai_reply_state *state = head->state;
  ommai_put_begin(out, key, "{");
  add_id(out, head, "id");
  if (is_open(head, OMMAI_ITEM_CALL)) {
    OMMAI_PUT_STRINGS(out, {"type", "function_call"}, {"status", status}, {"call_id", state->call->id});
    ommai_put_text(out, "name", state->call->name.data, state->call->name.size);
    ommai_put_text(out, "arguments", state->text.data, full ? state->text.size : 0);
    ommai_put_end(out, "}");
    return;
  }
  if (is_open(head, OMMAI_ITEM_REASONING)) {
    ommai_put_string(out, "type", "reasoning");
    ommai_put_begin(out, "summary", "[]");
    ommai_put_null(out, "encrypted_content");
  } else {
    OMMAI_PUT_STRINGS(out, {"type", "message"}, {"role", "assistant"});
  }
  ommai_put_string(out, "status", status);
  ommai_put_begin(out, "content", "[");
  if (full) add_part(out, head, NULL, true);
  ommai_put_end(out, "]}");
}

/* An event about the open item, up to what it is about. */
static void begin_item_event(struct ommai_text *out, const struct ommai_reply_head *head, const char *type) {
  begin_event(out, head, type);
  add_id(out, head, "item_id");
  ommai_put_integer(out, "output_index", head->state->n_items - 1);
  if (!is_open(head, OMMAI_ITEM_CALL)) ommai_put_integer(out, "content_index", 0);
}

static void open_item(struct ommai_text *out, const struct ommai_reply_head *head) {
  const struct ommai_reply_state *state = head->state;
  begin_event(out, head, "response.output_item.added");
  ommai_put_integer(out, "output_index", state->n_items - 1);
  add_item(out, head, "item", "in_progress", false);
  end_event(out);
  if (is_open(head, OMMAI_ITEM_CALL)) return;
  begin_item_event(out, head, "response.content_part.added");
  add_part(out, head, "part", false);
  end_event(out);
}

static void add_text_end_events(struct ommai_text *out, const struct ommai_reply_head *head) {
  const struct ommai_reply_state *state = head->state;
  bool reasoning = is_open(head, OMMAI_ITEM_REASONING);
  begin_item_event(out, head, reasoning ? "response.reasoning_text.done" : "response.output_text.done");
  ommai_put_text(out, "text", state->text.data, state->text.size);
  if (!reasoning) ommai_put_list(out, "logprobs", &state->logprobs);
  end_event(out);
  begin_item_event(out, head, "response.content_part.done");
  add_part(out, head, "part", true);
  end_event(out);
}

static void add_end_events(struct ommai_text *out, const struct ommai_reply_head *head, const char *status) {
  const struct ommai_reply_state *state = head->state;
  if (is_open(head, OMMAI_ITEM_CALL)) {
    begin_item_event(out, head, "response.function_call_arguments.done");
    ommai_put_text(out, "name", state->call->name.data, state->call->name.size);
    ommai_put_text(out, "arguments", state->text.data, state->text.size);
    end_event(out);
  } else {
    add_text_end_events(out, head);
  }
  begin_event(out, head, "response.output_item.done");
  ommai_put_integer(out, "output_index", state->n_items - 1);
  add_item(out, head, "item", status, true);
  end_event(out);
}

static void close_item(struct ommai_text *out, const struct ommai_reply_head *head, bool cut_off) {
  const char *status = cut_off ? "incomplete" : "completed";
  if (out) add_end_events(out, head, status);
  add_item(&head->state->items, head, NULL, status, true);
}

static void grow(struct ommai_text *out, const struct ommai_reply_head *head, const char *text, size_t size,
                 const struct ommai_text *logprobs) {
  static const char *const types[] = {[OMMAI_ITEM_REASONING] = "response.reasoning_text.delta",
                                      [OMMAI_ITEM_TEXT] = "response.output_text.delta",
                                      [OMMAI_ITEM_CALL] = "response.function_call_arguments.delta"};
  struct ommai_reply_state *state = head->state;
  ommai_text_append(&state->text, text, size);
  ommai_put_raw_text(&state->logprobs, NULL, logprobs);
  if (!out) return;
  begin_item_event(out, head, types[state->open]);
  ommai_put_text(out, "delta", text, size);
  if (state->open == OMMAI_ITEM_TEXT) ommai_put_list(out, "logprobs", logprobs ? logprobs : &nothing);
  end_event(out);
}

static void take_part(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_reply_part *part) {
  static const struct ommai_item_format items = {open_item, grow, close_item};
  ommai_reply_take_items(&items, out, head, part);
  if (out && part->finish_reason) out->failed |= head->state->items.failed;
}

/* ---- the response ---- */

static void add_usage(struct ommai_text *out, const struct ommai_usage *usage) {
  const json_int_t prompt = usage->prompt_tokens, completion = usage->completion_tokens,
                   cached = usage->cached_tokens > 0 ? usage->cached_tokens : 0,
                   reasoning = usage->reasoning_tokens > 0 ? usage->reasoning_tokens : 0;
  ommai_put_new(out, "usage",
                json_pack("{s:I,s:{s:I,s:i},s:I,s:{s:I},s:I}", "input_tokens", prompt, "input_tokens_details", "cached_tokens",
                          cached, "cache_write_tokens", 0, "output_tokens", completion, "output_tokens_details",
                          "reasoning_tokens", reasoning, "total_tokens", prompt + completion));
  ommai_reply_add_own(out, usage);
}

/* usage NULL: it goes on. */
static void add_response(struct ommai_text *out, const char *key, const struct ommai_reply_head *head,
                         const struct ommai_usage *usage) {
  const struct ommai_reply_state *state = head->state;
  bool cut_off = state->finish_reason && strcmp(state->finish_reason, "length") == 0;
  ommai_put_begin(out, key, "{");
  OMMAI_PUT_STRINGS(out, {"id", head->id}, {"object", "response"});
  ommai_put_integer(out, "created_at", head->created);
  ommai_put_string(out, "status", !usage ? "in_progress" : cut_off ? "incomplete" : "completed");
  ommai_put_null(out, "error");
  ommai_put_new(out, "incomplete_details",
                usage && cut_off ? json_pack("{s:s}", "reason", "max_output_tokens") : json_null());
  ommai_put_string(out, "model", head->model);
  ommai_put_list(out, "output", usage ? &state->items : &nothing);
  ommai_put_raw_text(out, NULL, head->request_fields);
  if (usage) {
    add_usage(out, usage);
  } else {
    ommai_put_null(out, "usage");
  }
  ommai_put_end(out, "}");
}

static void add_response_event(struct ommai_text *out, const struct ommai_reply_head *head, const char *type,
                               const struct ommai_usage *usage) {
  begin_event(out, head, type);
  add_response(out, "response", head, usage);
  end_event(out);
}

static void begin(struct ommai_text *out, const struct ommai_reply_head *head, int index, const struct ommai_usage *usage) {
  (void)index, (void)usage;
  add_response_event(out, head, "response.created", NULL);
  add_response_event(out, head, "response.in_progress", NULL);
}

static void delta(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_reply_part *part,
                  const struct ommai_usage *usage) {
  (void)usage;
  take_part(out, head, part);
}

static void end(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_usage *usage) {
  bool cut_off = strcmp(head->state->finish_reason, "length") == 0;
  add_response_event(out, head, cut_off ? "response.incomplete" : "response.completed", usage);
}

static void whole(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_reply_part *parts,
                  int n_parts, const struct ommai_usage *usage) {
  (void)n_parts;
  take_part(NULL, head, &parts[0]);
  add_response(out, NULL, head, usage);
}

const struct ommai_reply_format ommai_responses_reply_format = {.id_prefix = "resp_",
                                                                .as_items = true,
                                                                .begin = begin,
                                                                .delta = delta,
                                                                .usage = end,
                                                                .whole = whole,
                                                                .add_logprob = ommai_reply_add_chat_logprob};
