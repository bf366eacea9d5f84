/* The inside of omma_grammar, and the position of an answer in its grammar. */
#ifndef OMMAI_REQUEST_STRUCTURED_ANSWER_H
#define OMMAI_REQUEST_STRUCTURED_ANSWER_H

#include <omma/omma.h>
#include <stdatomic.h>

#include "grammar/token_mask.h"

struct omma_grammar {
  atomic_int users; /* the creator, and every request that has it */
  const struct omma_model *model;
  struct ommai_grammar *grammar;
  struct ommai_token_masks *masks; /* once it is created, the engine's thread alone */
};

/* Where an answer stands. Zero-initialised: there is no grammar. */
struct ommai_structured_answer {
  struct omma_grammar *grammar; /* or NULL */
  struct ommai_mask_position position;
  bool ends, goes_on; /* the answer may end here; may go on */
  bool stuck;         /* no token can follow, though bytes could */
};

/* Before the first token. `grammar` may be NULL. */
void ommai_structured_answer_start(struct ommai_structured_answer *answer, struct omma_grammar *grammar);

/* Takes the token that was drawn after `generated` [n_generated], which are the answer so far, it
 * included. Errors: ARGUMENT (no token could follow, so that this one is not of the grammar). */
enum omma_status ommai_structured_answer_take(struct ommai_structured_answer *answer, const int32_t *generated,
                                              int64_t n_generated, struct omma_error *error);

/* Whether the answer is complete and cannot continue, where no end token is generated: with
 * ignore_eos, or for a model without end tokens. */
bool ommai_structured_answer_is_over(const struct ommai_structured_answer *answer, bool ignore_eos);

/* Copies the mask of the tokens that may come next to mask [ommai_mask_words(vocab_size)]; with
 * ignore_eos without those that end answers. Where that leaves none, the mask has all, and the
 * answer is stuck. */
void ommai_structured_answer_mask(struct ommai_structured_answer *answer, const int32_t *generated, int64_t n_generated,
                                  bool ignore_eos, uint32_t *mask);

/* Whether the mask has a token besides n_banned ones. */
bool ommai_structured_answer_leaves(uint32_t *mask, int64_t n_words, const int32_t *banned, size_t n_banned);

/* Guesses up to `max_tokens` next tokens where the grammar leaves one way to go on over some bytes
 * (a key, punctuation): as the tokenizer cuts these bytes after the answer so far. Returns how
 * many.
 * What is drawn does not depend on it. */
int64_t ommai_structured_answer_guess(struct ommai_structured_answer *answer, const int32_t *generated, int64_t n_generated,
                                      int64_t max_tokens, int32_t *tokens);

/* Whether the next mask would have to be made, or one after guesses. */
bool ommai_structured_answer_needs_mask(const struct ommai_structured_answer *answer, int64_t n_guesses);
/* Makes the masks of the next token and of those after each guess, to be remembered. */
void ommai_structured_answer_prepare(const struct ommai_structured_answer *answer, const int32_t *guesses, int64_t n_guesses);

#endif
