/* The format of /v1/responses: an answer is a list of output items, and a stream the events of
 * their lives, numbered. */
#include <inttypes.h>
#include <string.h>

#include "server/api/reply_format.h"

static void begin_event(struct ommai_text *out, const struct ommai_reply_head *head, const char *type) {
  ommai_text_format(out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%" PRId64, type, type, head->state->n_events++);
}

static void end_event(struct ommai_text *out) { ommai_text_add(out, "}\n\n"); }

/* ---- items ---- */

static bool is_open(const struct ommai_reply_head *head, enum ommai_reply_item kind) { return head->state->open == kind; }

static const char *prefix_of(enum ommai_reply_item kind) {
  return kind == OMMAI_ITEM_REASONING ? "rs" : kind == OMMAI_ITEM_CALL ? "fc" : "msg";
}

/* `"KEY":"msg_..."` of the open item: the reply's id and the item's number. */
static void add_id(struct ommai_text *out, const struct ommai_reply_head *head, const char *key) {
  const char *id = strchr(head->id, '_');
  struct ommai_text whole;
  ommai_text_init(&whole, out->allocator);
  ommai_text_format(&whole, "%s%s_%d", prefix_of(head->state->open), id ? id : "", head->state->n_items - 1);
  ommai_text_format(out, "\"%s\":", key);
  ommai_text_json(out, whole.data, whole.size);
  out->failed |= whole.failed;
  ommai_text_free(&whole);
}

/* The part of the open item, with its text or with none yet. */
static void add_part(struct ommai_text *out, const struct ommai_reply_head *head, bool full) {
  const struct ommai_reply_state *state = head->state;
  if (is_open(head, OMMAI_ITEM_REASONING)) {
    ommai_text_add(out, "{\"type\":\"reasoning_text\",\"text\":");
  } else {
    ommai_text_add(out, "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[");
    if (full) ommai_text_append(out, state->logprobs.data, state->logprobs.size);
    ommai_text_add(out, "],\"text\":");
  }
  ommai_text_json(out, state->text.data, full ? state->text.size : 0);
  ommai_text_add(out, "}");
}

static void add_call(struct ommai_text *out, const struct ommai_reply_head *head, const char *status, bool full) {
  const struct ommai_reply_state *state = head->state;
  ommai_text_add(out, "{");
  add_id(out, head, "id");
  ommai_text_format(out, ",\"type\":\"function_call\",\"status\":\"%s\",\"call_id\":", status);
  ommai_text_json_string(out, state->call->id);
  ommai_text_add(out, ",\"name\":");
  ommai_text_json(out, state->call->name.data, state->call->name.size);
  ommai_text_add(out, ",\"arguments\":");
  ommai_text_json(out, state->text.data, full ? state->text.size : 0);
  ommai_text_add(out, "}");
}

static void add_item(struct ommai_text *out, const struct ommai_reply_head *head, const char *status, bool full) {
  if (is_open(head, OMMAI_ITEM_CALL)) {
    add_call(out, head, status, full);
    return;
  }
  bool reasoning = is_open(head, OMMAI_ITEM_REASONING);
  ommai_text_add(out, "{");
  add_id(out, head, "id");
  ommai_text_add(out, reasoning ? ",\"type\":\"reasoning\",\"summary\":[],\"encrypted_content\":null"
                                : ",\"type\":\"message\",\"role\":\"assistant\"");
  ommai_text_format(out, ",\"status\":\"%s\",\"content\":[", status);
  if (full) add_part(out, head, true);
  ommai_text_add(out, "]}");
}

/* An event about the open item, up to what it is about. */
static void begin_item_event(struct ommai_text *out, const struct ommai_reply_head *head, const char *type) {
  begin_event(out, head, type);
  ommai_text_add(out, ",");
  add_id(out, head, "item_id");
  ommai_text_format(out, is_open(head, OMMAI_ITEM_CALL) ? ",\"output_index\":%d" : ",\"output_index\":%d,\"content_index\":0",
                    head->state->n_items - 1);
}

/* `out` NULL: no events are written. So with the following. */
static void open_item(struct ommai_text *out, const struct ommai_reply_head *head, enum ommai_reply_item kind) {
  struct ommai_reply_state *state = head->state;
  state->open = kind;
  state->n_items++;
  state->text.size = state->logprobs.size = 0;
  if (!out) return;
  begin_event(out, head, "response.output_item.added");
  ommai_text_format(out, ",\"output_index\":%d,\"item\":", state->n_items - 1);
  add_item(out, head, "in_progress", false);
  end_event(out);
  if (kind == OMMAI_ITEM_CALL) return;
  begin_item_event(out, head, "response.content_part.added");
  ommai_text_add(out, ",\"part\":");
  add_part(out, head, false);
  end_event(out);
}

static void add_text_end_events(struct ommai_text *out, const struct ommai_reply_head *head) {
  const struct ommai_reply_state *state = head->state;
  bool reasoning = is_open(head, OMMAI_ITEM_REASONING);
  begin_item_event(out, head, reasoning ? "response.reasoning_text.done" : "response.output_text.done");
  ommai_text_add(out, ",\"text\":");
  ommai_text_json(out, state->text.data, state->text.size);
  if (!reasoning) {
    ommai_text_add(out, ",\"logprobs\":[");
    ommai_text_append(out, state->logprobs.data, state->logprobs.size);
    ommai_text_add(out, "]");
  }
  end_event(out);
  begin_item_event(out, head, "response.content_part.done");
  ommai_text_add(out, ",\"part\":");
  add_part(out, head, true);
  end_event(out);
}

static void add_end_events(struct ommai_text *out, const struct ommai_reply_head *head, const char *status) {
  const struct ommai_reply_state *state = head->state;
  if (is_open(head, OMMAI_ITEM_CALL)) {
    begin_item_event(out, head, "response.function_call_arguments.done");
    ommai_text_add(out, ",\"name\":");
    ommai_text_json(out, state->call->name.data, state->call->name.size);
    ommai_text_add(out, ",\"arguments\":");
    ommai_text_json(out, state->text.data, state->text.size);
    end_event(out);
  } else {
    add_text_end_events(out, head);
  }
  begin_event(out, head, "response.output_item.done");
  ommai_text_format(out, ",\"output_index\":%d,\"item\":", state->n_items - 1);
  add_item(out, head, status, true);
  end_event(out);
}

/* Closes the open item, if there is one. */
static void close_item(struct ommai_text *out, const struct ommai_reply_head *head, const char *status) {
  struct ommai_reply_state *state = head->state;
  if (is_open(head, OMMAI_ITEM_NONE)) return;
  if (out) add_end_events(out, head, status);
  if (state->items.size) ommai_text_add(&state->items, ",");
  add_item(&state->items, head, status, true);
  state->open = OMMAI_ITEM_NONE;
}

/* More of the open item. */
static void grow(struct ommai_text *out, const struct ommai_reply_head *head, const char *text, size_t size,
                 const struct ommai_text *logprobs) {
  static const char *const types[] = {[OMMAI_ITEM_REASONING] = "response.reasoning_text.delta",
                                      [OMMAI_ITEM_TEXT] = "response.output_text.delta",
                                      [OMMAI_ITEM_CALL] = "response.function_call_arguments.delta"};
  struct ommai_reply_state *state = head->state;
  ommai_text_append(&state->text, text, size);
  if (logprobs && state->logprobs.size) ommai_text_add(&state->logprobs, ",");
  if (logprobs) ommai_text_append(&state->logprobs, logprobs->data, logprobs->size);
  if (!out) return;
  begin_item_event(out, head, types[state->open]);
  ommai_text_add(out, ",\"delta\":");
  ommai_text_json(out, text, size);
  if (state->open == OMMAI_ITEM_TEXT) {
    ommai_text_add(out, ",\"logprobs\":[");
    if (logprobs) ommai_text_append(out, logprobs->data, logprobs->size);
    ommai_text_add(out, "]");
  }
  end_event(out);
}

static void add_text(struct ommai_text *out, const struct ommai_reply_head *head, enum ommai_reply_item kind, const char *text,
                     size_t size, const struct ommai_text *logprobs) {
  size_t skipped = is_open(head, kind) || kind != OMMAI_ITEM_TEXT ? 0 : ommai_reply_skip_blanks(head, text, size);
  if (size == skipped) return;
  if (!is_open(head, kind)) {
    close_item(out, head, "completed");
    open_item(out, head, kind);
  }
  grow(out, head, text + skipped, size - skipped, logprobs);
}

static void add_calls(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_reply_part *part) {
  for (size_t i = 0; i < part->n_calls; i++) {
    const struct ommai_tool_call *call = &part->calls[i];
    size_t used = call->arguments_used;
    if (!call->name_used) {
      close_item(out, head, "completed");
      head->state->call = call;
      head->state->has_calls = true;
      open_item(out, head, OMMAI_ITEM_CALL);
    }
    if (call->arguments.size > used) grow(out, head, call->arguments.data + used, call->arguments.size - used, NULL);
  }
}

static void take_part(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_reply_part *part) {
  const struct ommai_text *logprobs = part->logprobs && part->logprobs->lists[0].size ? &part->logprobs->lists[0] : NULL;
  add_text(out, head, OMMAI_ITEM_REASONING, part->reasoning, part->reasoning_size, NULL);
  add_text(out, head, OMMAI_ITEM_TEXT, part->text, part->text_size, logprobs);
  add_calls(out, head, part);
  if (!part->finish_reason) return;
  head->state->finish_reason = part->finish_reason;
  close_item(out, head, strcmp(part->finish_reason, "length") == 0 ? "incomplete" : "completed");
  if (out) out->failed |= head->state->items.failed;
}

/* ---- the response ---- */

static void add_usage(struct ommai_text *out, const struct ommai_usage *usage) {
  int64_t cached = usage->cached_tokens > 0 ? usage->cached_tokens : 0,
          reasoning = usage->reasoning_tokens > 0 ? usage->reasoning_tokens : 0;
  ommai_text_format(out,
                    "{\"input_tokens\":%" PRId64 ",\"input_tokens_details\":{\"cached_tokens\":%" PRId64
                    ",\"cache_write_tokens\":0},\"output_tokens\":%" PRId64,
                    usage->prompt_tokens, cached, usage->completion_tokens);
  ommai_text_format(out, ",\"output_tokens_details\":{\"reasoning_tokens\":%" PRId64 "},\"total_tokens\":%" PRId64 "}",
                    reasoning, usage->prompt_tokens + usage->completion_tokens);
}

/* usage NULL: it goes on. */
static void add_response(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_usage *usage) {
  const struct ommai_reply_state *state = head->state;
  bool cut_off = state->finish_reason && strcmp(state->finish_reason, "length") == 0;
  ommai_text_add(out, "{\"id\":");
  ommai_text_json_string(out, head->id);
  ommai_text_format(out, ",\"object\":\"response\",\"created_at\":%" PRId64 ",\"status\":\"%s\",\"error\":null", head->created,
                    !usage    ? "in_progress"
                    : cut_off ? "incomplete"
                              : "completed");
  ommai_text_format(out,
                    ",\"incomplete_details\":%s,\"model\":", usage && cut_off ? "{\"reason\":\"max_output_tokens\"}" : "null");
  ommai_text_json_string(out, head->model);
  ommai_text_add(out, ",\"output\":[");
  if (usage) ommai_text_append(out, state->items.data, state->items.size);
  ommai_text_add(out, "],");
  ommai_text_append(out, head->request_fields->data, head->request_fields->size);
  ommai_text_add(out, ",\"usage\":");
  if (usage) {
    add_usage(out, usage);
    ommai_reply_add_own(out, usage);
  } else {
    ommai_text_add(out, "null");
  }
  ommai_text_add(out, "}");
}

static void add_response_event(struct ommai_text *out, const struct ommai_reply_head *head, const char *type,
                               const struct ommai_usage *usage) {
  begin_event(out, head, type);
  ommai_text_add(out, ",\"response\":");
  add_response(out, head, usage);
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
  out->failed |= head->state->items.failed;
  add_response(out, head, usage);
}

const struct ommai_reply_format ommai_responses_reply_format = {.id_prefix = "resp_",
                                                                .as_items = true,
                                                                .begin = begin,
                                                                .delta = delta,
                                                                .usage = end,
                                                                .whole = whole,
                                                                .add_logprob = ommai_reply_add_chat_logprob};
