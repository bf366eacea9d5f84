#include "server/api/reply_format.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LOWEST_LOGPROB (-9999.0) /* stands for minus infinity, which JSON lacks; as vLLM */

const char *ommai_finish_reason(enum omma_finish finish) {
  switch (finish) {
    case OMMA_FINISH_STOP: return "stop";
    case OMMA_FINISH_LENGTH: return "length";
    case OMMA_FINISH_REPETITION: return "repetition";
    default: return NULL;
  }
}

void ommai_reply_state_init(struct ommai_reply_state *state, const struct omma_allocator *allocator) {
  const struct ommai_text empty = ommai_text_of(allocator);
  *state = (struct ommai_reply_state){.text = empty, .logprobs = empty, .items = empty, .stop_string = empty};
}

void ommai_reply_state_free(struct ommai_reply_state *state) {
  ommai_text_free(&state->text);
  ommai_text_free(&state->logprobs);
  ommai_text_free(&state->items);
  ommai_text_free(&state->stop_string);
}

/* Where a text that opens an item begins: blanks before a call would be a text of their own. */
static size_t skip_blanks(const struct ommai_reply_head *head, const char *text, size_t size) {
  size_t n = 0;
  while (head->has_tools && n < size && (text[n] == ' ' || text[n] == '\n' || text[n] == '\r' || text[n] == '\t')) n++;
  return n;
}

static void close_item(const struct ommai_item_format *format, struct ommai_text *out, const struct ommai_reply_head *head,
                       bool cut_off) {
  if (head->state->open != OMMAI_ITEM_NONE) format->close(out, head, cut_off);
  head->state->open = OMMAI_ITEM_NONE;
}

/* In place of the one that was open. */
static void open_item(const struct ommai_item_format *format, struct ommai_text *out, const struct ommai_reply_head *head,
                      enum ommai_reply_item kind) {
  struct ommai_reply_state *state = head->state;
  close_item(format, out, head, false);
  state->open = kind;
  state->n_items++;
  state->text.size = state->logprobs.size = 0;
  if (out) format->open(out, head);
}

static void take_text(const struct ommai_item_format *format, struct ommai_text *out, const struct ommai_reply_head *head,
                      enum ommai_reply_item kind, const char *text, size_t size, const struct ommai_text *logprobs) {
  bool open = head->state->open == kind;
  size_t skipped = open || kind != OMMAI_ITEM_TEXT ? 0 : skip_blanks(head, text, size);
  if (size == skipped) return;
  if (!open) open_item(format, out, head, kind);
  format->grow(out, head, text + skipped, size - skipped, logprobs);
}

static void take_call(const struct ommai_item_format *format, struct ommai_text *out, const struct ommai_reply_head *head,
                      const struct ommai_tool_call *call) {
  size_t used = call->arguments_used;
  if (!call->name_used) {
    close_item(format, out, head, false); /* while its own call is the state's */
    head->state->call = call;
    head->state->has_calls = true;
    open_item(format, out, head, OMMAI_ITEM_CALL);
  }
  if (call->arguments.size > used) {
    format->grow(out, head, call->arguments.data + used, call->arguments.size - used, NULL);
  }
}

void ommai_reply_take_items(const struct ommai_item_format *format, struct ommai_text *out, const struct ommai_reply_head *head,
                            const struct ommai_reply_part *part) {
  const struct ommai_text *logprobs = part->logprobs && part->logprobs->lists[0].size ? &part->logprobs->lists[0] : NULL;
  take_text(format, out, head, OMMAI_ITEM_REASONING, part->reasoning, part->reasoning_size, NULL);
  take_text(format, out, head, OMMAI_ITEM_TEXT, part->text, part->text_size, logprobs);
  for (size_t i = 0; i < part->n_calls; i++) take_call(format, out, head, &part->calls[i]);
  if (!part->finish_reason) return;
  head->state->finish_reason = part->finish_reason;
  close_item(format, out, head, strcmp(part->finish_reason, "length") == 0);
}

void ommai_reply_add_head(struct ommai_text *out, const struct ommai_reply_head *head, const char *object) {
  ommai_put_begin(out, NULL, "{");
  OMMAI_PUT_STRINGS(out, {"id", head->id}, {"object", object});
  ommai_put_integer(out, "created", head->created);
  ommai_put_string(out, "model", head->model);
}

