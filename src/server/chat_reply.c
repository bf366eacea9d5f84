/* The form of /v1/chat/completions. */
#include <math.h>

#include "server/reply_form.h"

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

static void delta(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_reply_part *part,
                  const struct ommai_usage *usage) {
  ommai_reply_begin_event(out, head, CHUNK);
  ommai_text_format(out, ",\"choices\":[{\"index\":%d,\"delta\":{\"content\":", part->index);
  ommai_text_json(out, part->text, part->text_size);
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
  ommai_reply_begin_event(out, head, CHUNK);
  ommai_text_add(out, ",\"choices\":[]");
  ommai_reply_end_event(out, usage);
}

static void whole(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_reply_part *parts,
                  int n_parts, const struct ommai_usage *usage) {
  ommai_reply_add_head(out, head, "chat.completion");
  for (int i = 0; i < n_parts; i++) {
    ommai_text_format(out, "%s{\"index\":%d,\"message\":{\"role\":\"assistant\",\"content\":", i ? "," : ",\"choices\":[",
                      parts[i].index);
    ommai_text_json(out, parts[i].text, parts[i].text_size);
    ommai_text_add(out, ",\"refusal\":null,\"annotations\":null,\"audio\":null,\"function_call\":null,\"reasoning\":null}");
    add_logprobs(out, parts[i].logprobs);
    ommai_reply_add_reasons(out, &parts[i]);
    ommai_reply_add_list(out, "token_ids", parts[i].token_ids);
    ommai_text_add(out, ",\"routed_experts\":null}");
  }
  ommai_text_add(out, "]");
  ommai_reply_add_whole_usage(out, usage);
  ommai_text_add(out, ",\"prompt_logprobs\":null");
  ommai_reply_add_list(out, "prompt_token_ids", head->prompt_ids);
  ommai_text_add(out,
                 ",\"prompt_text\":null,\"kv_transfer_params\":null,"
                 "\"ec_transfer_params\":null,\"metrics\":null}");
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

static void add_logprob(struct ommai_logprobs *logprobs, const struct omma_model *model, const struct omma_token_event *event) {
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

const struct ommai_reply_form ommai_chat_form = {
    .id_prefix = "chatcmpl-", .begin = begin, .delta = delta, .usage = usage_event, .whole = whole, .add_logprob = add_logprob};
