/* Schemas, patterns, grammars in GBNF and lists of texts. Byte 0 chooses which; with its bit 7 the
 * tokens of a vocabulary stand before them, each ended by 0xff and all by 0xfe, else it is the demo
 * model's. What compiles is walked through at random, byte by byte and token by token: it must
 * always come to a text that it allows or go on, and masks must say what the walk by bytes says.
 *
 * The cost of all of it is counted in the program's steps of work, which are the same in every run:
 * more than the limits of docs/security.md is a failure. */
#include <sodium.h>
#include <string.h>

#include "base/allocator.h"
#include "engine/mask_worker.h"
#include "fuzz_folder.h"
#include "fuzz_input.h"
#include "grammar/answer_grammar.h"
#include "grammar/token_mask.h"

/* Tokens of an answer, and turns that a mask gets before the answer is given up. */
enum { MAX_STEPS = 200, MAX_TOKENS = 12, MAX_TURNS = 6, MAX_OWN_TOKENS = 300, MAX_OWN_BYTES = 40 };
/* By which work may exceed a limit: what lies between two looks at it. */
#define BETWEEN_LOOKS 20000
/* Of a grammar that is being compiled (docs/security.md), with what is kept of it. */
#define MAX_COMPILE_BYTES ((size_t)128 << 20)

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

struct vocabulary {
  struct ommai_tokenizer *tokenizer;
  struct ommai_token_trie *trie;
};

static bool load_tokens(const char *folder, int32_t end, struct vocabulary *tokens) {
  struct omma_error error;
  *tokens = (struct vocabulary){NULL, NULL};
  if (ommai_tokenizer_load(folder, &ommai_default_allocator, &tokens->tokenizer, &error) != OMMA_OK) return false;
  int64_t n = ommai_tokenizer_vocab_size(tokens->tokenizer);
  FUZZ_CHECK(ommai_token_trie_create(tokens->tokenizer, n, &end, 1, &ommai_default_allocator, &tokens->trie, &error) ==
             OMMA_OK);
  return true;
}

/* A line of tiktoken.model. */
static size_t write_token(const uint8_t *bytes, size_t size, int rank, char *out) {
  sodium_bin2base64(out, 4 * MAX_OWN_BYTES, bytes, size, sodium_base64_VARIANT_ORIGINAL);
  return strlen(out) + (size_t)sprintf(out + strlen(out), " %d\n", rank);
}

/* The vocabulary of all bytes and the tokens of the input. Returns the bytes that these take; the
 * tokenizer is NULL where they are no vocabulary. */
static size_t take_tokens(const uint8_t *bytes, size_t size, struct vocabulary *tokens) {
  static const char *const names[] = {"tiktoken.model"};
  static char file[(256 + MAX_OWN_TOKENS) * (4 * MAX_OWN_BYTES + 8)];
  size_t n_file = 0, at = 0;
  int rank = 0;
  for (; rank < 256; rank++) n_file += write_token(&(uint8_t){(uint8_t)rank}, 1, rank, file + n_file);
  for (size_t begin = 0; at < size; at++) {
    if (bytes[at] < 0xfe) continue;
    if (at > begin + 1 && at - begin <= MAX_OWN_BYTES && rank < 256 + MAX_OWN_TOKENS) {
      n_file += write_token(bytes + begin, at - begin, rank++, file + n_file);
    }
    begin = at + 1;
    if (bytes[at] == 0xfe) break;
  }
  fuzz_folder_fill(names, 1, (const uint8_t *)file, n_file);
  load_tokens(fuzz_folder(), 0, tokens);
  return at < size ? at + 1 : size;
}

/* Each token, as far as the tables have room: the mask allows it exactly where the walk by bytes
 * does. */
static void check_mask(struct ommai_token_masks *masks, const struct ommai_mask_position *position,
                       const struct vocabulary *tokens, const uint32_t *mask) {
  for (size_t i = 0; i < tokens->trie->n_tokens; i++) {
    struct ommai_mask_position after = *position;
    const char *bytes;
    size_t size;
    int32_t token = tokens->trie->order[i];
    bool is_end = tokens->trie->n_end_tokens && token == tokens->trie->end_tokens[0];
    FUZZ_CHECK(ommai_tokenizer_token_bytes(tokens->tokenizer, token, &bytes, &size, NULL));
    if (is_end || !ommai_token_masks_try_advance(masks, &after, bytes, size, false)) continue;
    FUZZ_CHECK(ommai_mask_has(mask, token) == (after.state != OMMAI_STATE_DEAD));
  }
}

/* As the engine makes one: in a step, else in turns after it. False: it was given up. */
static bool make_mask(struct ommai_token_masks *masks, struct ommai_mask_position *position) {
  for (int turn = 0; turn <= MAX_TURNS; turn++) {
    int64_t limit = turn ? OMMAI_MASK_TURN_WORK : OMMAI_MASK_STEP_WORK;
    ommai_token_masks_limit(masks, limit);
    bool made = ommai_token_masks_make(masks, position, turn > 0);
    int64_t work = ommai_token_masks_unlimited(masks);
    FUZZ_CHECK(work <= limit + BETWEEN_LOOKS);
    if (made) return true;
  }
  return false;
}

