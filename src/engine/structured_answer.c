#include "engine/structured_answer.h"

#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "engine/model.h"
#include "engine/request.h"
#include "grammar/answer_grammar.h"

/* ---- grammars ---- */

void ommai_shared_trie_free(struct ommai_shared_trie *shared) { ommai_token_trie_destroy(atomic_load(&shared->trie)); }

/* The model's tree; two that are made at the same time are the same, and the second one goes. */
static enum omma_status find_trie(const struct omma_model *model, struct ommai_token_trie **trie, struct omma_error *error) {
  const struct ommai_generation_config *generation = &model->config.generation;
  struct ommai_token_trie *none = NULL;
  *trie = atomic_load(&model->trie->trie);
  if (*trie) return OMMA_OK;
  OMMAI_TRY(ommai_model_require_tokenizer(model, error));
  OMMAI_TRY(ommai_token_trie_create(model->tokenizer, model->config.text.vocab_size, generation->stop_tokens,
                                    generation->n_stop_tokens, &model->allocator, trie, error));
  if (atomic_compare_exchange_strong(&model->trie->trie, &none, *trie)) return OMMA_OK;
  ommai_token_trie_destroy(*trie);
  *trie = none;
  return OMMA_OK;
}

enum omma_status omma_grammar_create(const struct omma_model *model, const struct omma_grammar_options *options,
                                     struct omma_grammar **out, struct omma_error *error) {
  static const enum ommai_answer_kind kinds[] = {[OMMA_GRAMMAR_JSON_SCHEMA] = OMMAI_ANSWER_JSON_SCHEMA,
                                                 [OMMA_GRAMMAR_JSON_OBJECT] = OMMAI_ANSWER_JSON_OBJECT,
                                                 [OMMA_GRAMMAR_REGEX] = OMMAI_ANSWER_REGEX,
                                                 [OMMA_GRAMMAR_CHOICE] = OMMAI_ANSWER_CHOICE,
                                                 [OMMA_GRAMMAR_GBNF] = OMMAI_ANSWER_GBNF};
  struct ommai_token_trie *trie;
  if (!model) return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "model", "grammar: there is no model");
  if ((unsigned)options->kind >= sizeof kinds / sizeof kinds[0]) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "kind", "unknown kind of grammar: %d", (int)options->kind);
  }
  OMMAI_TRY(find_trie(model, &trie, error));
  struct omma_grammar *grammar = ommai_allocate(&model->allocator, 1, sizeof *grammar);
  if (!grammar) return ommai_fail_memory(error, "grammar", sizeof *grammar);
  atomic_init(&grammar->users, 1);
  grammar->model = model;
  enum omma_status status = ommai_answer_grammar_create(kinds[options->kind], options->text, options->text_size,
                                                        options->compact_json, &model->allocator, &grammar->grammar, error);
  if (status == OMMA_OK) {
    *out = grammar;
  } else {
    omma_grammar_destroy(grammar);
  }
  return status;
}

void omma_grammar_destroy(struct omma_grammar *grammar) {
  if (!grammar || atomic_fetch_sub(&grammar->users, 1) != 1) return;
  ommai_token_masks_destroy(grammar->masks);
  ommai_grammar_destroy(grammar->grammar);
  ommai_release(&grammar->model->allocator, grammar, 1, sizeof *grammar);
}

struct omma_grammar *omma_grammar_share(struct omma_grammar *grammar) {
  if (grammar) atomic_fetch_add(&grammar->users, 1);
  return grammar;
}

/* ---- answers ---- */

enum omma_status ommai_structured_answer_start(struct ommai_structured_answer *answer, struct omma_grammar *grammar,
                                               struct omma_error *error) {
  *answer = (struct ommai_structured_answer){.grammar = grammar};
  if (!grammar) return OMMA_OK;
  if (!grammar->masks) {
    OMMAI_TRY(ommai_token_masks_create(grammar->grammar, atomic_load(&grammar->model->trie->trie), &grammar->masks, error));
  }
  answer->position = ommai_token_masks_start(grammar->masks);
  return OMMA_OK;
}

static bool advance(struct ommai_structured_answer *answer, int32_t token) {
  const char *bytes;
  size_t size;
  bool is_special;
  if (!ommai_tokenizer_token_bytes(answer->grammar->model->tokenizer, token, &bytes, &size, &is_special) || is_special)
    return false;
  return ommai_token_masks_advance(answer->grammar->masks, &answer->position, bytes, size);
}

/* Other answers may have filled the tables: then the place is found again by the answer's tokens. */
static void find_again(struct ommai_structured_answer *answer, const int32_t *generated, int64_t n_generated) {
  if (ommai_token_masks_know(answer->grammar->masks, &answer->position)) return;
  answer->position = ommai_token_masks_start(answer->grammar->masks);
  for (int64_t i = 0; i < n_generated && answer->position.state >= 0; i++) (void)advance(answer, generated[i]);
}

enum omma_status ommai_structured_answer_take(struct ommai_structured_answer *answer, const int32_t *generated,
                                              int64_t n_generated, struct omma_error *error) {
  find_again(answer, generated, n_generated - 1);
  if (answer->position.state >= 0 && advance(answer, generated[n_generated - 1])) {
    (void)ommai_token_masks_get(answer->grammar->masks, &answer->position, &answer->ends, &answer->goes_on);
    if (answer->ends || answer->goes_on) return OMMA_OK;
  }
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "structured_outputs",
                          "the vocabulary has no token that goes on with the answer as its grammar wants it");
}

bool ommai_structured_answer_is_over(const struct ommai_structured_answer *answer, bool ignore_eos) {
  if (!answer->grammar || answer->goes_on || !answer->ends) return false;
  return ignore_eos || answer->grammar->model->config.generation.n_stop_tokens == 0;
}

void ommai_structured_answer_mask(struct ommai_structured_answer *answer, const int32_t *generated, int64_t n_generated,
                                  bool ignore_eos, uint32_t *mask) {
  const struct ommai_model_config *config = &answer->grammar->model->config;
  find_again(answer, generated, n_generated);
  const uint32_t *made = ommai_token_masks_get(answer->grammar->masks, &answer->position, &answer->ends, &answer->goes_on);
  memcpy(mask, made, (size_t)ommai_mask_words(config->text.vocab_size) * sizeof *mask);
  for (size_t i = 0; ignore_eos && i < config->generation.n_stop_tokens; i++) {
    ommai_mask_clear(mask, config->generation.stop_tokens[i]);
  }
}

bool ommai_structured_answer_leaves(uint32_t *mask, int64_t n_words, const int32_t *banned, size_t n_banned) {
  bool had[OMMAI_MAX_STOP_TOKENS + OMMAI_REQUEST_MAX_STOP_TOKENS];
  uint32_t left = 0;
  for (size_t i = 0; i < n_banned; i++) {
    had[i] = ommai_mask_has(mask, banned[i]);
    ommai_mask_clear(mask, banned[i]);
  }
  for (int64_t i = 0; i < n_words; i++) left |= mask[i];
  for (size_t i = 0; i < n_banned; i++) {
    if (had[i]) ommai_mask_set(mask, banned[i]);
  }
  return left != 0;
}
