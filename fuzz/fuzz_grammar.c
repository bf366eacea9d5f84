/* Schemas, patterns, grammars in GBNF and lists of texts. Byte 0 chooses which; what compiles is
 * walked through at random, byte by byte and token by token: it must always come to a text that it
 * allows or go on, within its limits of work. */
#include "base/allocator.h"
#include "fuzz_input.h"
#include "grammar/answer_grammar.h"
#include "grammar/token_mask.h"

enum { MAX_STEPS = 200, MAX_TOKENS = 12, MASK_WORK = 1000000 };

/* Any byte that leads on, looked for from a chosen one; -1: there is none. */
static int32_t any_step(struct ommai_recogniser *recogniser, int32_t state, unsigned first) {
  for (unsigned i = 0; i < 256; i++) {
    int32_t next = ommai_recogniser_next(recogniser, state, (unsigned char)(first + i));
    if (next == OMMAI_STATE_FULL) return next;
    if (next >= 0) return next;
  }
  return OMMAI_STATE_DEAD;
}

static void walk(struct ommai_grammar *grammar, unsigned seed) {
  struct ommai_recogniser *recogniser;
  struct omma_error error;
  if (ommai_recogniser_create(grammar, &recogniser, &error) != OMMA_OK) return;
  int32_t state = ommai_recogniser_start(recogniser);
  FUZZ_CHECK(state >= 0);
  for (int i = 0; i < MAX_STEPS && state >= 0; i++) {
    bool accepts = recogniser->states[state].accepts;
    seed = seed * 1103515245u + 12345u;
    state = any_step(recogniser, state, seed >> 16);
    FUZZ_CHECK(state >= 0 || state == OMMAI_STATE_FULL || accepts);
  }
  ommai_recogniser_destroy(recogniser);
}

/* The demo model's tokens, made once. */
static struct ommai_tokenizer *tokenizer;
static struct ommai_token_trie *trie;

static void load_tokens(void) {
  struct omma_error error;
  const int32_t end = 3;
  if (trie) return;
  FUZZ_CHECK(ommai_tokenizer_load(OMMA_FUZZ_MODEL, &ommai_default_allocator, &tokenizer, &error) == OMMA_OK);
  FUZZ_CHECK(ommai_token_trie_create(tokenizer, ommai_tokenizer_vocab_size(tokenizer), &end, 1, &ommai_default_allocator, &trie,
                                     &error) == OMMA_OK);
}

static int32_t any_token(const uint32_t *mask, unsigned first) {
  for (int64_t i = 0; i < trie->vocab_size; i++) {
    int32_t token = (int32_t)((first + (uint64_t)i) % (uint64_t)trie->vocab_size);
    if (token != 3 && ommai_mask_has(mask, token)) return token;
  }
  return -1;
}

/* Masks keep to their limit of work, and what they allow can be taken. */
static void draw_tokens(struct ommai_grammar *grammar, unsigned seed) {
  struct ommai_token_masks *masks;
  struct omma_error error;
  load_tokens();
  if (ommai_token_masks_create(grammar, trie, MASK_WORK, &masks, &error) != OMMA_OK) return;
  struct ommai_mask_position position = ommai_token_masks_start(masks);
  for (int i = 0; i < MAX_TOKENS && position.state >= 0; i++) {
    const char *bytes;
    size_t size;
    ommai_token_masks_limit(masks, MASK_WORK);
    bool made = ommai_token_masks_make(masks, &position, true);
    FUZZ_CHECK(ommai_token_masks_unlimited(masks) <= 2 * MASK_WORK);
    if (!made) break;
    seed = seed * 1103515245u + 12345u;
    int32_t token = any_token(ommai_token_masks_recall(masks, &position).words, seed >> 16);
    if (token < 0) break;
    FUZZ_CHECK(ommai_tokenizer_token_bytes(tokenizer, token, &bytes, &size, NULL));
    FUZZ_CHECK(ommai_token_masks_advance(masks, &position, bytes, size));
  }
  ommai_token_masks_destroy(masks);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  struct ommai_grammar *grammar;
  struct omma_error error = {0};
  if (size < 1) return 0;
  const struct ommai_grammar_source source = {.kind = (enum ommai_answer_kind)(bytes[0] % (OMMAI_ANSWER_GBNF + 1)),
                                              .text = (const char *)bytes + 1,
                                              .size = size - 1,
                                              .compact = bytes[0] & 64};
  enum omma_status status = ommai_answer_grammar_create(&source, &ommai_default_allocator, &grammar, &error);
  if (status == OMMA_OK) {
    FUZZ_CHECK(grammar->work <= OMMAI_GRAMMAR_MAX_WORK);
    walk(grammar, bytes[size - 1]);
    draw_tokens(grammar, bytes[size - 1]);
    ommai_grammar_destroy(grammar);
  } else {
    FUZZ_CHECK(error.message[0] && status != OMMA_ERROR_INTERNAL);
  }
  return 0;
}
