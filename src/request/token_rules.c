#include "request/token_rules.h"

#include <math.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "grammar/token_trie.h"
#include "model/model_open.h"
#include "text/utf8.h"

/* ---- biases ---- */

/* Where a token's bias stands, or belongs. */
static size_t find_bias(const struct ommai_token_rules *rules, int32_t token) {
  size_t low = 0, high = rules->n_biases;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (rules->biases[middle].token < token) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

static void set_bias(struct ommai_token_rules *rules, int32_t token, float bias) {
  size_t at = find_bias(rules, token);
  struct omma_logit_bias *place = &rules->biases[at];
  if (at == rules->n_biases || place->token != token) {
    memmove(place + 1, place, (rules->n_biases - at) * sizeof *place);
    rules->n_biases++;
  }
  *place = (struct omma_logit_bias){token, fminf(fmaxf(bias, -OMMAI_MAX_BIAS), OMMAI_MAX_BIAS)};
}

static enum omma_status take_biases(struct ommai_token_rules *rules, const struct omma_model *model,
                                    const struct omma_sampling *sampling, struct omma_error *error) {
  static const char FIELD[] = "logit_bias";
  size_t n = sampling->n_logit_bias;
  if (n == 0) return OMMA_OK;
  if (!sampling->logit_bias || n > OMMA_MAX_LOGIT_BIAS) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, FIELD, "%s: expected a list of at most %d tokens, found %zu", FIELD,
                            OMMA_MAX_LOGIT_BIAS, n);
  }
  rules->bias_room = n;
  rules->biases = ommai_allocate(&model->allocator, n, sizeof *rules->biases);
  if (!rules->biases) return ommai_fail_memory(error, FIELD, n * sizeof *rules->biases);
  for (size_t i = 0; i < n; i++) {
    const struct omma_logit_bias *bias = &sampling->logit_bias[i];
    if (bias->token < 0 || bias->token >= model->config.text.vocab_size) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, FIELD, "%s: there is no token %d; the vocabulary has %lld", FIELD,
                              bias->token, (long long)model->config.text.vocab_size);
    }
    if (isnan(bias->bias)) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, FIELD, "%s: the bias of token %d is not a number", FIELD,
                              bias->token);
    }
    set_bias(rules, bias->token, bias->bias);
  }
  return OMMA_OK;
}

/* ---- allowed tokens ---- */

static enum omma_status take_allowed(struct ommai_token_rules *rules, const struct omma_model *model,
                                     const struct omma_sampling *sampling, struct omma_error *error) {
  static const char FIELD[] = "allowed_token_ids";
  size_t n = sampling->n_allowed_token_ids;
  int64_t vocab = model->config.text.vocab_size;
  if (!sampling->allowed_token_ids && n == 0) return OMMA_OK;
  if (!sampling->allowed_token_ids || n == 0) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, FIELD, "%s: expected at least one token", FIELD);
  }
  rules->n_allowed_words = (size_t)ommai_mask_words(vocab);
  rules->allowed = ommai_allocate(&model->allocator, rules->n_allowed_words, sizeof *rules->allowed);
  if (!rules->allowed) return ommai_fail_memory(error, FIELD, rules->n_allowed_words * sizeof *rules->allowed);
  for (size_t i = 0; i < n; i++) {
    int32_t token = sampling->allowed_token_ids[i];
    if (token < 0 || token >= vocab) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, FIELD, "%s[%zu]: there is no token %d; the vocabulary has %lld",
                              FIELD, i, token, (long long)vocab);
    }
    ommai_mask_set(rules->allowed, token);
  }
  return OMMA_OK;
}

/* ---- bad words ---- */

/* What Python's str.lstrip takes off. */
static bool is_blank(uint32_t code_point) {
  return ommai_utf8_white_space(code_point) || (code_point >= 0x1c && code_point <= 0x1f);
}

static const char *skip_blanks(const char *text) {
  while (*text) {
    size_t length;
    if (!is_blank(ommai_utf8_decode(text, &length))) break;
    text += length;
  }
  return text;
}

static const int32_t *bad_word(const struct ommai_token_rules *rules, size_t index, size_t *n) {
  size_t first = index ? rules->bad_ends[index - 1] : 0;
  *n = rules->bad_ends[index] - first;
  return rules->bad_tokens + first;
}

/* Appends the tokens of a text after the last word's; *n: how many. They count with keep_word
 * only. */
static enum omma_status append_tokens(struct ommai_token_rules *rules, const struct omma_model *model, const char *text,
                                      size_t *n, struct omma_error *error) {
  size_t used = rules->n_bad_words ? rules->bad_ends[rules->n_bad_words - 1] : 0;
  return ommai_tokenizer_encode(model->tokenizer, text, strlen(text), true, rules->bad_tokens + used, rules->bad_room - used, n,
                                error);
}

