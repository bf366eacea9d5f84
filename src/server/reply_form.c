#include "server/reply_form.h"

#include <inttypes.h>
#include <math.h>

#define LOWEST_LOGPROB (-9999.0) /* stands for minus infinity, which JSON lacks; as vLLM */

const char *ommai_finish_reason(enum omma_finish finish) {
  switch (finish) {
    case OMMA_FINISH_STOP: return "stop";
    case OMMA_FINISH_LENGTH: return "length";
    default: return NULL;
  }
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

static void add_own(struct ommai_text *out, const struct ommai_usage *usage) {
  if (!usage->own) return;
  ommai_text_add(out, ",\"ommatidia\":");
  ommai_text_append(out, usage->own->data, usage->own->size);
}

void ommai_reply_end_event(struct ommai_text *out, const struct ommai_usage *usage) {
  if (usage) {
    add_usage(out, usage);
    add_prompt_details(out, usage);
    ommai_text_add(out, "}");
    add_own(out, usage);
  }
  ommai_text_add(out, "}\n\n");
}

void ommai_reply_add_list(struct ommai_text *out, const char *key, const struct ommai_text *list) {
  ommai_text_format(out, list ? ",\"%s\":[" : ",\"%s\":null", key);
  if (!list) return;
  ommai_text_append(out, list->data, list->size);
  ommai_text_add(out, "]");
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
  ommai_text_add(out, ",\"completion_tokens_details\":null}");
  add_own(out, usage);
}

size_t ommai_reply_token_text(const struct omma_model *model, int32_t token, char text[OMMAI_TOKEN_TEXT_SIZE]) {
  size_t size = 0;
  if (omma_detokenize(model, &token, 1, false, text, OMMAI_TOKEN_TEXT_SIZE, &size, NULL) != OMMA_OK) return 0;
  return size < OMMAI_TOKEN_TEXT_SIZE ? size : OMMAI_TOKEN_TEXT_SIZE;
}

double ommai_reply_logprob(float logprob) {
  return isfinite(logprob) && logprob > LOWEST_LOGPROB ? (double)logprob : LOWEST_LOGPROB;
}
