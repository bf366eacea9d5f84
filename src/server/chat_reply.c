#include "server/chat_reply.h"

#include <inttypes.h>
#include <math.h>

#define TOKEN_TEXT_SIZE 512
#define LOWEST_LOGPROB (-9999.0) /* stands for minus infinity, which JSON lacks; as vLLM */

const char *ommai_finish_reason(enum omma_finish finish) {
  switch (finish) {
    case OMMA_FINISH_STOP: return "stop";
    case OMMA_FINISH_LENGTH: return "length";
    default: return NULL;
  }
}

static void add_head(struct ommai_text *out, const struct ommai_reply_head *head, const char *object) {
  ommai_text_add(out, "{\"id\":");
  ommai_text_json_string(out, head->id);
  ommai_text_format(out, ",\"object\":\"%s\",\"created\":%" PRId64 ",\"model\":", object, head->created);
  ommai_text_json_string(out, head->model);
}

static void begin_event(struct ommai_text *out, const struct ommai_reply_head *head) {
  ommai_text_add(out, "data: ");
  add_head(out, head, "chat.completion.chunk");
}

static void add_usage(struct ommai_text *out, const struct ommai_usage *usage) {
  ommai_text_format(out,
                    ",\"usage\":{\"prompt_tokens\":%" PRId64 ",\"total_tokens\":%" PRId64 ",\"completion_tokens\":%" PRId64,
                    usage->prompt_tokens, usage->prompt_tokens + usage->completion_tokens, usage->completion_tokens);
}

static void end_event(struct ommai_text *out, const struct ommai_usage *usage) {
  if (usage) {
    add_usage(out, usage);
    ommai_text_add(out, "}");
  }
  ommai_text_add(out, "}\n\n");
}

void ommai_reply_role_event(struct ommai_text *out, const struct ommai_reply_head *head, int index,
                            const struct ommai_usage *usage) {
  begin_event(out, head);
  ommai_text_format(out,
                    ",\"choices\":[{\"index\":%d,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                    "\"finish_reason\":null}]",
                    index);
  end_event(out, usage);
}

static void add_logprobs(struct ommai_text *out, const struct ommai_reply_part *part) {
  if (!part->logprobs) {
    ommai_text_add(out, ",\"logprobs\":null");
    return;
  }
  ommai_text_add(out, ",\"logprobs\":{\"content\":[");
  ommai_text_append(out, part->logprobs, part->logprobs_size);
  ommai_text_add(out, "]}");
}

static void add_stop_reason(struct ommai_text *out, const struct ommai_reply_part *part) {
  ommai_text_add(out, ",\"stop_reason\":");
  if (!part->stop_string && part->stop_token >= 0) {
    ommai_text_format(out, "%" PRId32, part->stop_token);
  } else {
    ommai_text_json_string(out, part->stop_string);
  }
}

void ommai_reply_delta_event(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_reply_part *part,
                             const struct ommai_usage *usage) {
  begin_event(out, head);
  ommai_text_format(out, ",\"choices\":[{\"index\":%d,\"delta\":{\"content\":", part->index);
  ommai_text_json(out, part->text, part->text_size);
  ommai_text_add(out, "}");
  add_logprobs(out, part);
  ommai_text_add(out, ",\"finish_reason\":");
  ommai_text_json_string(out, part->finish_reason);
  if (part->finish_reason) add_stop_reason(out, part);
  ommai_text_add(out, ",\"token_ids\":null}]");
  end_event(out, usage);
}

void ommai_reply_usage_event(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_usage *usage) {
  begin_event(out, head);
  ommai_text_add(out, ",\"choices\":[]");
  end_event(out, usage);
}

void ommai_reply_whole(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_reply_part *parts,
                       int n_parts, const struct ommai_usage *usage) {
  add_head(out, head, "chat.completion");
  for (int i = 0; i < n_parts; i++) {
    ommai_text_format(out, "%s{\"index\":%d,\"message\":{\"role\":\"assistant\",\"content\":", i ? "," : ",\"choices\":[",
                      parts[i].index);
    ommai_text_json(out, parts[i].text, parts[i].text_size);
    ommai_text_add(out, ",\"refusal\":null,\"annotations\":null,\"audio\":null,\"function_call\":null,\"reasoning\":null}");
    add_logprobs(out, &parts[i]);
    ommai_text_add(out, ",\"finish_reason\":");
    ommai_text_json_string(out, parts[i].finish_reason);
    add_stop_reason(out, &parts[i]);
    ommai_text_add(out, ",\"token_ids\":null}");
  }
  ommai_text_add(out, "],\"service_tier\":null,\"system_fingerprint\":null");
  add_usage(out, usage);
  ommai_text_add(out,
                 ",\"prompt_tokens_details\":null,\"completion_tokens_details\":null},\"prompt_logprobs\":null,"
                 "\"prompt_token_ids\":null,\"kv_transfer_params\":null}");
}

static void add_token(struct ommai_text *out, const struct omma_model *model, int32_t token, float logprob) {
  char text[TOKEN_TEXT_SIZE];
  size_t size = 0;
  if (omma_detokenize(model, &token, 1, false, text, sizeof text, &size, NULL) != OMMA_OK) size = 0;
  if (size > sizeof text) size = sizeof text;
  double value = isfinite(logprob) && logprob > LOWEST_LOGPROB ? (double)logprob : LOWEST_LOGPROB;
  ommai_text_add(out, "{\"token\":");
  ommai_text_json(out, text, size);
  ommai_text_format(out, ",\"logprob\":%.9g,\"bytes\":[", value);
  for (size_t i = 0; i < size; i++) ommai_text_format(out, i ? ",%u" : "%u", (unsigned)(unsigned char)text[i]);
  ommai_text_add(out, "]");
}

void ommai_reply_logprob(struct ommai_text *out, const struct omma_model *model, const struct omma_token_event *event) {
  add_token(out, model, event->token, event->has_logprob ? event->logprob : -INFINITY);
  ommai_text_add(out, ",\"top_logprobs\":[");
  for (int i = 0; i < event->n_top; i++) {
    if (i) ommai_text_add(out, ",");
    add_token(out, model, event->top[i].token, event->top[i].logprob);
    ommai_text_add(out, "}");
  }
  ommai_text_add(out, "]}");
}