static enum omma_status keep_word(struct ommai_token_rules *rules, size_t n, struct omma_error *error) {
  size_t used = rules->n_bad_words ? rules->bad_ends[rules->n_bad_words - 1] : 0;
  if (rules->n_bad_words == OMMA_MAX_BAD_WORDS) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "bad_words",
                            "bad_words: at most %d sequences of tokens, those with a blank in front included",
                            OMMA_MAX_BAD_WORDS);
  }
  rules->bad_ends[rules->n_bad_words++] = used + n;
  return OMMA_OK;
}

/* A word as it stands at the beginning of a text, and after a blank where that makes another first
 * token and as many. */
static enum omma_status take_word(struct ommai_token_rules *rules, const struct omma_model *model, const char *word,
                                  struct omma_error *error) {
  char after_blank[1 + OMMAI_MAX_BAD_WORD_BYTES + 1] = " ";
  size_t n, n_after, n_first;
  const char *bare = skip_blanks(word);
  OMMAI_TRY(append_tokens(rules, model, bare, &n, error));
  if (n == 0) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "bad_words", "bad_words: \"%.80s\" has no token", word);
  }
  OMMAI_TRY(keep_word(rules, n, error));
  memcpy(after_blank + 1, bare, strlen(bare) + 1);
  OMMAI_TRY(append_tokens(rules, model, after_blank, &n_after, error));
  const int32_t *first = bad_word(rules, rules->n_bad_words - 1, &n_first), *second = first + n_first;
  if (n_after != n || second[0] == first[0]) return OMMA_OK;
  return keep_word(rules, n_after, error);
}

static enum omma_status check_word(const char *word, size_t index, struct omma_error *error) {
  size_t size = strlen(word), offset;
  if (size == 0 || size > OMMAI_MAX_BAD_WORD_BYTES) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "bad_words", "bad_words[%zu]: expected 1 to %d bytes, found %zu", index,
                            OMMAI_MAX_BAD_WORD_BYTES, size);
  }
  if (ommai_utf8_valid(word, size, &offset)) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "bad_words", "bad_words[%zu]: invalid UTF-8 at byte %zu", index, offset);
}

static enum omma_status take_bad_words(struct ommai_token_rules *rules, const struct omma_model *model,
                                       const struct omma_sampling *sampling, struct omma_error *error) {
  if (sampling->n_bad_words == 0) return OMMA_OK;
  if (!sampling->bad_words || sampling->n_bad_words > OMMA_MAX_BAD_WORDS) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "bad_words", "bad_words: expected a list of at most %d, found %zu",
                            OMMA_MAX_BAD_WORDS, sampling->n_bad_words);
  }
  OMMAI_TRY(ommai_model_require_tokenizer(model, error));
  for (size_t i = 0; i < sampling->n_bad_words; i++) {
    OMMAI_TRY(check_word(sampling->bad_words[i], i, error));
    /* a byte has 3 tokens at most */
    rules->bad_room += 2 * 3 * (strlen(sampling->bad_words[i]) + 1);
  }
  rules->bad_tokens = ommai_allocate(&model->allocator, rules->bad_room, sizeof *rules->bad_tokens);
  if (!rules->bad_tokens) return ommai_fail_memory(error, "bad_words", rules->bad_room * sizeof *rules->bad_tokens);
  for (size_t i = 0; i < sampling->n_bad_words; i++) OMMAI_TRY(take_word(rules, model, sampling->bad_words[i], error));
  return OMMA_OK;
}

size_t ommai_token_rules_ban(const struct ommai_token_rules *rules, const int32_t *generated, int64_t n_generated,
                             int32_t *banned) {
  size_t n_banned = 0, n;
  for (size_t i = 0; i < rules->n_bad_words; i++) {
    const int32_t *word = bad_word(rules, i, &n);
    if ((int64_t)n - 1 > n_generated) continue;
    if (memcmp(word, generated + (n_generated - ((int64_t)n - 1)), (n - 1) * sizeof *word) == 0)
      banned[n_banned++] = word[n - 1];
  }
  return n_banned;
}

/* ---- all of them ---- */

enum omma_status ommai_token_rules_take(struct ommai_token_rules *rules, const struct omma_model *model,
                                        const struct omma_sampling *sampling, struct omma_error *error) {
  OMMAI_TRY(take_biases(rules, model, sampling, error));
  OMMAI_TRY(take_allowed(rules, model, sampling, error));
  return take_bad_words(rules, model, sampling, error);
}

void ommai_token_rules_free(struct ommai_token_rules *rules, const struct omma_allocator *allocator) {
  ommai_release(allocator, rules->biases, rules->bias_room, sizeof *rules->biases);
  ommai_release(allocator, rules->allowed, rules->n_allowed_words, sizeof *rules->allowed);
  ommai_release(allocator, rules->bad_tokens, rules->bad_room, sizeof *rules->bad_tokens);
  *rules = (struct ommai_token_rules){0};
}
