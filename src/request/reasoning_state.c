#include "request/reasoning_state.h"

#include <string.h>

#include "base/error.h"
#include "model/model_open.h"

static enum omma_status take_mark(const char *name, const char *mark, char out[OMMA_MAX_MARK_BYTES + 1], size_t *out_size,
                                  struct omma_error *error) {
  size_t size = mark ? strlen(mark) : 0;
  if (size == 0 || size > OMMA_MAX_MARK_BYTES) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "reasoning",
                            "reasoning: expected a mark of 1 to %d bytes for its %s, found %zu", OMMA_MAX_MARK_BYTES, name,
                            size);
  }
  memcpy(out, mark, size + 1);
  *out_size = size;
  return OMMA_OK;
}

/* The text that is written when the budget is used up, as tokens. */
static enum omma_status take_forced_end(struct ommai_reasoning_rules *rules, const struct omma_model *model, const char *text,
                                        struct omma_error *error) {
  size_t size = strlen(text);
  if (size < rules->end_size || memcmp(text + size - rules->end_size, rules->end, rules->end_size) != 0) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "reasoning",
                            "reasoning: what ends reasoning must itself end with the mark %s", rules->end);
  }
  OMMAI_TRY(ommai_tokenizer_encode(model->tokenizer, text, size, true, NULL, 0, &rules->n_forced, error));
  if (rules->n_forced > OMMAI_MAX_FORCED_TOKENS) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "reasoning",
                            "reasoning: what ends reasoning may have at most %d tokens, found %zu", OMMAI_MAX_FORCED_TOKENS,
                            rules->n_forced);
  }
  return ommai_tokenizer_encode(model->tokenizer, text, size, true, rules->forced, OMMAI_MAX_FORCED_TOKENS, &rules->n_forced,
                                error);
}

enum omma_status ommai_reasoning_rules_take(struct ommai_reasoning_rules *rules, const struct omma_model *model,
                                            const struct omma_sampling *sampling, struct omma_error *error) {
  const struct omma_reasoning *reasoning = sampling->reasoning;
  *rules = (struct ommai_reasoning_rules){.begin_token = -1, .end_token = -1, .answer_begin_token = -1};
  if (!reasoning) return OMMA_OK;
  OMMAI_TRY(ommai_model_require_tokenizer(model, error));
  OMMAI_TRY(take_mark("begin", reasoning->begin, rules->begin, &rules->begin_size, error));
  OMMAI_TRY(take_mark("end", reasoning->end, rules->end, &rules->end_size, error));
  if (!ommai_tokenizer_find(model->tokenizer, rules->begin, &rules->begin_token)) rules->begin_token = -1;
  if (!ommai_tokenizer_find(model->tokenizer, rules->end, &rules->end_token)) rules->end_token = -1;
  if (reasoning->answer_begin && !sampling->grammar) {
    OMMAI_TRY(take_mark("answer's begin", reasoning->answer_begin, rules->answer_begin, &rules->answer_begin_size, error));
    if (!ommai_tokenizer_find(model->tokenizer, rules->answer_begin, &rules->answer_begin_token))
      rules->answer_begin_token = -1;
  }
  rules->limited = sampling->limits_thinking;
  rules->max_tokens = sampling->max_thinking_tokens;
  if (!rules->limited) return OMMA_OK;
  if (rules->max_tokens < 0) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "thinking_token_budget",
                            "thinking_token_budget: expected at least 0, found %lld", (long long)rules->max_tokens);
  }
  return take_forced_end(rules, model, reasoning->forced_end ? reasoning->forced_end : rules->end, error);
}

bool ommai_reasoning_is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

struct span {
  const char *at;
  size_t size;
};

static struct span strip(struct span span) {
  while (span.size && ommai_reasoning_is_blank(span.at[span.size - 1])) span.size--;
  while (span.size && ommai_reasoning_is_blank(span.at[0])) span = (struct span){span.at + 1, span.size - 1};
  return span;
}

/* What follows the last end mark in a text; false where there is none. */
static bool after_end(const struct ommai_reasoning_rules *rules, struct span text, struct span *rest) {
  for (size_t at = text.size; at >= rules->end_size; at--) {
    if (memcmp(text.at + at - rules->end_size, rules->end, rules->end_size) != 0) continue;
    *rest = strip((struct span){text.at + at, text.size - at});
    return true;
  }
  return false;
}

/* Chat templates may put empty reasoning before the message that goes on. */
void ommai_reasoning_rules_open(struct ommai_reasoning_rules *rules, const struct ommai_prompt_builder *prompt,
                                const struct omma_message *last_message, bool continue_final_message) {
  const struct span text = {prompt->text, prompt->size};
  struct span rest, ignored;
  if (!rules->end_size) return;
  rules->open = true;
  if (!after_end(rules, text, &rest)) return;
  if (rest.size == 0) rules->open = false;
  for (size_t i = 0; continue_final_message && i < last_message->n_parts; i++) {
    const struct span part = {last_message->parts[i].text, last_message->parts[i].text_size}, words = strip(part);
    bool follows = words.size && words.size == rest.size && !memcmp(words.at, rest.at, rest.size);
    if (follows || after_end(rules, part, &ignored)) rules->open = false;
  }
}

void ommai_reasoning_start(struct ommai_reasoning_state *reasoning, const struct ommai_reasoning_rules *rules) {
  *reasoning = (struct ommai_reasoning_state){.stage = rules->open ? OMMAI_REASONING_BEFORE : OMMAI_REASONING_OVER};
}

int32_t ommai_reasoning_forced_token(const struct ommai_reasoning_state *reasoning, const struct ommai_reasoning_rules *rules) {
  if (reasoning->stage == OMMAI_REASONING_OVER || !rules->limited || reasoning->n_forced == rules->n_forced) return -1;
  if (reasoning->n_forced == 0 && reasoning->n_tokens - reasoning->first_token < rules->max_tokens) return -1;
  return rules->forced[reasoning->n_forced];
}

void ommai_reasoning_count_token(struct ommai_reasoning_state *reasoning, const struct ommai_reasoning_rules *rules) {
  if (reasoning->stage == OMMAI_REASONING_OVER) return;
  reasoning->n_forced += ommai_reasoning_forced_token(reasoning, rules) >= 0;
  reasoning->n_tokens++;
}