static int32_t any_token(const struct ommai_token_trie *trie, const uint32_t *mask, unsigned first) {
  for (size_t i = 0; i < trie->n_tokens; i++) {
    int32_t token = trie->order[(first + i) % trie->n_tokens];
    if (token != trie->end_tokens[0] && ommai_mask_has(mask, token)) return token;
  }
  return -1;
}

/* Masks keep to their limits of work, and what they allow can be taken. */
static void draw_tokens(struct ommai_grammar *grammar, const struct vocabulary *tokens, bool check, unsigned seed) {
  struct ommai_token_masks *masks;
  struct omma_error error;
  if (ommai_token_masks_create(grammar, tokens->trie, OMMAI_GRAMMAR_MAX_WORK, &masks, &error) != OMMA_OK) return;
  FUZZ_CHECK(ommai_token_masks_unlimited(masks) <= OMMAI_GRAMMAR_MAX_WORK + BETWEEN_LOOKS);
  struct ommai_mask_position position = ommai_token_masks_start(masks);
  for (int i = 0; i < MAX_TOKENS && position.state >= 0; i++) {
    const char *bytes;
    size_t size;
    if (!make_mask(masks, &position)) break;
    const uint32_t *mask = ommai_token_masks_recall(masks, &position).words;
    if (check) check_mask(masks, &position, tokens, mask);
    seed = seed * 1103515245u + 12345u;
    int32_t token = any_token(tokens->trie, mask, seed >> 16);
    if (token < 0) break;
    FUZZ_CHECK(ommai_tokenizer_token_bytes(tokens->tokenizer, token, &bytes, &size, NULL));
    FUZZ_CHECK(ommai_token_masks_advance(masks, &position, bytes, size));
  }
  ommai_token_masks_destroy(masks);
}

/* The allocator that counts what a compilation holds. */
static size_t held, most_held;

static void *take_counted(void *context, size_t size, size_t alignment) {
  (void)context;
  held += size;
  if (held > most_held) most_held = held;
  return ommai_default_allocator.allocate(ommai_default_allocator.context, size, alignment);
}

static void give_counted(void *context, void *memory, size_t size) {
  (void)context;
  held -= size;
  ommai_default_allocator.release(ommai_default_allocator.context, memory, size);
}

/* The text takes exactly the work that was counted: with one step less it is refused. */
static void check_work(const struct ommai_grammar_source *source, int64_t work) {
  for (int less = 0; less < 2 && work > 1; less++) {
    struct ommai_grammar_source limited = *source;
    struct ommai_grammar *grammar;
    struct omma_error error;
    limited.max_work = work - less;
    enum omma_status status = ommai_answer_grammar_create(&limited, &ommai_default_allocator, &grammar, &error);
    FUZZ_CHECK(status == (less ? OMMA_ERROR_LIMIT : OMMA_OK));
    if (status == OMMA_OK) ommai_grammar_destroy(grammar);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static struct vocabulary demo;
  const struct omma_allocator counted = {.allocate = take_counted, .release = give_counted};
  struct vocabulary own = {NULL, NULL};
  struct ommai_grammar *grammar;
  struct omma_error error = {0};
  if (size < 1) return 0;
  if (!demo.trie) FUZZ_CHECK(load_tokens(OMMA_FUZZ_MODEL, 3, &demo));
  size_t skipped = 1 + (bytes[0] & 128 ? take_tokens(bytes + 1, size - 1, &own) : 0);
  const struct ommai_grammar_source source = {.kind = (enum ommai_answer_kind)((bytes[0] & 63) % (OMMAI_ANSWER_GBNF + 1)),
                                              .text = (const char *)bytes + skipped,
                                              .size = size - skipped,
                                              .compact = bytes[0] & 64};
  held = most_held = 0;
  enum omma_status status = ommai_answer_grammar_create(&source, &counted, &grammar, &error);
  FUZZ_CHECK(most_held <= MAX_COMPILE_BYTES);
  if (status == OMMA_OK) {
    FUZZ_CHECK(grammar->work <= OMMAI_GRAMMAR_MAX_WORK);
    if (grammar->work < OMMAI_GRAMMAR_MAX_WORK / 20) check_work(&source, grammar->work);
    walk(grammar, bytes[size - 1]);
    draw_tokens(grammar, own.trie ? &own : &demo, own.trie != NULL, bytes[size - 1]);
    ommai_grammar_destroy(grammar);
  } else {
    FUZZ_CHECK(error.message[0] && status != OMMA_ERROR_INTERNAL);
  }
  FUZZ_CHECK(held == 0);
  ommai_token_trie_destroy(own.trie);
  ommai_tokenizer_destroy(own.tokenizer);
  return 0;
}
