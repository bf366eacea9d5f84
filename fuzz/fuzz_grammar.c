/* Schemas, patterns, grammars in GBNF and lists of texts. Byte 0 chooses which; what compiles is
 * walked through at random, and must always come to a text that it allows or go on. */
#include "base/allocator.h"
#include "fuzz_input.h"
#include "grammar/answer_grammar.h"
#include "grammar/recogniser.h"

enum { MAX_STEPS = 200 };

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
    walk(grammar, bytes[size - 1]);
    ommai_grammar_destroy(grammar);
  } else {
    FUZZ_CHECK(error.message[0] && status != OMMA_ERROR_INTERNAL);
  }
  return 0;
}