void ommai_reply_begin_event(struct ommai_text *out, const struct ommai_reply_head *head, const char *object) {
  ommai_text_add(out, "data: ");
  ommai_reply_add_head(out, head, object);
}

void ommai_reply_add_own(struct ommai_text *out, const struct ommai_usage *usage) {
  if (usage->own) ommai_put_raw_text(out, "ommatidia", usage->own);
}

/* null of a stream's span is left out. */
static void add_usage(struct ommai_text *out, const struct ommai_usage *usage, bool whole) {
  ommai_put_begin(out, "usage", "{");
  OMMAI_PUT_INTEGERS(out, {"prompt_tokens", usage->prompt_tokens},
                     {"total_tokens", usage->prompt_tokens + usage->completion_tokens},
                     {"completion_tokens", usage->completion_tokens});
  const json_int_t cached = usage->cached_tokens, reasoning = usage->reasoning_tokens;
  if (cached >= 0) ommai_put_new(out, "prompt_tokens_details", json_pack("{s:I}", "cached_tokens", cached));
  if (reasoning >= 0) {
    ommai_put_new(out, "completion_tokens_details", json_pack("{s:I}", "reasoning_tokens", reasoning));
  } else if (whole) {
    ommai_put_null(out, "completion_tokens_details");
  }
  ommai_put_end(out, "}");
  ommai_reply_add_own(out, usage);
}

void ommai_reply_end_event(struct ommai_text *out, const struct ommai_usage *usage) {
  if (usage) add_usage(out, usage, false);
  ommai_put_end(out, "}\n\n");
}

void ommai_reply_add_usage_event(struct ommai_text *out, const struct ommai_reply_head *head, const char *object,
                                 const struct ommai_usage *usage) {
  ommai_reply_begin_event(out, head, object);
  ommai_put_begin(out, "choices", "[]");
  ommai_reply_end_event(out, usage);
}

static void add_ranked(struct ommai_text *list, const struct omma_model *model, int32_t token, float logprob, int64_t rank) {
  char text[OMMAI_TOKEN_TEXT_SIZE], key[16];
  snprintf(key, sizeof key, "%" PRId32, token);
  ommai_put_begin(list, key, "{");
  ommai_put_number(list, "logprob", ommai_reply_logprob(logprob), 9);
  ommai_put_integer(list, "rank", rank);
  ommai_put_text(list, "decoded_token", text, ommai_reply_token_text(model, token, text));
  ommai_put_end(list, "}");
}

void ommai_reply_add_prompt_logprob(struct ommai_text *list, const struct omma_model *model,
                                    const struct omma_prompt_token_event *event) {
  if (!list->size) ommai_put_null(list, NULL); /* nothing stands before the first token */
  ommai_put_begin(list, NULL, "{");
  add_ranked(list, model, event->token, event->logprob, event->rank);
  for (int i = 0; i < event->n_top; i++) {
    if (event->top[i].token == event->token) continue;
    add_ranked(list, model, event->top[i].token, event->top[i].logprob, i + 1);
  }
  ommai_put_end(list, "}");
}

void ommai_reply_add_reasons(struct ommai_text *out, const struct ommai_reply_part *part) {
  ommai_put_string(out, "finish_reason", part->finish_reason);
  if (!part->stop_string && part->stop_token >= 0) {
    ommai_put_integer(out, "stop_reason", part->stop_token);
  } else {
    ommai_put_string(out, "stop_reason", part->stop_string);
  }
}

void ommai_reply_add_whole_usage(struct ommai_text *out, const struct ommai_usage *usage) {
  ommai_put_nulls(out, "service_tier", "system_fingerprint", NULL);
  add_usage(out, usage, true);
}

size_t ommai_reply_token_text(const struct omma_model *model, int32_t token, char text[OMMAI_TOKEN_TEXT_SIZE]) {
  size_t size = 0;
  if (omma_detokenize(model, &token, 1, false, text, OMMAI_TOKEN_TEXT_SIZE, &size, NULL) != OMMA_OK) return 0;
  return size < OMMAI_TOKEN_TEXT_SIZE ? size : OMMAI_TOKEN_TEXT_SIZE;
}

double ommai_reply_logprob(float logprob) {
  return isfinite(logprob) && logprob > LOWEST_LOGPROB ? (double)logprob : LOWEST_LOGPROB;
}
