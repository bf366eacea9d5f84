/* The format of /v1/completions. */
#include <math.h>
#include <string.h>

#include "server/api/reply_format.h"

static const char OBJECT[] = "text_completion";

/* In the order of their keys. */
enum list { OFFSETS, LOGPROBS, TOKENS, TOP_LOGPROBS };

static void add_logprobs(struct ommai_text *out, const struct ommai_logprobs *logprobs) {
  static const char *const keys[OMMAI_LOGPROB_LISTS] = {"text_offset", "token_logprobs", "tokens", "top_logprobs"};
  if (!logprobs) {
    ommai_put_null(out, "logprobs");
    return;
  }
  ommai_put_begin(out, "logprobs", "{");
  for (int i = 0; i < OMMAI_LOGPROB_LISTS; i++) ommai_put_list(out, keys[i], &logprobs->lists[i]);
  ommai_put_end(out, "}");
}

/* Without its end. */
static void begin_choice(struct ommai_text *out, const struct ommai_reply_part *part) {
  ommai_put_begin(out, NULL, "{");
  ommai_put_integer(out, "index", part->index);
  ommai_put_text(out, "text", part->text, part->text_size);
  add_logprobs(out, part->logprobs);
  ommai_reply_add_reasons(out, part);
}

static void delta(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_reply_part *part,
                  const struct ommai_usage *usage) {
  ommai_reply_begin_event(out, head, OBJECT);
  ommai_put_begin(out, "choices", "[");
  begin_choice(out, part);
  ommai_put_list(out, "prompt_token_ids", part->prompt_ids);
  ommai_put_list(out, "token_ids", part->token_ids);
  ommai_put_end(out, "}]");
  ommai_reply_end_event(out, usage);
}

static void usage_event(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_usage *usage) {
  ommai_reply_add_usage_event(out, head, OBJECT, usage);
}

static void whole(struct ommai_text *out, const struct ommai_reply_head *head, const struct ommai_reply_part *parts,
                  int n_parts, const struct ommai_usage *usage) {
  ommai_reply_add_head(out, head, OBJECT);
  ommai_put_begin(out, "choices", "[");
  for (int i = 0; i < n_parts; i++) {
    begin_choice(out, &parts[i]);
    ommai_put_list(out, "token_ids", parts[i].token_ids);
    ommai_put_list(out, "prompt_logprobs", parts[i].prompt_logprobs);
    ommai_put_list(out, "prompt_token_ids", parts[i].prompt_ids);
    ommai_put_null(out, "routed_experts");
    ommai_put_end(out, "}");
  }
  ommai_put_end(out, "]");
  ommai_reply_add_whole_usage(out, usage);
  ommai_put_nulls(out, "kv_transfer_params", "ec_transfer_params", "metrics", NULL);
  ommai_put_end(out, "}");
}

static int64_t count_characters(const char *text, size_t size) {
  int64_t count = 0;
  for (size_t i = 0; i < size; i++) count += ((unsigned char)text[i] & 0xc0u) != 0x80u;
  return count;
}

/* Tokens' texts; different tokens may have the same (pieces of characters), but an object's keys
 * must differ. */
struct texts {
  char text[OMMA_MAX_TOP_LOGPROBS + 1][OMMAI_TOKEN_TEXT_SIZE];
  size_t size[OMMA_MAX_TOP_LOGPROBS + 1];
  int count;
};

static bool is_known(const struct texts *texts, const char *text, size_t size) {
  for (int i = 0; i < texts->count; i++) {
    if (texts->size[i] == size && !memcmp(texts->text[i], text, size)) return true;
  }
  return false;
}

/* One more key and its value; of equal keys the first stays. */
static void add_pair(struct ommai_text *out, struct texts *texts, const struct omma_model *model, int32_t token,
                     float logprob) {
  char *text = texts->text[texts->count];
  size_t size = ommai_reply_token_text(model, token, text);
  if (is_known(texts, text, size)) return;
  ommai_put_key(out, text, size);
  ommai_put_number(out, NULL, ommai_reply_logprob(logprob), 9);
  texts->size[texts->count++] = size;
}

/* The chosen token and the likeliest others, as vLLM does. */
static void add_logprob(struct ommai_logprobs *logprobs, const struct omma_model *model, const struct omma_token_event *event) {
  struct ommai_text *lists = logprobs->lists;
  struct texts texts;
  float logprob = event->has_logprob ? event->logprob : -INFINITY;
  texts.count = 0;
  ommai_put_begin(&lists[TOP_LOGPROBS], NULL, "{");
  add_pair(&lists[TOP_LOGPROBS], &texts, model, event->token, logprob);
  for (int i = 0; i < event->n_top; i++) {
    add_pair(&lists[TOP_LOGPROBS], &texts, model, event->top[i].token, event->top[i].logprob);
  }
  ommai_put_end(&lists[TOP_LOGPROBS], "}");
  ommai_put_integer(&lists[OFFSETS], NULL, logprobs->n_characters);
  ommai_put_number(&lists[LOGPROBS], NULL, ommai_reply_logprob(logprob), 9);
  ommai_put_text(&lists[TOKENS], NULL, texts.text[0], texts.size[0]);
  logprobs->n_characters += count_characters(texts.text[0], texts.size[0]);
}

static void add_unscored(struct ommai_logprobs *logprobs, const struct omma_model *model, int32_t token) {
  struct ommai_text *lists = logprobs->lists;
  char text[OMMAI_TOKEN_TEXT_SIZE];
  size_t size = ommai_reply_token_text(model, token, text);
  ommai_put_integer(&lists[OFFSETS], NULL, 0);
  ommai_put_null(&lists[LOGPROBS], NULL);
  ommai_put_text(&lists[TOKENS], NULL, text, size);
  ommai_put_null(&lists[TOP_LOGPROBS], NULL);
  logprobs->n_characters = count_characters(text, size);
}

const struct ommai_reply_format ommai_completion_reply_format = {.id_prefix = "cmpl-",
                                                                 .delta = delta,
                                                                 .usage = usage_event,
                                                                 .whole = whole,
                                                                 .add_logprob = add_logprob,
                                                                 .add_unscored = add_unscored};
