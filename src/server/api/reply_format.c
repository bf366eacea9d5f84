#include "server/api/reply_format.h"

#include <inttypes.h>
#include <math.h>

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
  *state = (struct ommai_reply_state){.open = OMMAI_ITEM_NONE};
  ommai_text_init(&state->text, allocator);
  ommai_text_init(&state->logprobs, allocator);
  ommai_text_init(&state->items, allocator);
  ommai_text_init(&state->stop_string, allocator);
}

void ommai_reply_state_free(struct ommai_reply_state *state) {
  ommai_text_free(&state->text);
  ommai_text_free(&state->logprobs);
  ommai_text_free(&state->items);
  ommai_text_free(&state->stop_string);
}

size_t ommai_reply_skip_blanks(const struct ommai_reply_head *head, const char *text, size_t size) {
  size_t n = 0;
  while (head->has_tools && n < size && (text[n] == ' ' || text[n] == '\n' || text[n] == '\r' || text[n] == '\t')) n++;
  return n;
}

void ommai_reply_add_head(struct ommai_text *out, const struct ommai_reply_head *head, const char *object) {
  ommai_text_add(out, "{\"id\":");
  ommai_text_json_string(out, head->id);
  ommai_text_format(out, ",\"object\":\"%s\",\"created\":%" PRId64 ",\"model\":", object, head->created);
  ommai_text_json_string(out, head->model);
}

void ommai_reply_begin_event(struct ommai_text *out, const struct ommai_reply_head *head, const char *object) {
  ommai_text_add(out, "data: ");
  ommai_reply_add_head(out, head, object);
}

static void add_usage(struct ommai_text *out, const struct ommai_usage *usage) {
  ommai_text_format(out,
                    ",\"usage\":{\"prompt_tokens\":%" PRId64 ",\"total_tokens\":%" PRId64 ",\"completion_tokens\":%" PRId64,
                    usage->prompt_tokens, usage->prompt_tokens + usage->completion_tokens, usage->completion_tokens);
}

static void add_prompt_details(struct ommai_text *out, const struct ommai_usage *usage) {
  if (usage->cached_tokens < 0) return;
  ommai_text_format(out, ",\"prompt_tokens_details\":{\"cached_tokens\":%" PRId64 "}", usage->cached_tokens);
}

void ommai_reply_add_own(struct ommai_text *out, const struct ommai_usage *usage) {
  if (!usage->own) return;
  ommai_text_add(out, ",\"ommatidia\":");
  ommai_text_append(out, usage->own->data, usage->own->size);
}

/* null of a stream's span is left out. */
static void add_completion_details(struct ommai_text *out, const struct ommai_usage *usage, bool whole) {
  if (usage->reasoning_tokens >= 0) {
    ommai_text_format(out, ",\"completion_tokens_details\":{\"reasoning_tokens\":%" PRId64 "}", usage->reasoning_tokens);
  } else if (whole) {
    ommai_text_add(out, ",\"completion_tokens_details\":null");
  }
}

void ommai_reply_end_event(struct ommai_text *out, const struct ommai_usage *usage) {
  if (usage) {
    add_usage(out, usage);
    add_prompt_details(out, usage);
    add_completion_details(out, usage, false);
    ommai_text_add(out, "}");
    ommai_reply_add_own(out, usage);
  }
  ommai_text_add(out, "}\n\n");
}

void ommai_reply_add_usage_event(struct ommai_text *out, const struct ommai_reply_head *head, const char *object,
                                 const struct ommai_usage *usage) {
  ommai_reply_begin_event(out, head, object);
  ommai_text_add(out, ",\"choices\":[]");
  ommai_reply_end_event(out, usage);
}

void ommai_reply_add_list(struct ommai_text *out, const char *key, const struct ommai_text *list) {
  ommai_text_format(out, list ? ",\"%s\":[" : ",\"%s\":null", key);
  if (!list) return;
  ommai_text_append(out, list->data, list->size);
  ommai_text_add(out, "]");
}

static void add_ranked(struct ommai_text *list, const struct omma_model *model, int32_t token, float logprob, int64_t rank) {
  char text[OMMAI_TOKEN_TEXT_SIZE];
  size_t size = ommai_reply_token_text(model, token, text);
  ommai_text_format(list, "\"%" PRId32 "\":{\"logprob\":%.9g,\"rank\":%" PRId64 ",\"decoded_token\":", token,
                    ommai_reply_logprob(logprob), rank);
  ommai_text_json(list, text, size);
  ommai_text_add(list, "}");
}

void ommai_reply_add_prompt_logprob(struct ommai_text *list, const struct omma_model *model,
                                    const struct omma_prompt_token_event *event) {
  ommai_text_add(list, list->size ? ",{" : "null,{"); /* nothing stands before the first token */
  add_ranked(list, model, event->token, event->logprob, event->rank);
  for (int i = 0; i < event->n_top; i++) {
    if (event->top[i].token == event->token) continue;
    ommai_text_add(list, ",");
    add_ranked(list, model, event->top[i].token, event->top[i].logprob, i + 1);
  }
  ommai_text_add(list, "}");
}

void ommai_reply_add_reasons(struct ommai_text *out, const struct ommai_reply_part *part) {
  ommai_text_add(out, ",\"finish_reason\":");
  ommai_text_json_string(out, part->finish_reason);
  ommai_text_add(out, ",\"stop_reason\":");
  if (!part->stop_string && part->stop_token >= 0) {
    ommai_text_format(out, "%" PRId32, part->stop_token);
  } else {
    ommai_text_json_string(out, part->stop_string);
  }
}

void ommai_reply_add_whole_usage(struct ommai_text *out, const struct ommai_usage *usage) {
  ommai_text_add(out, ",\"service_tier\":null,\"system_fingerprint\":null");
  add_usage(out, usage);
  add_prompt_details(out, usage);
  add_completion_details(out, usage, true);
  ommai_text_add(out, "}");
  ommai_reply_add_own(out, usage);
}

size_t ommai_reply_token_text(const struct omma_model *model, int32_t token, char text[OMMAI_TOKEN_TEXT_SIZE]) {
  size_t size = 0;
  if (omma_detokenize(model, &token, 1, false, text, OMMAI_TOKEN_TEXT_SIZE, &size, NULL) != OMMA_OK) return 0;
  return size < OMMAI_TOKEN_TEXT_SIZE ? size : OMMAI_TOKEN_TEXT_SIZE;
}

double ommai_reply_logprob(float logprob) {
  return isfinite(logprob) && logprob > LOWEST_LOGPROB ? (double)logprob : LOWEST_LOGPROB;
}
